"""The model file as the judge sees it: limits, operators, checker, external data."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import (
    Check,
    External,
    OpsetImport,
    OpUse,
    Problem,
)
from acceptd.judge.structure import resolve
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit


def of(**facts: Any) -> list[str]:
    judged = world.verdict(world.submission([world.inspect(facts=world.facts(**facts))]))
    return world.codes(judged, "reject", "hold", "warn")


# -- structure


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"nodes": 200_001}, "structure/too-many-nodes"),
        ({"initializers": 50_001}, "structure/too-many-initializers"),
        ({"scopes": 20_001}, "structure/too-many-scopes"),
        ({"metadata_bytes": (1 << 20) + 1}, "structure/metadata-too-large"),
        ({"ir_version": 999}, "structure/ir-version-out-of-range"),
        ({"ir_version": 0}, "structure/ir-version-out-of-range"),
        ({"opsets": {"ai.onnx": 999}}, "structure/opset-out-of-range"),
        ({"opsets": {"ai.onnx": -1}}, "structure/opset-out-of-range"),
    ],
)
def test_counts_and_versions_beyond_the_policy(facts: dict[str, Any], code: str) -> None:
    assert code in of(**facts)


def operators(policy: dict[str, Any], *uses: str, functions: list[str] | None = None) -> list[str]:
    listed = [
        OpUse(domain=use.partition("::")[0], op_type=use.partition("::")[2], count=1, where="graph/node[0]")
        for use in uses
    ]
    facts = world.facts(operators=listed, functions=functions or [])
    given = world.submission([world.inspect(facts=facts)])
    return world.codes(world.verdict(given, policy=Policy.model_validate({"operators": policy})), "reject")


def test_an_operator_of_an_unlisted_domain() -> None:
    assert operators({}, "evil::Run") == ["operator/not-listed"]
    assert operators({"mode": "any"}, "evil::Run") == []
    assert operators({"domains": ["ai.onnx", "evil"]}, "evil::Run") == []


def test_a_denied_operator_is_denied_in_every_mode() -> None:
    for mode in ("listed", "any"):
        assert operators({"mode": mode, "denied": ["com.microsoft::PyOp"]}, "com.microsoft::PyOp") == [
            "operator/denied"
        ]
        assert operators({"mode": mode, "denied": ["ai.onnx::*"]}, "::Add") == ["operator/denied"]


def test_a_local_function_may_have_its_own_domain_but_not_a_strangers_operator() -> None:
    assert operators({}, "mine::F", functions=["mine::F"]) == []
    assert operators({}, "mine::G", functions=["mine::F"]) == ["operator/not-listed"]


def test_checker_and_shape_inference() -> None:
    def with_check(**frames: Any) -> list[str]:
        judged = world.verdict(world.submission([world.inspect(**frames)]))
        return world.codes(judged)

    assert "structure/checker-failed" in with_check(checker=Check(ok=False, message="no"))
    ssa = (
        "ValidationError: Graph must be in single static assignment (SSA) form, however 'z' has been used as "
        "output names multiple times.\n\n==> Context: Bad node spec for node. Name:  OpType: If"
    )
    assert "structure/shadowed-name" in with_check(checker=Check(ok=False, message=ssa))
    named = "ValidationError: Unrecognized attribute: x for operator Add\n\n==> Context: Bad node spec. Name: SSA"
    assert "structure/checker-failed" in with_check(checker=Check(ok=False, message=named))
    begun = "Graph must be in single static assignment (SSA) form in initializer but not in graph input"
    assert "structure/checker-failed" in with_check(checker=Check(ok=False, message=begun))
    assert "structure/checker-skipped" in with_check(checker=Check(ok=False, skipped="too large"))
    assert "structure/shape-inference-failed" in with_check(shapes=Check(ok=False, message="no"))
    failed = world.verdict(world.submission([world.inspect(checker=Check(ok=False, message="no"))]))
    assert failed.verdict == "held"


def test_a_hidden_payload_and_two_readings_of_the_file() -> None:
    wire = world.inspect().wire
    assert wire is not None
    hidden = wire.model_copy(update={"unknown_fields": 1, "unknown_bytes": 1 << 20})
    assert "wire/hidden-payload" in world.codes(
        world.verdict(world.submission([world.inspect(wire=hidden)])), "hold"
    )
    other = wire.model_copy(update={"ir_version": 9})
    assert world.codes(world.verdict(world.submission([world.inspect(wire=other)])), "reject") == [
        "wire/disagrees"
    ]


# -- external data


def external(
    location: str, *, offset: int | None = None, length: int | None = 60, inside: bool = True
) -> list[str]:
    one = External(
        tensor="w", location=location, offset=offset, length=length, where="graph/init[0]", inside=inside
    )
    facts = world.facts(external=[one], external_count=1)
    given = world.submission([world.inspect(facts=facts)], sealed=world.sealed("weights.bin"))
    return world.codes(world.verdict(given), "reject")


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../weights.bin",
        "a/../../weights.bin",
        "w\0.bin",
        "",
        ".",
    ],
)
def test_external_data_that_leads_out(location: str) -> None:
    assert external(location) == ["external-data/path-escape"]


@pytest.mark.parametrize("location", ["C:\\w", "C:/w", "http://h/w", "file:w", "//host/w", "\\\\host\\w"])
def test_external_data_that_lies_elsewhere(location: str) -> None:
    assert external(location) == ["external-data/remote-location"]


@pytest.mark.parametrize(
    "location", ["test_data_set_0/output_0.pb", "./test_data_set_1/input_0.pb", "bundle.toml", "model.onnx"]
)
def test_external_data_that_names_a_golden_the_manifest_or_a_model(location: str) -> None:
    assert external(location) == ["external-data/names-forbidden-file"]


def test_external_data_that_is_missing_or_beyond_the_file() -> None:
    assert external("weights.bin") == []
    assert external("other.bin") == ["external-data/missing-file"]
    assert external("weights.bin", offset=300, length=60) == ["external-data/out-of-range"]
    assert external("weights.bin", offset=2**63, length=2**63) == ["external-data/out-of-range"]
    assert external("weights.bin", inside=False) == ["external-data/path-escape"]


@pytest.mark.parametrize(
    ("location", "code"),
    [("weights.bin", "external-data/out-of-range"), ("gone.bin", "external-data/missing-file")],
)
def test_a_truncated_or_lost_data_file_is_one_finding_with_a_count(location: str, code: str) -> None:
    records = [
        External(tensor=f"w{n}", location=location, offset=1000 * n, length=60, where=f"graph/w{n}", inside=False)
        for n in range(1, 7)
    ]
    # The job tells of one of them too: it is the same thing, not another.
    problems = [Problem(code=code, where="graph/w1", message="tensor 'w1': said by the job")]
    facts = world.facts(external=records, external_count=6, problems=problems)
    given = world.submission([world.inspect(facts=facts)], sealed=world.sealed("weights.bin"))
    [one] = [one for one in world.verdict(given).findings if one.code == code]
    assert (one.count, one.evidence["tensors"], one.evidence["file"]) == (6, 6, location)


def test_locations_are_resolved_beside_the_model() -> None:
    assert resolve("sub/model.onnx", "./w/x.bin") == "sub/w/x.bin"
    assert resolve("sub/model.onnx", "../w.bin") is None


def test_more_external_records_than_were_reported() -> None:
    assert "external-data/too-many" in of(external=[], external_count=1)


DISAGREEMENTS = {
    "nodes": {"nodes": 4},
    "initializers": {"initializers": 1},
    "scopes": {"functions": 1},
    "IR version": {"ir_version": 9},
    "Attribute.tensors": {"counts": {"Attribute.tensors": 1}},
    "opset of ai.onnx": {"opsets": []},
}


@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_each_count_of_the_wire_form_is_held_against_the_parsed_model(what: str) -> None:
    wire = world.inspect().wire
    assert wire is not None
    other = wire.model_copy(update=DISAGREEMENTS[what])
    verdict = world.verdict(world.submission([world.inspect(wire=other)]))
    (one,) = [one for one in verdict.findings if one.code == "wire/disagrees"]
    assert one.severity == "reject"
    assert what in one.message


@pytest.mark.parametrize(
    ("domain", "version", "held"),
    [
        ("", 0, True), ("", -1, True), ("", 999, True), ("", 13, False), ("ai.onnx.ml", 100, True),
        ("ai.onnx.ml", 5, False), ("com.microsoft", 0, True), ("com.microsoft", 1, False),
        ("local", 1 << 32, True), ("local", 20260101, False),
    ],
)  # fmt: skip
def test_an_import_that_cannot_be_is_refused_in_a_function_too(domain: str, version: int, held: bool) -> None:
    wire = world.inspect().wire
    assert wire is not None
    one = OpsetImport(domain=domain, version=version, where="functions[3]/opset_import[0]")
    changed = wire.model_copy(update={"opsets": [*wire.opsets, one]})
    verdict = world.verdict(world.submission([world.inspect(wire=changed)]))
    found = [one.where for one in verdict.findings if one.code == "structure/opset-out-of-range"]
    assert found == (["model.onnx: functions[3]/opset_import[0]"] if held else [])
