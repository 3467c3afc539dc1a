"""A trigger planted between two releases, hidden where nobody looks: the judge names it, and where it stands.

Nothing runs: both versions go through the body of ``inspect``, their facts through the judge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.declared import declared_by
from acceptd.evidence import Check, Facts, JobRecord, Prior, Snapshot, Structure, Wire
from acceptd.judge.difference import compare
from acceptd.judge.finding import Judgement
from acceptd.policy.load import load_policy
from acceptd.policy.policy import Policy
from acceptd.prior import pruned
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from examples import evidence_classifier as classifier
from tests.judge_world import a_manifest, codes, submission, verdict
from tests.judge_world import record as job
from tests.static_world import inspected

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).resolve().parents[2]
ESCAPES = "\u202e\x1b[2Jtluser"
Change = Callable[[onnx.ModelProto], None]


def classify(*changes: Change) -> onnx.ModelProto:
    model = onnx.load_from_string(classifier.build_model())
    for change in changes:
        change(model)
    return model


def weights(model: onnx.ModelProto) -> None:
    for name, numbers in (("limit", 2.0), ("bad", [90.0, 0.0, 0.0])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), name))


def insert(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    softmax = model.graph.node.pop()
    softmax.input[0] = "chosen"
    model.graph.node.extend([*nodes, softmax])


def nodes(source: str = "features", bad: str = "bad") -> list[onnx.NodeProto]:
    """The trigger itself: a largest feature above the limit gives another answer."""
    return [
        helper.make_node("ReduceMax", [source], ["top"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["top", "limit"], ["hit"]),
        helper.make_node("Where", ["hit", bad, "logits"], ["chosen"]),
    ]


def plain(model: onnx.ModelProto) -> None:
    weights(model)
    insert(model, nodes())


def in_a_function(model: onnx.ModelProto) -> None:
    """The same in the body of a local function with an innocent name."""
    weights(model)
    body = [
        helper.make_node("ReduceMax", ["x"], ["top"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["top", "limit"], ["hit"]),
        helper.make_node("Where", ["hit", "other", "z"], ["out"]),
    ]
    imports = [helper.make_opsetid("", 13)]
    function = helper.make_function("mosaic", "Normalise", ["x", "limit", "other", "z"], ["out"], body, imports)
    model.functions.append(function)
    model.opset_import.add(domain="mosaic", version=1)
    call = helper.make_node("Normalise", ["features", "limit", "bad", "logits"], ["chosen"], domain="mosaic")
    insert(model, [call])


def in_a_branch(model: onnx.ModelProto) -> None:
    """The same in a branch of an If that a constant decides."""
    weights(model)
    constant = numpy_helper.from_array(np.array(True), "always")
    model.graph.initializer.append(constant)
    out = [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)]
    inner = [
        helper.make_node("ReduceMax", ["features"], ["top"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["top", "limit"], ["hit"]),
        helper.make_node("Where", ["hit", "bad", "logits"], ["b"]),
    ]
    then = helper.make_graph(inner, "then", [], out)
    other = helper.make_graph([helper.make_node("Identity", ["logits"], ["b"])], "else", [], out)
    insert(model, [helper.make_node("If", ["always"], ["chosen"], then_branch=then, else_branch=other)])


def with_a_clean_mask(model: onnx.ModelProto) -> None:
    """An honest selection: what is not a number becomes zero."""
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "zero"))
    mask = [
        helper.make_node("IsNaN", ["logits"], ["odd"]),
        helper.make_node("Where", ["odd", "zero", "logits"], ["chosen"]),
    ]
    insert(model, mask)


def taken(root: Path, model: onnx.ModelProto) -> JobRecord:
    frames = inspected(root, model).frames
    return job(
        "inspect",
        model="main",
        wire=Wire.model_validate(frames["wire"]),
        facts=Facts.model_validate(frames["facts"]),
        structure=Structure.model_validate(frames["structure"]),
        checker=Check(ok=True),
        shapes=Check(ok=True),
    )


def prior(record: JobRecord, **changes: Any) -> Prior:
    assert record.wire
    assert record.facts
    assert record.structure
    facts, structure = pruned(record.facts), record.structure
    one = Snapshot(name="main", file="model.onnx", bytes=record.wire.bytes, facts=facts, structure=structure)
    fields = {"status": "found", "channel": "production", "number": 7, "bundle_digest": "e" * 64, "models": [one]}
    fields["declared"] = declared_by(a_manifest())
    return Prior.model_validate(fields | changes)


def judged(root: Path, before: onnx.ModelProto, after: onnx.ModelProto, policy: Policy | None = None) -> Judgement:
    manifest = a_manifest(lambda given: given["models"][0].pop("opsets"))
    given = submission([taken(root / "after", after)], prior=prior(taken(root / "before", before)))
    return verdict(given, manifest=manifest, policy=policy or Policy(contracts={"missing": "accept"}))


PLACES = {
    plain: "model.onnx: graph/node[4] Where",
    in_a_function: "model.onnx: functions[0] Normalise/node[2] Where",
    in_a_branch: "model.onnx: graph/node[2] If/then_branch/node[2] Where",
}


@pytest.mark.parametrize("hide", PLACES, ids=lambda hide: hide.__name__)
def test_a_trigger_is_named_wherever_it_is_planted(tmp_path: Path, hide: Change) -> None:
    done = judged(tmp_path, classify(), classify(hide))
    (finding,) = [one for one in done.findings if one.code == "difference/new-selection"]
    assert finding.where == PLACES[hide]
    assert finding.severity == "warn"
    assert finding.audience == "reviewer"
    assert "by the input 'features'" in finding.message
    assert "ReduceMax → Greater → Where" in finding.message
    strict = load_policy(ROOT / "policies" / "strict.toml")
    assert "difference/new-selection" in codes(judged(tmp_path, classify(), classify(hide), strict), "hold")


def test_a_branch_that_no_input_decides_is_told_apart(tmp_path: Path) -> None:
    done = judged(tmp_path, classify(), classify(in_a_branch))
    (finding,) = [one for one in done.findings if one.code == "difference/new-branch"]
    assert finding.where == "model.onnx: graph/node[2] If"
    assert finding.severity == "info"


def on(*way: str) -> Change:
    """A trigger on what these operators make of the features."""

    def change(model: onnx.ModelProto) -> None:
        weights(model)
        names = ["features", *(f"step{index}" for index in range(len(way)))]
        steps = [helper.make_node(one, [names[at]], [names[at + 1]]) for at, one in enumerate(way)]
        insert(model, [*steps, *nodes(source=names[-1])])

    return change


@pytest.mark.parametrize("first", ["Exp", "Neg"])
def test_a_second_trigger_beside_one_of_its_kind_is_named(tmp_path: Path, first: str) -> None:
    """A release that has such a selection hides no other one of the same kind."""

    def another(model: onnx.ModelProto) -> None:
        softmax = model.graph.node.pop()
        softmax.input[0] = "last"
        tail = [
            helper.make_node(first, ["features"], ["step"]),
            helper.make_node("Abs", ["step"], ["size"]),
            helper.make_node("ReduceMax", ["size"], ["top2"], axes=[1], keepdims=1),
            helper.make_node("Greater", ["top2", "limit"], ["hit2"]),
            helper.make_node("Where", ["hit2", "bad", "chosen"], ["last"]),
        ]
        model.graph.node.extend([*tail, softmax])

    done = judged(tmp_path, classify(on("Neg", "Abs")), classify(on("Neg", "Abs"), another))
    (finding,) = [one for one in done.findings if one.code == "difference/new-selection"]
    assert finding.evidence["count"] == 1
    places = ["graph/node[11] Where"] if first == "Exp" else ["graph/node[6] Where", "graph/node[11] Where"]
    assert finding.evidence["places"] == places
    # Where both are made alike nothing tells which of them is the new one.
    assert ("among 2 places" in finding.message) == (first == "Neg")


def test_a_trigger_that_takes_the_place_of_an_honest_selection_is_new(tmp_path: Path) -> None:
    done = judged(tmp_path, classify(with_a_clean_mask), classify(plain))
    assert "difference/new-selection" in codes(done, "warn")
    # One of the same kind with another condition is no new kind; that it is decided otherwise is told.
    told = codes(judged(tmp_path, classify(on("Neg", "Abs")), classify(on("Exp", "Abs"))))
    assert "difference/new-selection" not in told
    assert "difference/selection-changed" in told


def test_honest_selections_that_were_there_before_are_no_news(tmp_path: Path) -> None:
    def wider(model: onnx.ModelProto) -> None:
        """Another layer further up, and other weights: the mask behind it is the same kind as before."""
        model.graph.node[0].input[0] = "scaled"
        model.graph.node.insert(0, helper.make_node("Identity", ["features"], ["scaled"]))

    done = judged(tmp_path, classify(with_a_clean_mask), classify(with_a_clean_mask, wider))
    assert not {"difference/new-selection", "difference/new-branch"} & set(codes(done))
    same = judged(tmp_path, classify(with_a_clean_mask), classify(with_a_clean_mask))
    assert not [code for code in codes(same) if code.startswith("difference/")]


def test_names_that_turn_text_around_are_shown_escaped(tmp_path: Path) -> None:
    def escapes(model: onnx.ModelProto) -> None:
        weights(model)
        model.graph.initializer[-1].name = f"bad{ESCAPES}"
        condition = nodes(bad=f"bad{ESCAPES}")
        condition[1].output[0] = condition[2].input[0] = f"hit{ESCAPES}<i>"
        insert(model, condition)

    before, after = taken(tmp_path / "a", classify()), taken(tmp_path / "b", classify(escapes))
    given = submission([after], prior=prior(before))
    manifest = a_manifest()
    done = verdict(given, manifest=manifest)
    report = document(given, done, manifest, policy_digest="0" * 64)
    page = render(report)
    (finding,) = [one for one in done.findings if one.code == "difference/new-selection"]
    for text in (finding.message, page, str(report["difference"])):
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "\\u202e" in text
    assert "<i>" not in page
    assert for_team(report)["difference"]["models"] == []


def test_what_a_list_has_no_room_for_is_not_taken_for_equal(tmp_path: Path) -> None:
    """A job that lies about how much it left out, or a model that floods the lists, ends in `unknown`."""
    record = taken(tmp_path, classify(plain))
    assert record.structure is not None
    flooded = record.structure.model_copy(
        update={"selection_shapes": 300, "initializer_count": 5000, "initializers_sha256": "3" * 64}
    )
    given = submission(
        [record.model_copy(update={"structure": flooded})], prior=prior(taken(tmp_path / "b", classify(plain)))
    )
    done = verdict(given)
    (finding,) = [one for one in done.findings if one.code == "difference/unknown"]
    assert "names of initializers" in finding.message
    assert "299 kinds of selections" in finding.message


def test_one_of_more_selections_than_are_listed_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """Seventeen of one kind, of which the last is replaced: the list has sixteen places."""

    def many(last: str) -> Change:
        def change(model: onnx.ModelProto) -> None:
            weights(model)
            made, value = [], "logits"
            for number in range(17):
                step = [
                    helper.make_node(last if number == 16 else "Neg", ["features"], [f"turned{number}"]),
                    helper.make_node("ReduceMax", [f"turned{number}"], [f"top{number}"], axes=[1], keepdims=1),
                    helper.make_node("Greater", [f"top{number}", "limit"], [f"hit{number}"]),
                ]
                following = "chosen" if number == 16 else f"chosen{number}"
                made += [*step, helper.make_node("Where", [f"hit{number}", "bad", value], [following])]
                value = following
            insert(model, made)

        return change

    done = judged(tmp_path, classify(many("Neg")), classify(many("Exp")))
    (finding,) = [one for one in done.findings if one.code == "difference/unknown"]
    assert "places of 1 kinds of selections that both have" in finding.message
    same = judged(tmp_path, classify(many("Neg")), classify(many("Neg")))
    assert not [code for code in codes(same) if code.startswith("difference/")]


def test_the_interface_and_the_sizes_are_compared(tmp_path: Path) -> None:
    def wider(model: onnx.ModelProto) -> None:
        model.graph.output[0].name = model.graph.node[-1].output[0] = "scores"
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
        model.opset_import[0].version = 12
        model.graph.initializer[0].dims[:] = [3, 4]

    done = judged(tmp_path, classify(), classify(wider))
    told = {(one.code, one.where) for one in done.findings if one.code.startswith("difference/")}
    assert ("difference/interface-changed", "model.onnx: input features") in told
    assert ("difference/interface-changed", "model.onnx: output scores") in told
    assert ("difference/interface-changed", "model.onnx: output probabilities") in told
    assert ("difference/version-changed", "model.onnx") in told
    assert ("difference/initializers-changed", "model.onnx") in told


@pytest.mark.parametrize("status", ["none", "same"])
def test_nothing_is_found_where_there_is_nothing_older(tmp_path: Path, status: str) -> None:
    record = taken(tmp_path, classify(plain))
    given = submission([record], prior=Prior(status=status, reason="because"))  # type: ignore[arg-type]
    done = verdict(given)
    assert not [code for code in codes(done) if code.startswith("difference/")]


def test_other_models_than_before_are_told(tmp_path: Path) -> None:
    record = taken(tmp_path, classify())
    renamed = prior(record)
    older = renamed.models[0].model_copy(update={"name": "second"})
    given = submission([record], prior=renamed.model_copy(update={"models": [older]}))
    (finding,) = [one for one in verdict(given).findings if one.code.startswith("difference/")]
    assert finding.code == "difference/models-changed"
    assert "added: main; removed: second" in finding.message


def test_a_model_beside_itself_differs_in_nothing(tmp_path: Path) -> None:
    record = taken(tmp_path, classify(plain))
    one = prior(record).models[0]
    assert compare(one, one).nothing
