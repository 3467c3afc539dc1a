"""Codes and severities, manifests and probes, what is known before the run, the form of findings."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import Case, Problem, Refused, Statistics
from acceptd.judge.codes import CODES, group, may_override
from acceptd.judge.finding import Severity
from acceptd.judge.verdict import pre_run
from acceptd.judge.words import MAX_PLACES, finish, make
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit


def policy(**changes: Any) -> Policy:
    return Policy.model_validate(changes)


# -- codes of jobs


def test_an_unknown_code_of_a_job_holds() -> None:
    problem = Problem(code="wire/invented", where="graph", message="hm")
    wire = world.inspect().wire
    assert wire is not None
    judged = world.verdict(world.submission([world.inspect(wire=wire.model_copy(update={"problems": [problem]}))]))
    assert (judged.verdict, world.codes(judged, "hold")) == ("held", ["sandbox/unknown-code"])


@pytest.mark.parametrize(
    "code", ["cell/lost", "policy/unknown-code", "contract/none", "parity/drift", "seal/symlink"]
)
def test_a_job_that_names_a_code_of_the_trusted_side_breaks_the_protocol(code: str) -> None:
    facts = world.facts(problems=[Problem(code=code, where="graph", message="mild")])
    judged = world.verdict(world.submission([world.inspect(facts=facts)]))
    assert world.codes(judged, "reject") == ["sandbox/protocol-violation"]


def test_a_refusal_with_a_harmless_code_is_never_accepted() -> None:
    refused = Refused(code="structure/unused-domain", where="graph", message="nothing to see")
    judged = world.verdict(world.submission([world.inspect(ending="refused", refused=refused, shapes=None)]))
    assert judged.verdict == "inconclusive"


# -- severities of the policy


@pytest.mark.parametrize("severity", ["hold", "warn", "info"])
@pytest.mark.parametrize(
    "code", ["run/crash", "sandbox/protocol-violation", "resources/cpu-limit", "manifest/team-mismatch"]
)
def test_a_policy_cannot_lower_what_shows_an_attack(code: str, severity: Severity) -> None:
    assert not may_override(code, severity)
    fault = world.run(ending="limit", cause="cpu", cases=[], done=None)
    judged = world.verdict(world.submission([fault]), policy=policy(severity={"resources/cpu-limit": "info"}))
    assert judged.verdict == "rejected"
    assert "policy/override-ignored" in world.codes(judged, "warn")


@pytest.mark.parametrize("severity", ["reject", "warn", "info"])
def test_a_policy_cannot_change_what_speaks_about_the_host(severity: Severity) -> None:
    assert not may_override("cell/lost", severity)


def test_a_policy_raises_and_lowers_other_codes() -> None:
    constant = world.submission(statistics=world.statistics(insensitive=["main: probabilities"]))
    assert world.verdict(constant, policy=policy(severity={"vectors/insensitive": "hold"})).verdict == "held"
    assert world.verdict(constant, policy=policy(severity={"vectors/insensitive": "reject"})).verdict == "rejected"


def test_an_unknown_code_in_the_policy_is_told() -> None:
    judged = world.verdict(policy=policy(severity={"run/invented": "reject"}))
    assert "policy/unknown-code" in world.codes(judged, "warn")


# -- manifests


def test_a_bundle_without_manifest_is_refused_held_or_accepted_as_the_policy_says() -> None:
    def change(document: dict[str, Any]) -> None:
        document["bundle"]["version"] = "0+inferred"

    given = world.submission(sealed=world.sealed(manifest=False), inferred=["interface"])
    manifest = world.a_manifest(change)
    verdicts = {
        rule: world.verdict(given, manifest=manifest, policy=policy(manifest={"inferred": rule}))
        for rule in ("refuse", "hold", "accept")
    }
    assert {rule: one.verdict for rule, one in verdicts.items()} == {
        "refuse": "rejected",
        "hold": "held",
        "accept": "accepted",
    }
    assert world.codes(verdicts["refuse"], "reject") == ["manifest/missing"]
    assert world.codes(verdicts["hold"], "hold") == ["manifest/inferred"]
    assert "manifest/inferred" in world.codes(verdicts["accept"], "info")


def test_a_person_cannot_write_the_version_of_inferred_manifests() -> None:
    def change(document: dict[str, Any]) -> None:
        document["bundle"]["version"] = "0+inferred"

    judged = world.verdict(manifest=world.a_manifest(change))
    assert "manifest/reserved-version" in world.codes(judged, "reject")


def test_an_inferred_manifest_beside_a_real_one_is_refused() -> None:
    judged = world.verdict(
        world.submission(inferred=["interface"]), policy=policy(manifest={"inferred": "accept"})
    )
    assert judged.verdict == "rejected"


def test_an_invalid_manifest_is_rejected_with_its_place() -> None:
    error = Problem(code="manifest/invalid", where="bundle.toml bundle.id", message="no model id")
    judged = world.verdict(world.submission(manifest_error=error), manifest=None)
    assert (judged.verdict, judged.reason) == (
        "rejected",
        "manifest/invalid at bundle.toml bundle.id: no model id",
    )


def test_a_bundle_without_model_and_manifest_says_so() -> None:
    only = world.sealed(manifest=False).model_copy(update={"files": []})
    judged = world.verdict(world.submission(sealed=only, jobs=[]), manifest=None)
    assert judged.verdict == "rejected"
    assert "manifest/no-model" in world.codes(judged, "reject")


def test_missing_goldens_reject_or_warn_as_the_policy_says() -> None:
    bare = world.sealed().model_copy(
        update={"files": [one for one in world.sealed().files if "/" not in one.path]}
    )

    def change(document: dict[str, Any]) -> None:
        del document["models"][0]["vectors"]

    given = world.submission([world.run(cases=[])], sealed=bare, statistics=Statistics())
    given = given.model_copy(update={"jobs": [job for job in given.jobs if job.kind != "vectors"]})
    manifest = world.a_manifest(change)
    assert world.codes(world.verdict(given, manifest=manifest), "reject") == ["vectors/missing"]
    relaxed = world.verdict(given, manifest=manifest, policy=policy(vectors={"required": False}))
    assert (relaxed.verdict, world.codes(relaxed, "warn")) == ("accepted", ["vectors/none"])


# -- probes and crashes


def test_a_crash_after_the_goldens_rejects_where_a_range_is_declared() -> None:
    crashed = world.run(ending="crash", cause="SIGFPE", done=None)
    judged = world.verdict(world.submission([crashed]))
    assert (judged.verdict, world.codes(judged, "reject")) == ("rejected", ["run/crash"])


def test_a_crash_that_only_inputs_outside_the_domain_cause_is_told() -> None:
    crashed = world.run(ending="crash", cause="SIGFPE", done=None, variant="outside")
    judged = world.verdict(world.submission([crashed, world.run()]))
    assert (judged.verdict, world.codes(judged, "warn")) == ("accepted", ["behaviour/probe-crash-outside"])


def test_a_crash_outside_the_domain_does_not_stand_in_for_the_run() -> None:
    given = world.submission([world.run(ending="crash", cause="SIGFPE", done=None, variant="outside")])
    alone = given.model_copy(update={"jobs": [job for job in given.jobs if job.kind != "run" or job.variant]})
    assert world.verdict(alone).verdict == "inconclusive"


def test_a_seccomp_kill_after_the_goldens_always_rejects() -> None:
    def change(document: dict[str, Any]) -> None:
        del document["models"][0]["inputs"][0]["range"]

    killed = world.run(ending="crash", cause="SIGSYS", done=None)
    judged = world.verdict(world.submission([killed]), manifest=world.a_manifest(change))
    assert world.codes(judged, "reject") == ["sandbox/forbidden-call"]


def test_probe_errors_reject_inside_the_domain_and_are_told_outside() -> None:
    inside = Case(set="probe:high", repeat=0, in_domain=True, error="Gather index")
    outside = Case(set="probe:nan", repeat=0, in_domain=False, error="NaN refused")
    judged = world.verdict(world.submission([world.run(cases=[*world.golden_cases(), inside, outside])]))
    assert world.codes(judged, "reject") == ["behaviour/probe-error"]
    assert "behaviour/probe-error-outside" in world.codes(judged, "info")


def test_a_case_that_was_never_ordered_is_rejected() -> None:
    strange = Case(set="test_data_set_9", repeat=0)
    judged = world.verdict(world.submission([world.run(cases=[*world.golden_cases(), strange])]))
    assert "run/unexpected-case" in world.codes(judged, "reject")


# -- pre_run


def test_what_is_known_before_the_run_is_told_before_the_run() -> None:
    known = world.submission([world.run(ending="crash", cause="SIGSEGV", cases=[])], team="other")
    before = pre_run(world.a_manifest(), None, Policy(), known)
    assert "manifest/team-mismatch" in [one.code for one in before]
    assert "run/crash" not in [one.code for one in before]


def test_a_flawless_bundle_is_let_through_to_the_run() -> None:
    assert [
        one for one in pre_run(world.a_manifest(), None, Policy(), world.submission()) if one.severity == "reject"
    ] == []


# -- the registry and the findings' form


def test_every_code_has_meaning_remedy_and_a_known_group() -> None:
    groups = {
        "seal", "archive", "manifest", "wire", "structure", "operator", "external-data", "schema", "vectors",
        "load", "run", "resources", "sandbox", "parity", "behaviour", "placement", "contract", "policy", "cell",
        "runtime", "target", "performance",
        "export", "license", "signature", "difference", "cost", "quantization", "payload", "quality", "heldout",
        "reference",
        "regression",
    }  # fmt: skip
    for code, known in CODES.items():
        assert known.meaning.endswith((".", ")")), code
        assert known.remedy, code
        assert group(code) in groups, code


def test_findings_are_sorted_and_long_families_are_counted() -> None:
    many = [make("structure/shadowed-name", "inspect", f"node {index:03}", "again") for index in range(100)]
    result = finish([*reversed(many), make("run/crash", "run", "run main", "died")])
    assert result[0].code == "run/crash"
    assert len(result) == 1 + MAX_PLACES
    assert sum(one.count for one in result[1:]) == 100


def test_hostile_text_is_shown_printable_and_short() -> None:
    name = "a\x1b[31m\u202e\ud800\n" + "x" * 10_000
    shown = make("run/failed", "run", name, name, {"name": name, "big": 2**60, "nan": float("nan")})
    for text in (shown.where, shown.message):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\n" not in text
        text.encode()
        assert len(text) < 1000
    assert shown.evidence["big"] == str(2**60)
    assert shown.evidence["nan"] == "nan"


class TestOneFindingPerFamilyAndPlace:
    def test_different_things_said_of_one_place_are_counted_there(self) -> None:
        three = [
            make("structure/unsafe-name", "inspect", "model.onnx: w", text) for text in ("ELF", "zip", "pickle")
        ]
        [one] = finish([*three, three[0]])
        assert (one.count, one.message) == (3, "ELF")

    def test_two_models_with_the_same_fault_in_the_same_place_are_both_told(self) -> None:
        both = [make("structure/unsafe-name", "inspect", f"{name}.onnx: graph/w", "ELF") for name in ("a", "b")]
        assert [one.where for one in finish(both)] == ["a.onnx: graph/w", "b.onnx: graph/w"]

    def test_a_reason_to_stop_that_is_a_fact_too_is_told_once_as_the_fact(self) -> None:
        fact = make("wire/truncated", "inspect", "model.onnx: byte 3", "ends in a field")
        reason = make("wire/truncated", "inspect", "inspect main: byte 3", "ends in a field")
        other = make("wire/truncated", "inspect", "inspect main: byte 4", "ends in a field")
        assert [one.where for one in finish([reason, fact])] == ["model.onnx: byte 3"]
        assert len(finish([reason, other, fact])) == 2

    def test_the_order_is_severity_stage_code_place(self) -> None:
        expected = [
            make("seal/symlink", "seal", "b", "m"),
            make("wire/truncated", "inspect", "a", "m"),
            make("wire/truncated", "inspect", "b", "m"),
            make("load/failed", "run", "a", "m"),
            make("parity/mismatch", "compare", "a", "m"),
            make("structure/unsafe-name", "inspect", "a", "m"),
            make("structure/shadowed-name", "inspect", "a", "m"),
        ]
        assert list(finish(reversed(expected))) == expected

    def test_what_is_cut_is_counted_by_stage(self) -> None:
        many = [make("sandbox/protocol-violation", stage, f"p{n:02}", "m") for n in range(30) for stage in
                ("inspect", "run")]  # fmt: skip
        result = finish(many)
        assert [sum(one.count for one in result if one.stage == stage) for stage in ("inspect", "run")] == [30, 30]
        assert len(result) == 2 * MAX_PLACES
