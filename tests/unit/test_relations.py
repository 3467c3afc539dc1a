"""Relations between inferences: models that break one, models that must not, and what is told of the rest."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.compare.relations import Relations
from acceptd.evidence import Case, Named, Quantisation, SequenceRef, TensorRef
from acceptd.judge import relations
from acceptd.policy.policy import Policy
from sandbox import metamorphic, probing, session
from tests import judge_world
from tests.relation_world import Related, graph, node, related
from tests.run_world import BIAS, WEIGHT, model_bytes, tensor_info

pytestmark = pytest.mark.unit

ROWS_APART = [node("Relu", ["x"], ["r"]), node("Softmax", ["r"], ["y"], axis=1)]


def against(found: Related) -> set[str]:
    return {row.against for row in found.rows}


def test_rows_of_their_own_break_no_relation_and_every_relation_was_tried(tmp_path: Path) -> None:
    found = related(tmp_path, graph(ROWS_APART), kind="probabilities")
    assert found.findings == []
    expected = {"row", "order", "batch", "threads", "fresh", "concurrent", "unoptimised", "repeat"}
    assert against(found) == expected
    assert all(row.comparable and row.n for row in found.rows)
    told = found.told("relations")
    assert (told.concurrent, told.sizes, told.left_out) == (4, [1, 32, 7, 1], [])
    assert told.retained_bytes is not None
    singles = next(case for case in found.second.cases if case.set == "meta:single")
    assert singles.outputs[0].value.kind == "sequence"


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([node("Softmax", ["x"], ["y"], axis=0)], "behaviour/row-dependence"),
        ([node("ReduceMean", ["x"], ["m"], axes=[0]), node("Sub", ["x", "m"], ["y"])], "behaviour/row-dependence"),
        (
            [
                node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array(0))),
                node("CumSum", ["x", "axis"], ["y"]),
            ],
            "behaviour/order-dependence",
        ),
    ],
    ids=["softmax over the batch", "mean over the batch", "sums from row to row"],
)
def test_rows_that_influence_each_other_are_held(tmp_path: Path, nodes: list[Any], code: str) -> None:
    found = related(tmp_path, graph(nodes))
    assert found.codes[code] == "hold"
    declared = related(tmp_path, graph(nodes), rows_interact=True)
    assert declared.codes == {"behaviour/rows-interact-declared": "info"}
    assert not {"row", "order"} & against(declared)


def test_one_scale_for_the_batch_only_warns_where_the_model_says_that_it_is_quantised_so(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    facts = judge_world.facts()
    plain = related(tmp_path, graph(nodes), facts=facts)
    assert plain.codes["behaviour/row-dependence"] == "hold"
    quantised = judge_world.facts(quantisation=Quantisation(method="dynamic", format="qoperator", nodes=1))
    found = related(tmp_path, graph(nodes), facts=quantised)
    assert found.codes["behaviour/row-dependence"] == "warn"
    assert "behaviour/order-dependence" not in found.codes, "the scale is the same in any order"


def test_random_outputs_are_told_once_by_the_repeats(tmp_path: Path) -> None:
    nodes = [node("RandomNormalLike", ["x"], ["n"]), node("Add", ["x", "n"], ["y"])]
    found = related(tmp_path, graph(nodes))
    assert any(row.against == "repeat" and row.exceeding for row in found.rows)
    assert any(row.against == "row" and row.exceeding for row in found.rows)
    assert found.findings == []


def test_an_input_that_nothing_depends_on_is_told(tmp_path: Path) -> None:
    ignored = [node("Mul", ["z", "zero"], ["n"]), node("Add", ["x", "n"], ["y"])]
    zero = node("Constant", [], ["zero"], value=numpy_helper.from_array(np.zeros(1, np.float32)))
    found = related(tmp_path, graph([zero, *ignored], extra=("z",)), inputs=("x", "z"))
    assert [(one.code, one.where) for one in found.findings] == [("behaviour/input-ignored", "main: z")]
    used = related(tmp_path, graph([node("Add", ["x", "z"], ["y"])], extra=("z",)), inputs=("x", "z"))
    assert used.findings == []
    assert {row.set for row in used.rows if row.against == "input"} == {"probe:only-0:x", "probe:only-1:z"}


def test_a_single_input_is_varied_where_draws_cannot_share_an_inference(tmp_path: Path) -> None:
    shape = (2, 3)
    nodes = [node("Add", ["x", "z"], ["y"])]
    raw = graph(nodes, batch=2, extra=("z",))
    found = related(tmp_path, raw, inputs=("x", "z"), shape=shape, dims={})
    assert {row.set for row in found.rows if row.against == "input"} == {"probe:only-0:x", "probe:only-1:z"}
    assert found.findings == []


def test_a_model_that_is_slow_on_purpose_has_its_rows_compared_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each inference seems to take a second for each row, and five are left: enough for four rows alone."""
    tell = metamorphic._Relations._tell

    def slow(self: Any, *args: Any) -> Any:
        self.row_s = 1.0
        found = tell(self, *args)
        self.row_s = 1.0
        return found

    monkeypatch.setattr(metamorphic._Relations, "_tell", slow)
    monkeypatch.setattr(probing.Budget, "left", lambda self, share=1.0: 5.0)
    found = related(tmp_path, graph([node("Softmax", ["x"], ["y"], axis=0)]))
    assert "meta:draws" not in {case.set for case in found.second.cases}
    assert found.codes["behaviour/row-dependence"] == "hold"


