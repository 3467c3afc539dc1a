"""Goldens, repeats, probes, ceilings and providers: one promise or attack per test."""

from __future__ import annotations

import re
from typing import Any

import pytest

from acceptd.evidence import (
    Case,
    Named,
    PlacedNode,
    Placement,
    Problem,
)
from acceptd.judge.parity import expected_names, tolerance
from acceptd.judge.parity import parity as parity_of
from acceptd.judge.verdict import decide, judge
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from tests import judge_world as world

pytestmark = pytest.mark.unit


# -- parity


def parity(change: Any = None, **row: Any) -> tuple[str, list[str]]:
    given = world.submission(statistics=world.statistics(world.stats(**row)))
    judged = world.verdict(given, manifest=world.a_manifest(change))
    return judged.verdict, world.codes(judged, "reject", "hold", "warn")


def logits(document: dict[str, Any]) -> None:
    document["models"][0]["outputs"][0] |= {"kind": "logits", "tolerance": None}


def test_a_wrong_golden_is_rejected_with_its_worst_element() -> None:
    row = world.stats(exceeding=1, max_abs=0.2, worst_index=[0, 2], worst_expected="0.3", worst_got="0.5")
    judged = world.verdict(world.submission(statistics=world.statistics(row)))
    assert world.codes(judged, "reject") == ["parity/mismatch"]
    evidence = judged.findings[0].evidence
    assert (evidence["set"], evidence["output"], evidence["index"]) == ("test_data_set_0", "probabilities", [0, 2])
    assert (evidence["expected"], evidence["got"]) == ("0.3", "0.5")


@pytest.mark.parametrize(
    ("note", "code"),
    [
        ("missing", "parity/output-missing"),
        ("shape", "parity/shape"),
        ("dtype", "parity/dtype"),
        ("kind", "parity/kind"),
        ("malformed", "parity/malformed"),
        ("", "parity/malformed"),
    ],
)
def test_an_output_that_cannot_be_compared_is_rejected(note: str, code: str) -> None:
    assert parity(comparable=False, note=note, n=0) == ("rejected", [code])


def test_a_golden_of_another_shape_is_told_with_both_shapes() -> None:
    row = world.stats(comparable=False, note="shape", n=0)
    judged = world.verdict(world.submission(statistics=world.statistics(row)))
    found = next(one for one in judged.findings if one.code == "parity/shape")
    assert re.search(r": float32 \[\d+, 3\] instead of float32 \[\d+, 3\]$", found.message), found.message


def test_logits_that_drift_within_their_class_warn_and_another_class_rejects() -> None:
    assert parity(logits, exceeding=1, max_abs=1e-3) == ("accepted", ["parity/drift"])
    assert parity(logits, max_abs=1e-5, top1_mismatches=1) == ("rejected", ["parity/class-changed"])
    assert parity(logits, exceeding=1, max_abs=1.0) == ("rejected", ["parity/mismatch"])
    assert parity(logits, exceeding=1, max_abs="inf") == ("rejected", ["parity/mismatch"])


def test_logits_with_a_declared_tolerance_are_held_to_it() -> None:
    def declared(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0] |= {"kind": "logits", "tolerance": {"rtol": 0.0, "atol": 1e-6}}

    assert parity(declared, exceeding=1, max_abs=1e-3) == ("rejected", ["parity/mismatch"])


def test_probabilities_keep_range_sum_and_class() -> None:
    assert parity(range_violations=1) == ("rejected", ["parity/not-probabilities"])
    assert parity(top1_mismatches=1) == ("rejected", ["parity/class-changed"])


