"""Held-out vectors in the judge: owed until evaluated, spent on what would pass, and one bit for the team."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from acceptd.evidence import (
    HeldOut,
    HeldOutUnder,
    JobRecord,
    KeptFile,
    Named,
    Problem,
    Statistics,
    Submission,
    Vectors,
)
from acceptd.judge.finding import Judgement
from acceptd.judge.heldout import due, parts
from acceptd.policy.policy import Policy
from acceptd.report import html, junit, sarif
from acceptd.report.document import document, for_team
from tests import heldout_world as own
from tests import judge_world as world

pytestmark = pytest.mark.unit


def judged(held: HeldOut | None, **more: Any) -> Judgement:
    return world.verdict(own.submission(held), contract=own.contract(), **more)


def told(held: HeldOut | None, **more: Any) -> dict[str, Any]:
    """Return the report for a reviewer."""
    given = own.submission(held)
    return document(
        given,
        world.verdict(given, contract=own.contract(), **more),
        world.a_manifest(),
        policy_digest="34" * 32,
        timings_ms={"seal": 1.0, "run": 2.0, "judge": 0.5, "heldout": 987.654, "total": 991.154},
    )


def team(held: HeldOut | None, **more: Any) -> str:
    """Return every byte that a team gets of one report."""
    shown = for_team(told(held, **more))
    parts = [json.dumps(shown, sort_keys=True), html.render(shown), json.dumps(sarif.render([("", shown)]))]
    return "\n".join([*parts, junit.render([("", shown)]).decode()])


# -- when it is evaluated ---------------------------------------------------------------------------------


def test_what_was_not_evaluated_is_never_accepted() -> None:
    found = judged(None)
    assert found.verdict == "inconclusive"
    assert found.reason == "a required stage is missing: heldout"
    assert world.verdict(own.submission(None), contract=world.a_contract()).verdict == "accepted"


def starts(given: Submission, policy: Policy | None = None) -> bool:
    found = world.verdict(given, contract=own.contract(), policy=policy)
    return due(own.contract(), given, found)


def test_an_evaluation_starts_only_when_all_else_passed() -> None:
    assert starts(own.submission(None))
    rejected = world.run(ending="crash", cause="SIGSEGV", done=None)
    assert not starts(own.submission(None, jobs=[rejected]))
    assert not starts(own.submission(None, jobs=[world.run(ending="lost", cause="wall", done=None)]))
    assert not starts(own.submission(None, walls={**world.WALLS, "seccomp": "failed"}))
    assert not starts(own.submission(own.held()))  # once


def test_what_something_else_holds_is_not_evaluated_and_says_so() -> None:
    holding = Policy.model_validate({"export": {"required": ["framework"]}})
    assert not starts(own.submission(None), holding)
    found = world.verdict(own.submission(None), contract=own.contract(), policy=holding)
    assert found.verdict == "held"
    assert "heldout/not-evaluated" in world.codes(found, "hold")


def test_a_rejected_bundle_hears_nothing_of_held_out_vectors() -> None:
    rejected = world.run(ending="crash", cause="SIGSEGV", done=None)
    found = world.verdict(own.submission(None, jobs=[rejected]), contract=own.contract())
    assert found.verdict == "rejected"
    assert not [code for code in world.codes(found) if code.startswith("heldout/")]


def test_without_an_evaluation_left_a_person_decides() -> None:
    found = judged(HeldOut(status="spent"))
    assert (found.verdict, world.codes(found, "hold")) == ("held", ["heldout/budget-spent"])


def test_a_local_check_passes_without_them_and_says_so() -> None:
    found = judged(HeldOut(status="local"))
    assert found.verdict == "accepted"
    assert "heldout/not-here" in world.codes(found, "info")


# -- one bit -----------------------------------------------------------------------------------------------


def wrong(**changes: Any) -> HeldOut:
    return own.held(rows=[own.row(**changes), own.row("heldout-1")])


FAULTS: dict[str, Callable[[], HeldOut]] = {
    "a value": lambda: wrong(exceeding=1, max_abs=0.5, worst_index=[0, 1], worst_expected="0.57", worst_got="0.1"),
    "a class": lambda: wrong(top1_mismatches=1),
    "no probabilities": lambda: wrong(range_violations=2),
    "a dtype": lambda: wrong(comparable=False, note="dtype", n=0),
    "a shape": lambda: wrong(comparable=False, note="shape", n=0),
    "an output is missing": lambda: wrong(comparable=False, note="missing", n=0),
    "every set": lambda: own.held(rows=[own.row(name, exceeding=3) for name in own.NAMES]),
    "a crash": lambda: own.held(own.decoded(), ended("crash", "SIGFPE"), statistics=None),
    "another crash": lambda: own.held(own.decoded(), ended("crash", "SIGSEGV"), rows=[own.row()]),
    "a forbidden call": lambda: own.held(own.decoded(), ended("crash", "SIGSYS"), statistics=None),
    "memory": lambda: own.held(own.decoded(), ended("limit", "memory"), statistics=None),
    "time": lambda: own.held(own.decoded(), ended("limit", "wall", cpu_s=0.5), statistics=None),
    "the processor": lambda: own.held(own.decoded(), ended("limit", "cpu"), statistics=None),
    "output": lambda: own.held(own.decoded(), ended("limit", "output"), statistics=None),
    "diagnostics": lambda: own.held(own.decoded(), ended("limit", "stderr", stderr_tail="0.57"), statistics=None),
    "the protocol": lambda: own.held(own.decoded(), ended("violation", "protocol"), statistics=None),
    "a refusal": lambda: own.held(own.decoded(), ended("refused", "", refused=refused()), statistics=None),
    "an error of the runtime": lambda: own.held(own.decoded(), own.a_run(cases=own.cases(error="0.57")), rows=[]),
    "a set left out": lambda: own.held(own.decoded(), own.a_run(cases=own.cases()[:1]), rows=[own.row()]),
    "a set that was never ordered": lambda: own.held(own.decoded(), own.a_run(cases=own.cases(set="other"))),
    "no run": lambda: own.held(own.decoded(), rows=[]),
    "another output type": lambda: own.held(own.decoded(), own.a_run(cases=own.cases(outputs=doubles()))),
}


def ended(ending: str, cause: str, **changes: Any) -> JobRecord:
    facts = {"done": None, "cases": own.cases()[:1], "message": "0.57", "peak_rss_bytes": 570, "wall_s": 0.57}
    return own.a_run(ending=ending, cause=cause, **(facts | changes))


def refused() -> dict[str, str]:
    return {"code": "run/failed", "where": "zebra_0", "message": "0.57", "stage": "session"}


def doubles() -> list[Named]:
    return [Named(name="probabilities", value=world.ref(dtype="float64"))]


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_however_it_fails_the_team_gets_the_very_same_bytes(fault: str) -> None:
    held = FAULTS[fault]()
    found = judged(held)
    assert found.verdict == "rejected", found.findings
    assert [code for code in world.codes(found) if code.startswith("heldout/")] == [
        "heldout/failed", "heldout/result",
    ]  # fmt: skip
    assert team(held) == team(FAULTS["a value"]())
    assert told(held) != told(FAULTS["a value"]()) or fault == "a value"  # a reviewer sees which


OUTAGES: dict[str, Callable[[], HeldOut]] = {
    "lost": lambda: own.held(own.decoded(), ended("lost", "SIGKILL that acceptd did not send"), statistics=None),
    "asleep": lambda: own.held(own.decoded(), ended("lost", "wall"), rows=[own.row(exceeding=1)]),
    "starved": lambda: own.held(own.decoded(), ended("limit", "wall", cpu_s=0.01), statistics=None),
    "a wall": lambda: own.held(
        own.decoded(), ended("unavailable", "a mandatory wall is missing"), statistics=None
    ),
    "the runtime": lambda: own.held(
        own.decoded(), ended("unavailable", "runtime/version-mismatch"), statistics=None
    ),
    "no decoding": lambda: own.held(world.record("vectors", ending="lost", vectors=None), statistics=None),
    "nothing decoded": lambda: own.held(world.record("vectors", vectors=None), statistics=None),
    "no job at all": lambda: own.held(own.a_run()),
    "a set that cannot be read": lambda: own.held(undecoded(), own.a_run()),
    "no comparer": lambda: own.held(statistics=None),
    "unpaired": lambda: own.held(statistics=Statistics(problems=[problem()])),
    "not there": lambda: HeldOut(status="refused", reason="0.57: no such directory", nonce="cd" * 16),
}


def undecoded() -> JobRecord:
    whole = own.decoded().vectors
    assert whole is not None
    return world.record("vectors", vectors=Vectors(sets=whole.sets[:1], problems=[problem()]))


def problem() -> Problem:
    return Problem(code="vectors/undecodable", where="zebra_1/output_0.pb", message="0.57")


@pytest.mark.parametrize("outage", sorted(OUTAGES))
def test_what_is_nobodys_fault_is_inconclusive_and_the_same_bytes_too(outage: str) -> None:
    held = OUTAGES[outage]()
    found = judged(held)
    assert (found.verdict, found.reason) == ("inconclusive", "a required stage is missing: heldout")
    assert team(held) == team(OUTAGES["lost"]())


@pytest.mark.parametrize(
    ("outage", "words"),
    [
        ("lost", "run ended by lost: SIGKILL that acceptd did not send"),
        ("nothing decoded", "held-out sets that cannot be decoded: all of them"),
        ("no job at all", "held-out sets that cannot be decoded: all of them"),
        ("a set that cannot be read", "held-out sets that cannot be decoded: zebra_1/output_0.pb: 0.57"),
        ("no comparer", "no statistics"),
        ("unpaired", "zebra_1/output_0.pb: 0.57"),
        ("not there", "0.57: no such directory"),
    ],
)
def test_a_reviewer_reads_why_nothing_was_evaluated(outage: str, words: str) -> None:
    (result,) = [one for one in judged(OUTAGES[outage]()).findings if one.code == "heldout/result"]
    assert result.message == words
    assert result.evidence["result"] == "not evaluated"
    assert result.evidence["findings"] == []


def test_a_pass_leaves_the_team_no_trace_of_an_evaluation() -> None:
    assert judged(own.held()).verdict == "accepted"
    shown = for_team(told(own.held()))
    assert shown["heldout"] is None
    assert not {one["code"] for one in shown["findings"]} & {"heldout/failed", "heldout/result"}
    assert set(shown["timings_ms"]) == {"seal", "run", "judge"}
    assert "987.654" not in team(own.held())
    slower = own.held(own.decoded(), own.a_run(wall_s=9.0, peak_rss_bytes=1 << 30, cpu_s=4.0))
    assert team(slower) == team(own.held())


def test_a_reviewer_sees_sets_by_their_own_names_and_the_worst_element() -> None:
    report = told(FAULTS["a value"]())
    (result,) = [one for one in report["findings"] if one["code"] == "heldout/result"]
    assert result["audience"] == "reviewer"
    assert result["evidence"]["findings"][0]["where"] == "main: zebra_0: probabilities"
    assert "0.57" in result["evidence"]["findings"][0]["message"]
    assert report["heldout"]["sets"] == own.NAMES
    assert "0.57" not in team(FAULTS["a value"]())


# -- whose tolerances --------------------------------------------------------------------------------------


def test_a_manifest_cannot_loosen_what_held_out_outputs_are_held_to() -> None:
    """Kinds and tolerances are the contract's; here it says `values`, the manifest says `probabilities`."""

    def values(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["kind"] = "values"

    held = own.held(rows=[own.row(name, range_violations=1) for name in own.NAMES])
    assert judged(held).verdict == "rejected"
    assert judged(held, manifest=world.a_manifest(values)).verdict == "rejected"


def test_a_policy_may_lower_a_mismatch_for_goldens_and_thereby_for_held_out_vectors() -> None:
    lenient = Policy.model_validate({"severity": {"parity/mismatch": "warn"}})
    held = own.held(rows=[own.row(exceeding=1), own.row("heldout-1")])
    assert judged(held, policy=lenient).verdict == "accepted"


@pytest.mark.parametrize("severity", ["warn", "info"])
def test_no_policy_lowers_the_bit_itself(severity: str) -> None:
    lenient = Policy.model_validate({"severity": {"heldout/failed": severity, "heldout/budget-spent": severity}})
    assert judged(FAULTS["a crash"](), policy=lenient).verdict == "rejected"
    assert judged(HeldOut(status="spent"), policy=lenient).verdict == "held"


# -- several profiles -------------------------------------------------------------------------------------


def several(second: JobRecord | None, rows: list[Any] | None = None, statistics: bool = True) -> HeldOut:
    """The first profile passes; the second one is as it is given."""
    jobs = [own.decoded(), own.a_run(), *([second] if second is not None else [])]
    found = Statistics(outputs=[own.row(name) for name in own.NAMES] if rows is None else rows)
    return own.held(*jobs, further=[HeldOutUnder(profile="npu", statistics=found if statistics else None)])


def failing() -> list[tuple[HeldOut, str]]:
    wrong = own.row("heldout-1", exceeding=1, max_abs=0.5, worst_expected="0.1", worst_got="0.6")
    good = own.a_run(profile="npu")
    crashed = own.a_run(profile="npu", ending="crash", cause="SIGSEGV", done=None, cases=[])
    return [
        (several(good, [own.row("heldout-0"), wrong]), "parity/"),
        (several(crashed, statistics=False), "run/crash"),
        (several(None, []), "run/crash"),
        (several(good, [own.row("heldout-0")]), "sandbox/protocol-violation"),
    ]


def test_what_passes_under_every_profile_passes() -> None:
    assert judged(several(own.a_run(profile="npu"))).verdict == "accepted"


def test_a_failure_under_one_profile_alone_is_the_one_bit_whichever_profile_is_judged() -> None:
    alone = team(own.held(own.decoded(), own.a_run(ending="crash", cause="SIGSEGV", done=None, cases=[])))
    for held, code in failing():
        found = judged(held)
        assert found.verdict != "accepted", code
        assert "heldout/failed" in world.codes(found)
        (result,) = [one for one in found.findings if one.code == "heldout/result"]
        assert any(one["code"].startswith(code) for one in result.evidence["findings"])
        assert all(one["where"].startswith("npu: ") for one in result.evidence["findings"])
        assert team(held) == alone, "nothing says which profile it was, or how"


def test_each_profile_has_its_own_runs_figures_and_kept_bytes_and_all_share_what_was_decoded() -> None:
    """A replay compares again the bytes that are kept under each profile: none may stand in for another's."""
    rows = [own.row("heldout-1", exceeding=1)]
    first, second = (KeptFile(sha256=char * 64, size=12) for char in "ab")
    further = [HeldOutUnder(profile="npu", statistics=Statistics(outputs=rows), kept={"runs": second})]
    runs = [own.a_run(), own.a_run(profile="npu")]
    held = own.held(own.decoded(), *runs, further=further, kept={"runs": first})
    (empty, usual), (name, under) = parts(held)
    assert (empty, name) == ("", "npu")
    assert [one.jobs for one in (usual, under)] == [[own.decoded(), run] for run in runs]
    assert [one.kept for one in (usual, under)] == [{"runs": first}, {"runs": second}]
    assert under.statistics == Statistics(outputs=rows)
    assert usual.statistics == held.statistics
    assert [one.further for one in (usual, under)] == [[], []]
    assert {one.nonce for one in (usual, under)} == {held.nonce}


def test_a_profile_whose_run_was_lost_makes_the_whole_evaluation_inconclusive() -> None:
    lost = own.a_run(profile="npu", ending="lost", cause="parent", done=None, cases=[])
    assert judged(several(lost, statistics=False)).verdict == "inconclusive"
    unmeasured = several(own.a_run(profile="npu"), statistics=False)
    assert judged(unmeasured).verdict == "inconclusive"


def test_a_failure_under_the_first_profile_is_not_hidden_by_the_second() -> None:
    wrong = own.row("heldout-1", exceeding=1, max_abs=0.5, worst_expected="0.1", worst_got="0.6")
    held = several(own.a_run(profile="npu")).model_copy(
        update={"statistics": Statistics(outputs=[own.row("heldout-0"), wrong])}
    )
    assert "heldout/failed" in world.codes(judged(held))
