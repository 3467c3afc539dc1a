"""What two manifests declare otherwise: each field is named with both values, no text poses as another."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from acceptd.config import CHECKOUT
from acceptd.declared import Declared, declared_by
from acceptd.evidence import Facts, Prior, Structure
from acceptd.judge.difference import compare
from acceptd.judge.finding import Judgement
from acceptd.judge.meaning import MAX_CHANGES, of_bundle, of_model
from acceptd.judge.successor import snapshots
from acceptd.model_facts import External
from acceptd.policy.load import load_policy
from acceptd.policy.policy import Policy
from acceptd.prior import Snapshot, data_digest
from acceptd.release.prior import _declared as stored
from acceptd.report.difference import sentence
from acceptd.report.document import document, for_team
from acceptd.report.html import render
from acceptd.report.terminal import print_verdict
from tests.judge_world import a_manifest, codes, inspect, manifest_document, submission, verdict

STRICT = CHECKOUT / "policies" / "strict.toml"
Edit = Callable[[dict[str, Any]], object]
FLAT = Structure(
    topology_sha256="a" * 64,
    graph_sha256="",
    parameters=15,
    initializers=[],
    initializer_count=0,
    initializers_sha256="b" * 64,
    selections=[],
    selection_shapes=0,
)


def output(**changes: Any) -> Edit:
    return lambda given: given["models"][0]["outputs"][0].update(changes)


def feature(**changes: Any) -> Edit:
    return lambda given: given["models"][0]["inputs"][0].update(changes)


def bundle(**changes: Any) -> Edit:
    return lambda given: given["bundle"].update(changes)


def judged(
    change: Edit, older: Edit | None = None, policy: Policy | None = None
) -> tuple[Judgement, dict[str, Any]]:
    """Judge a changed manifest over the very same model file; return the judgement and the report."""
    record = inspect().model_copy(update={"structure": FLAT})
    before, after = a_manifest(older), a_manifest(change)
    given = submission([record])
    models = [*snapshots(before, given.jobs, given.sealed).values()]
    prior = Prior(
        status="found",
        channel="production",
        number=7,
        bundle_digest="e" * 64,
        models=models,
        declared=declared_by(before),
    )
    given = given.model_copy(update={"prior": prior})
    done = verdict(given, manifest=after, policy=policy)
    return done, document(given, done, after, policy_digest="0" * 64)


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        (output(labels=["reject", "review", "accept"]), "order of labels (2 of 3)", '0: "accept", 2: "reject" in'),
        (output(labels=["accept", "review", "deny"]), "labels (1 of 3)", '2: "reject" in release 7'),
        (output(labels=["accept", "review"]), "labels (1 of 3)", "now 2: none"),
        (lambda given: given["models"][0]["outputs"][0].pop("labels"), ": labels", "now none"),
        (output(kind="values"), ": kind", '"probabilities" in release 7 (production), now "values"'),
        (feature(range=[-1.0, 1.0]), ": range", "[0.0, 1.0] in release 7 (production), now [-1.0, 1.0]"),
        (output(name="scores", labels=["c", "b", "a"]), '"scores"', "now declared"),
        (lambda given: given["models"][0].update(name="other"), 'model "other"', "now declared"),
    ],
)
def test_what_a_number_means_is_compared_and_strict_holds(change: Edit, where: str, message: str) -> None:
    done, _ = judged(change)
    told = [one for one in done.findings if one.code == "difference/meaning-changed"]
    assert all((one.severity, one.audience) == ("warn", "reviewer") for one in told)
    assert any(where in one.where and message in one.message for one in told), told
    strict, _ = judged(change, policy=load_policy(STRICT))
    assert "difference/meaning-changed" in codes(strict, "hold")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (output(tolerance={"rtol": 0.5, "atol": 1e-6, "top1": 1.0}), '"rtol": 0.5'),
        (output(shape=["batch", 4]), 'now ["batch", 4]'),
        (feature(dtype="float16"), 'dtype: "float32" in'),
        (lambda given: given["dims"]["batch"].update(max=64), 'dims."batch": 1 to 32 in'),
        (lambda given: given.pop("preprocessing"), 'preprocessing.version: "3" in'),
        (lambda given: given["labels"].update(schema_version="9"), 'labels.schema_version: "2" in'),
        (bundle(license="MIT"), 'bundle.license: none in release 7 (production), now "MIT"'),
        (bundle(purpose="decides alone"), 'now "decides alone"'),
        (bundle(prohibited_uses=["denial"]), 'not there in release 7 (production), now "denial"'),
    ],
)
def test_everything_else_that_is_declared_is_compared(change: Edit, message: str) -> None:
    done, report = judged(change)
    told = [one.message for one in done.findings if one.code == "difference/terms-changed"]
    assert any(message in one for one in told), told
    assert "difference/meaning-changed" not in codes(done)
    assert for_team(report)["difference"]["bundle"] is None


def test_the_same_declaration_is_no_difference() -> None:
    done, report = judged(lambda given: None)
    assert not [code for code in codes(done) if code.startswith("difference/")]
    assert "The same structure." in render(report)


def test_a_prohibited_use_that_is_gone_is_told() -> None:
    done, _ = judged(lambda given: None, older=bundle(prohibited_uses=["denial", "scoring of people"]))
    (one,) = [one for one in done.findings if one.code == "difference/terms-changed"]
    assert '"denial", "scoring of people" in release 7 (production), now removed' in one.message


def test_a_hostile_label_is_escaped_quoted_and_capped_everywhere() -> None:
    hostile = ['accept", 1: "review', "\u202e\x1b[2J<script>alert(1)</script>", "x" * 250]
    done, report = judged(output(labels=hostile))
    page, out = render(report), StringIO()
    print_verdict(Console(file=out, width=100, force_terminal=False), report, every_finding=True)
    (one,) = [one for one in done.findings if one.code == "difference/meaning-changed"]
    for text in (one.message, page, out.getvalue(), str(report["difference"])):
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert "<script>alert" not in page
    # Its own quotation marks do not end it, and its length does not push the values of others out.
    (change,) = report["difference"]["models"][0]["meaning"]
    assert change["after"].startswith('0: "accept\\", 1: \\"review"')
    assert "… (250 characters)" in change["after"]
    assert len(one.message) <= 400
    assert "now 0:" in one.message


def test_many_changed_ports_do_not_push_swapped_labels_out() -> None:
    def many(prefix: str, labels: list[str]) -> Edit:
        def change(given: dict[str, Any]) -> None:
            extra = [{"name": f"{prefix}{n}", "dtype": "float32", "shape": ["batch", 1]} for n in range(100)]
            given["models"][0]["inputs"] = [*extra, *given["models"][0]["inputs"]]
            given["models"][0]["outputs"][0]["labels"] = labels

        return change

    old, new = (declared_by(a_manifest(many(*one))) for one in (("a", ["x", "y"]), ("b", ["y", "x"])))
    said = of_model(old.models[0], new.models[0])
    assert "order of labels" in said.meaning[0].what
    assert len(said.meaning) == MAX_CHANGES + 1
    assert said.meaning[-1].after == "137 more changed"
    assert of_bundle(old, new).terms == ()


def test_a_stored_manifest_that_is_no_longer_valid_is_unknown_and_not_equal() -> None:
    def evidence(**changes: Any) -> dict[str, Any]:
        return {"jobs": [{"kind": "manifest", "manifest": manifest_document() | changes}]}

    known = stored(evidence())
    assert isinstance(known, Declared)
    assert known == declared_by(a_manifest())
    assert stored(evidence(since_forbidden=1)) is None
    assert stored({"jobs": []}) is None
    done, report = judged(lambda given: None)
    prior = Prior(status="found", number=7, channel="production", models=[])
    given = submission().model_copy(update={"prior": prior})
    done = verdict(given)
    assert any("what its manifest declares" in one.message for one in done.findings)
    report = document(given, done, a_manifest(), policy_digest="0" * 64)
    assert "no valid manifest any more" in render(report)


def one_model(sha256: str, data: str = "d", graph: str = "", facts: Facts | None = None) -> Snapshot:
    (one,) = snapshots(a_manifest(), [inspect().model_copy(update={"structure": FLAT})], None).values()
    structure = FLAT.model_copy(update={"graph_sha256": graph})
    return one.model_copy(update={"sha256": sha256, "data_sha256": data, "structure": structure})


@pytest.mark.parametrize(
    ("old", "new", "expected", "words"),
    [
        (one_model("1"), one_model("1"), "equal", "The same weights"),
        (one_model("1"), one_model("2"), "unknown", "model file digest differs, values not compared by name"),
        (one_model("1", data=""), one_model("1", data=""), "unknown", "Weights differ, or other bytes do"),
        (one_model("1"), one_model("1", data="e"), "unknown", "Weights differ, or other bytes do"),
        (one_model("1", graph="7" * 64), one_model("2", graph="7" * 64), "equal", "The same weights"),
        (one_model("1", graph="7" * 64), one_model("2", graph="8" * 64), "differ", "the digest over all values"),
        (one_model(""), one_model("2"), "", "at most values of weights differ"),
    ],
)
def test_what_digests_tell_of_weights_is_said_and_no_more(
    old: Snapshot, new: Snapshot, expected: str, words: str
) -> None:
    found = compare(old, new)
    assert found.weights == expected
    assert words in sentence(found.document())


def test_external_data_counts_as_weights_only_where_it_is_sealed() -> None:
    def at(location: str) -> External:
        return External(tensor="w", location=location, offset=0, length=4, where="graph", inside=True)

    sealed = {"m/model.onnx": "1", "m/w.bin": "2"}
    assert data_digest("m/model.onnx", [at("w.bin")], 1, sealed)
    assert data_digest("m/model.onnx", [at("w.bin")], 1, sealed) != data_digest(
        "m/model.onnx", [at("w.bin")], 1, sealed | {"m/w.bin": "3"}
    )
    assert data_digest("m/model.onnx", [at("../../etc/passwd")], 1, sealed) == ""
    assert data_digest("m/model.onnx", [at("w.bin")], 2, sealed) == ""