@pytest.mark.parametrize(("seventh", "size"), [(math.nan, 7), (3.0, 7), (3.0, 32), (3.0, 1)])
def test_one_batch_size_with_answers_of_its_own_is_found(tmp_path: Path, seventh: float, size: int) -> None:
    """The same in every session, and every row alike: only batches of different sizes tell it."""
    numbers = {"first": np.array(0), "size": np.array(size), "one": np.float32(1), "other": np.float32(seventh)}
    constants = [
        node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(one), name))
        for name, one in numbers.items()
    ]
    nodes = [
        *constants,
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["rows"]),
        node("Equal", ["rows", "size"], ["hit"]),
        node("Where", ["hit", "other", "one"], ["factor"]),
        node("Mul", ["x", "factor"], ["y"]),
    ]
    found = related(tmp_path, graph(nodes))
    assert found.codes["behaviour/row-dependence"] == "hold"
    declared = related(tmp_path, graph(nodes), rows_interact=True)
    assert "behaviour/row-dependence" not in declared.codes


def test_an_output_with_a_first_dimension_of_its_own_is_told_as_not_compared(tmp_path: Path) -> None:
    sizes = {name: {"min": 1, "max": 32} for name in ("batch", "rows")}
    found = related(tmp_path, graph([node("Softmax", ["x"], ["y"], axis=0)]), answered=("rows", 3), dims=sizes)
    (finding,) = found.findings
    assert "rows and orders (no first dimension is that of inputs and outputs alike)" in finding.message


def test_a_fixed_batch_has_calls_of_its_own_and_no_rows(tmp_path: Path) -> None:
    found = related(tmp_path, graph(ROWS_APART, batch=2), shape=(2, 3), dims={})
    assert against(found) == {"threads", "fresh", "concurrent", "unoptimised", "repeat"}
    assert {case.set for case in found.second.cases if case.set.startswith("meta:")} == {
        "meta:draws", "meta:calls", "meta:concurrent-2", "meta:concurrent-4", "meta:threads",
    }  # fmt: skip
    calls = next(case for case in found.second.cases if case.set == "meta:calls")
    assert len(calls.outputs[0].value.items) == 4  # type: ignore[union-attr]


def test_without_a_range_the_golden_takes_the_place_of_draws(tmp_path: Path) -> None:
    found = related(tmp_path, graph([node("Softmax", ["x"], ["y"], axis=0)]), limits=None)
    assert found.codes["behaviour/row-dependence"] == "hold"
    assert "meta:golden" in {case.set for case in found.second.cases}


@pytest.mark.parametrize(
    ("room", "what"),
    [
        ({"seconds": 0.0, "threads": 8, "memory_bytes": 2 << 30}, "loading the model or its first inference"),
        ({"seconds": 600.0, "threads": 3, "memory_bytes": 2 << 30}, "meta:concurrent-4 (limits.threads)"),
        ({"seconds": 600.0, "threads": 8, "memory_bytes": 1}, "meta:concurrent-2 (memory)"),
        ({"sessions": 0}, "not tried: relations (probes.packed_bytes)"),
        ({"sessions": 1}, "a session with other threads (probes.packed_bytes); a fresh session for max (probes."),
    ],
    ids=["time", "threads", "memory", "no session", "one session"],
)
def test_what_did_not_fit_is_told(tmp_path: Path, room: dict[str, Any], what: str) -> None:
    found = related(tmp_path, graph(ROWS_APART), kind="probabilities", room=room)
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("behaviour/probes-left-out", "info")
    assert what in finding.message


def test_where_weights_stay_where_they_lie_only_the_two_processes_are_not_compared(tmp_path: Path) -> None:
    found = related(tmp_path, graph(ROWS_APART), kind="probabilities", packed=False)
    assert against(found) == {"row", "order", "batch", "threads", "concurrent", "unoptimised", "repeat"}
    assert all(row.comparable and row.n for row in found.rows)
    (finding,) = found.findings
    assert finding.message == "not tried: a fresh process (probes.packed_bytes)"
    golden = related(tmp_path, graph(ROWS_APART), kind="probabilities", limits=None, packed=False)
    assert "fresh" not in against(golden)