def test_a_declared_share_of_equal_classes_is_enough() -> None:
    def lenient(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"]["top1"] = 0.9

    assert parity(lenient, top1_total=100, top1_mismatches=10)[0] == "accepted"
    assert parity(lenient, top1_total=100, top1_mismatches=11)[0] == "rejected"


def test_tolerances_come_from_manifest_then_set_then_policy_under_the_caps() -> None:
    manifest, policy = world.a_manifest(), Policy()
    plain = world.vector_sets()[0]
    own = world.vector_sets(rtol=0.5, atol=1e-7)[0]
    output = manifest.models[0].outputs[0]
    bare = output.model_copy(update={"tolerance": None, "kind": "values"})
    assert tolerance(manifest, output, own, None, policy, "float32").atol == 1e-6
    from_set = tolerance(manifest, bare, own, None, policy, "float32")
    assert (from_set.rtol, from_set.atol, from_set.capped) == (policy.parity.max_rtol, 1e-7, True)
    usual = tolerance(manifest, bare, plain, None, policy, "float32")
    assert (usual.rtol, usual.atol, usual.capped) == (1e-3, 1e-5, False)
    assert tolerance(manifest, bare, plain, None, policy, "bfloat16").rtol == 2.0**-6
    contract = world.a_contract(lambda document: document.update({"max_atol": 1e-8}))
    assert tolerance(manifest, output, plain, contract, policy, "float32").atol == 1e-8


@pytest.mark.parametrize("counts", [{"n": 0}, {"n": 3, "non_finite": 3}], ids=["no element", "not finite"])
def test_an_output_whose_goldens_compare_nothing_is_unchecked(counts: dict[str, int]) -> None:
    def second(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"].append({"name": "boxes", "dtype": "float32", "shape": ["batch", 3]})

    rows = [world.stats(name, **counts) for name in world.SETS]
    full = [row.model_copy(update={"output": "boxes", "n": 3, "non_finite": 0}) for row in rows]
    found = list(parity_of(world.a_manifest(second), [*rows, *full], Policy()))
    assert [(one.code, one.severity, one.where) for one in found] == [
        ("vectors/output-unchecked", "hold", "main: probabilities")
    ]
    assert "no run of a golden set gave" in found[0].message, "the golden itself may well be finite"


def test_a_manifest_may_not_give_up_the_top_class() -> None:
    def careless(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"]["top1"] = 0.0

    assert parity(careless, top1_mismatches=1) == ("rejected", ["parity/class-changed", "parity/tolerance-capped"])


def test_the_tolerance_of_an_output_in_the_contract_is_a_cap() -> None:
    def strict(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"] = {"rtol": 0.0, "atol": 1e-7, "top1": 1.0}

    def lenient(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"]["top1"] = 0.9

    manifest, contract = world.a_manifest(lenient), world.a_contract(strict)
    output, golden = manifest.models[0].outputs[0], world.vector_sets()[0]
    held = tolerance(manifest, output, golden, contract, Policy(), "float32")
    assert (held.rtol, held.atol, held.top1, held.capped) == (0.0, 1e-7, 1.0, True)
    row = world.stats(top1_total=100, top1_mismatches=5)
    given = world.submission(statistics=world.statistics(row))
    assert world.verdict(given, manifest=manifest).verdict == "accepted"
    assert world.verdict(given, manifest=manifest, contract=contract).verdict == "rejected"


def test_logits_drift_no_further_than_the_contract_lets_them() -> None:
    given = world.submission(statistics=world.statistics(world.stats(exceeding=1, max_abs=1e-3)))
    contract = world.a_contract(lambda document: document["models"][0]["outputs"][0].update({"kind": "logits"}))
    manifest = world.a_manifest(logits)
    assert world.verdict(given, manifest=manifest).verdict == "accepted"
    assert world.codes(world.verdict(given, manifest=manifest, contract=contract), "reject") == ["parity/mismatch"]


def test_bfloat16_is_no_way_past_the_contracts_cap() -> None:
    manifest = world.a_manifest()
    bare = manifest.models[0].outputs[0].model_copy(update={"tolerance": None})
    held = tolerance(manifest, bare, world.vector_sets()[0], world.a_contract(), Policy(), "bfloat16")
    assert held.rtol == 0.001


def test_an_inferred_manifest_gets_onnxs_own_tolerance() -> None:
    manifest = world.a_manifest(lambda document: document["bundle"].update({"version": "0+inferred"}))
    bare = manifest.models[0].outputs[0].model_copy(update={"tolerance": None, "kind": "values"})
    held = tolerance(manifest, bare, world.vector_sets()[0], None, Policy(), "float32")
    assert (held.rtol, held.atol) == (1e-3, 1e-7)


def test_expected_values_are_assigned_by_name_or_by_position_but_never_by_both() -> None:
    def two(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"].append({"name": "logits", "dtype": "float32"})

    model = world.a_manifest(two).models[0]

    def names(*given: str) -> list[str] | None:
        expected = [Named(name=name, value=world.ref()) for name in given]
        return expected_names(world.vector_sets(expected=expected)[0], model)

    assert names("logits", "probabilities") == ["logits", "probabilities"]
    assert names("", "") == ["probabilities", "logits"]
    assert names("", "odd") == ["probabilities", "logits"]
    assert names("logits", "") is None
    assert names("logits", "logits") is None
    assert names("", "", "") is None


# -- behaviour


def test_repeats_and_optimisation() -> None:
    assert parity(against="repeat", exceeding=1) == ("held", ["behaviour/nondeterministic"])
    assert parity(against="repeat", comparable=False, note="shape") == ("held", ["behaviour/nondeterministic"])
    assert parity(against="unoptimised", exceeding=1) == ("accepted", ["behaviour/optimisation-differs"])
    changed = ("held", ["behaviour/optimisation-class-change"])
    assert parity(against="unoptimised", exceeding=1, top1_mismatches=1) == changed


def cased(**case: Any) -> list[str]:
    cases = world.golden_cases()
    cases[0] = Case.model_validate(cases[0].model_dump() | case)
    return world.codes(world.verdict(world.submission([world.run(cases=cases)])), "reject")


def test_an_output_that_the_run_does_not_keep() -> None:
    def named(**changes: Any) -> list[dict[str, Any]]:
        return [{"name": "probabilities", "value": world.ref().model_dump() | changes}]

    assert cased() == []
    assert cased(outputs=named(dtype="float64")) == ["behaviour/output-dtype"]
    assert cased(outputs=named(shape=[1, 77])) == ["behaviour/output-shape"]
    assert cased(outputs=named(shape=[3])) == ["behaviour/output-shape"]
    assert cased(outputs=named(shape=[33, 3])) == ["behaviour/output-shape"]
    assert cased(outputs=named(shape=[2, 3])) == ["behaviour/output-shape"]  # the input's batch is 1
    assert cased(outputs=[]) == ["behaviour/output-count"]
    assert cased(error="RuntimeException") == ["run/failed"]


def test_a_probe_that_is_not_finite_warns_inside_the_ranges() -> None:
    probe = Case(
        set="probe:high", repeat=0, outputs=[Named(name="probabilities", value=world.ref())], finite=False
    )
    judged = world.verdict(world.submission([world.run(cases=[*world.golden_cases(), probe])]))
    assert (judged.verdict, world.codes(judged, "warn")) == ("accepted", ["behaviour/probe-non-finite"])


def test_a_probe_whose_probabilities_are_none_is_rejected() -> None:
    told = parity(set="probe:high", against="probe", range_violations=1)
    assert told == ("rejected", ["behaviour/probe-not-probabilities"])
    assert parity(set="probe:high", against="probe") == ("accepted", [])


def test_a_model_that_only_runs_optimised_is_told() -> None:
    from acceptd.evidence import Refused

    refused = Refused(code="load/failed", where="session", message="NOT_IMPLEMENTED")
    judged = world.verdict(world.submission([world.unoptimised(ending="refused", refused=refused, cases=[])]))
    assert (judged.verdict, world.codes(judged, "warn")) == ("accepted", ["behaviour/unoptimised-failed"])


# -- ceilings and placement


@pytest.mark.parametrize(
    ("ceiling", "value", "code"),
    [
        ("peak_memory_bytes", 1, "resources/memory-ceiling"),
        ("model_bytes", 308, "resources/size-ceiling"),
    ],
)
def test_the_ceilings_of_the_contract(ceiling: str, value: float, code: str) -> None:
    contract = world.a_contract(lambda document: document["ceilings"].update({ceiling: value}))
    given = world.submission([world.run(peak_rss_bytes=2)])
    assert world.codes(world.verdict(given, contract=contract), "reject") == [code]


def placed(profile: dict[str, Any], **nodes: int) -> list[str]:
    listed = [PlacedNode(provider=name, domain="", op_type="Add", count=count) for name, count in nodes.items()]
    given = world.submission([world.run(placement=Placement(nodes=listed))])
    judged = judge(world.a_manifest(), None, Policy(), given, world.NOW, profile=Profile.model_validate(profile))
    return [one.code for one in judged.findings if one.code.startswith("placement/")]


def test_requested_and_actual_provider() -> None:
    cuda = {"providers": ["CUDAExecutionProvider"]}
    assert placed({}, CPUExecutionProvider=3) == []
    assert placed({}, AzureExecutionProvider=1, CPUExecutionProvider=2) == ["placement/provider-mismatch"]
    assert placed(cuda, CPUExecutionProvider=3) == ["placement/provider-mismatch", "placement/provider-unused"]
    allowed = placed(cuda | {"allow_cpu_fallback": True}, CPUExecutionProvider=3)
    assert allowed == ["placement/provider-unused", "placement/cpu-fallback"]
    assert placed(cuda, CUDAExecutionProvider=3) == []


@pytest.mark.parametrize(
    ("shape", "fault"),
    [([0, 4], "is 0, outside"), ([33, 4], "is 33, outside"), ([1, 5], "declared 4"), ([4], "rank")],
)
def test_a_golden_input_that_the_loader_would_refuse(shape: list[int], fault: str) -> None:
    named = Named(name="", value=world.ref().model_copy(update={"shape": shape}))
    frame = {"sets": [one.model_dump() for one in world.vector_sets(inputs=[named.model_dump()])], "problems": []}
    judged = world.verdict(world.submission([world.vectors(vectors=frame)]))
    (first, *_) = [one for one in judged.findings if one.code == "vectors/input-shape"]
    assert (judged.verdict, fault in first.message) == ("rejected", True)


def test_an_output_that_no_golden_expects_holds_where_goldens_are_required() -> None:
    def second(document: dict[str, Any]) -> None:
        outputs = document["models"][0]["outputs"]
        outputs.append({"name": "logits", "dtype": "float32", "shape": ["batch", 3]})

    relaxed = Policy.model_validate({"schema": 1, "vectors": {"required": False}})
    for policy, severity in ((Policy(), "hold"), (relaxed, "warn")):
        judged = world.verdict(world.submission(), manifest=world.a_manifest(second), policy=policy)
        assert "vectors/output-unchecked" in world.codes(judged, severity)


def test_a_problem_of_a_golden_set_carries_its_own_code() -> None:
    frame = {"sets": [one.model_dump() for one in world.vector_sets()]}
    problem = Problem(code="vectors/type-mismatch", where="test_data_set_0", message="float64")
    judged = world.verdict(world.submission([world.vectors(vectors=frame | {"problems": [problem.model_dump()]})]))
    assert (judged.verdict, world.codes(judged, "warn")) == ("accepted", ["vectors/type-mismatch"])


def test_the_reason_names_the_first_missing_stage_and_counts_the_others() -> None:
    assert decide((), walls=[], gaps=["run: main", "compare: main", "assets: no job"]) == (
        "inconclusive",
        "a required stage is missing: run: main (and 2 more)",
    )
    assert decide((), walls=[], gaps=["run: main"])[1] == "a required stage is missing: run: main"
    accepted = "every required stage is complete, and nothing rejects or holds"
    assert decide((), walls=[], gaps=[]) == ("accepted", accepted)