@pytest.mark.parametrize(("op", "code"), [("Softmax", "row"), ("CumSum", "order")])
def test_many_weights_hide_no_row_that_depends_on_others(tmp_path: Path, op: str, code: str) -> None:
    axis = node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array(0)))
    nodes = [node("Softmax", ["x"], ["y"], axis=0)] if op == "Softmax" else [axis, node(op, ["x", "axis"], ["y"])]
    assert related(tmp_path, graph(nodes), packed=False).codes[f"behaviour/{code}-dependence"] == "hold"


def test_the_second_process_packs_no_weights_where_it_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[dict[str, str]] = []
    apply = session.apply_options

    def noted(options: Any, profile: dict[str, Any], given: dict[str, str], *, optimised: bool) -> None:
        entries.append(dict(given))
        apply(options, profile, given, optimised=optimised)

    monkeypatch.setattr(session, "apply_options", noted)
    related(tmp_path, graph(ROWS_APART), packed=False)
    assert len(entries) == 6  # both processes' own, and four of the relations
    assert [one.get("session.disable_prepacking") for one in entries] == [None, "1", "1", "1", "1", "1"]


def test_no_time_for_draws_is_told_and_bounds_are_probed_all_the_same(tmp_path: Path) -> None:
    found = related(tmp_path, graph(ROWS_APART), probe_seconds=0.0)
    sets = {case.set for case in found.main.cases}
    assert {"probe:zeros", "probe:ones", "probe:dim-max:batch"} <= sets
    assert not any(name.startswith("probe:draws") for name in sets)
    inside = found.told("inside")
    assert (inside.counts["draws"], inside.left_out[0].what, inside.left_out[0].reason) == (0, "draws", "time")


def test_a_batch_size_that_fails_in_the_second_process_holds(tmp_path: Path) -> None:
    # The declared largest batch is 32, but the model reshapes to rows of 4 batches: 7 rows do not divide.
    shape = numpy_helper.from_array(np.array([-1, 12]), "wide")
    back = numpy_helper.from_array(np.array([-1, 3]), "back")
    nodes = [node("Reshape", ["x", "wide"], ["w"]), node("Reshape", ["w", "back"], ["y"])]
    raw = model_bytes(
        nodes,
        [tensor_info("x", TensorProto.FLOAT, ["batch", 3])],
        [tensor_info("y", TensorProto.FLOAT, ["batch", 3])],
        [shape, back],
    )
    found = related(tmp_path, raw, dims={"batch": {"min": 4, "max": 32}})
    failed = [one for one in found.findings if one.code == "behaviour/relation-failed"]
    assert [(one.severity, "meta:odd" in one.where) for one in failed] == [("hold", True)] * len(failed)
    assert failed


def test_near_ties_are_found_between_draws_inside_the_range(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.eye(3, dtype=np.float32) * 4, "w")
    raw = model_bytes(
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor_info("x", TensorProto.FLOAT, ["batch", 3])],
        [tensor_info("y", TensorProto.FLOAT, ["batch", 3])],
        [weights],
    )
    for sizes in ({"batch": {"min": 1, "max": 32}}, {"batch": {"min": 1, "max": 1}}):
        found = related(tmp_path, raw, kind="logits", dims=sizes)
        inside = found.told("inside")
        assert inside.classes == 3
        assert inside.counts["near ties"] == 2
        assert inside.least_margin is not None
        assert inside.least_margin < 1e-2
        ties = [case for case in found.main.cases if case.set.startswith("probe:tie-")]
        assert {(case.set, case.repeat) for case in ties} == {
            (f"probe:tie-{number}", repeat) for number in (0, 1) for repeat in (0, 1)
        }
        assert all(case.in_domain and not case.error for case in ties)
    assert not any(one.severity in {"hold", "reject"} for one in found.findings)


def test_one_class_everywhere_leaves_no_tie_to_search(tmp_path: Path) -> None:
    raw = graph([node("Constant", [], ["c"], value_floats=[9.0, 0.0, 0.0]), node("Add", ["x", "c"], ["y"])])
    inside = related(tmp_path, raw, kind="logits").told("inside")
    assert (inside.classes, inside.counts.get("near ties", 0)) == (1, 0)
    assert inside.least_margin is not None
    assert inside.least_margin > 5


def row(kind: str, **changes: Any) -> Any:
    fields = {"exceeding": 1, "max_abs": 0.5, "worst_expected": "0.25", "worst_got": "0.75"}
    return judge_world.stats("meta:x", against=kind, **(fields | changes))


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("concurrent", "hold"), ("fresh", "hold"), ("batch", "hold"), ("threads", "warn"), ("order", "hold")],
)
def test_a_clear_difference_weighs_more_than_a_rounding(kind: str, severity: str) -> None:
    manifest = judge_world.a_manifest()
    (clear,) = relations.comparisons(manifest, [row(kind)], {}, None, Policy())
    assert clear.severity == severity
    (rounding,) = relations.comparisons(manifest, [row(kind, max_abs=5e-6)], {}, None, Policy())
    assert rounding.severity == "warn"
    (other,) = relations.comparisons(
        manifest, [row(kind, comparable=False, note="shape", exceeding=0)], {}, None, Policy()
    )
    assert other.severity == severity
    assert not list(relations.comparisons(manifest, [row(kind, exceeding=0)], {}, None, Policy()))
    noisy = [row("repeat"), row(kind)]
    assert not list(relations.comparisons(manifest, noisy, {}, None, Policy()))


def test_a_not_a_number_is_a_clear_difference() -> None:
    (found,) = relations.comparisons(
        judge_world.a_manifest(), [row("row", max_abs="inf", worst_got="nan")], {}, None, Policy()
    )
    assert found.severity == "hold"


def test_a_case_of_a_relation_is_expected_of_the_second_process_alone() -> None:
    case = judge_world.golden_cases(1)[0].model_copy(update={"set": "meta:order", "error": "no"})
    second = judge_world.unoptimised(cases=[*judge_world.golden_cases(1), case])
    held = judge_world.verdict(judge_world.submission([second]))
    assert "behaviour/relation-failed" in judge_world.codes(held, "hold")
    main = judge_world.run(cases=[*judge_world.golden_cases(), case])
    assert "run/unexpected-case" in judge_world.codes(
        judge_world.verdict(judge_world.submission([main])), "reject"
    )


def test_the_classifier_passes_with_its_own_tolerance(tmp_path: Path) -> None:
    found = related(tmp_path, three_features(), shape=("batch", 3), kind="probabilities")
    assert found.findings == []


def three_features() -> bytes:
    """The evidence classifier with three of its features, and the names of this file."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"], axis=-1),
    ]
    return model_bytes(
        nodes,
        [tensor_info("x", TensorProto.FLOAT, ["batch", 3])],
        [tensor_info("y", TensorProto.FLOAT, ["batch", 3])],
        [
            numpy_helper.from_array(WEIGHT[:3], "w"),
            numpy_helper.from_array(BIAS, "b"),
        ],
    )


@pytest.mark.parametrize(
    "told",
    [
        TensorRef(dtype="string", shape=[2, 3], offset=0, nbytes=24),
        TensorRef(dtype="float32", shape=[], offset=0, nbytes=4),
        TensorRef(dtype="float32", shape=[0, 3], offset=0, nbytes=0),
        TensorRef(dtype="float32", shape=[5, 3], offset=0, nbytes=61),
        SequenceRef(items=[judge_world.ref()]),
    ],
    ids=["strings", "a scalar", "no rows", "rows of no width", "a sequence"],
)
def test_what_has_no_rows_to_cut_is_held_against_no_row(told: TensorRef | SequenceRef) -> None:
    """Its references are a job's word: rows that are none must not become references of ours."""
    fed = ("probe:draws-0", "meta:draws", "meta:single", "meta:order", "meta:min", "meta:odd", "meta:max")
    cases = [Case(set=name, repeat=0, outputs=[Named(name="probabilities", value=told)]) for name in fed]
    main, second = judge_world.run(cases=cases), judge_world.unoptimised(cases=cases)
    manifest = judge_world.a_manifest()
    found = [*Relations(manifest, manifest.models[0], None, Policy(), [], main, second).pairs()]
    assert {"fresh", "unoptimised"} <= {one.against for one in found}
    assert not {"row", "order"} & {one.against for one in found}


def test_a_model_that_answers_once_is_held_against_all_that_were_asked_at_once() -> None:
    """Where no row was asked alone the answer of one call stands for each of them, and none is invented."""
    one = SequenceRef(items=[judge_world.ref()])
    empty = SequenceRef(items=[])
    for single, expected in ((one, [judge_world.ref()] * 4), (empty, []), (judge_world.ref(), None)):
        cases = [
            Case(set=name, repeat=0, outputs=[Named(name="probabilities", value=value)])
            for name, value in (("meta:calls", single), ("meta:concurrent-4", one))
        ]
        manifest = judge_world.a_manifest()
        second = judge_world.unoptimised(cases=cases)
        found = Relations(manifest, manifest.models[0], None, Policy(), [], judge_world.run(), second).pairs()
        (pair,) = [pair for pair in found if pair.against == "concurrent"]
        value = pair.expected.value
        assert (value.items if isinstance(value, SequenceRef) else None) == expected
