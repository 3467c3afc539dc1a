"""One submission under several profiles: a verdict each, and what the whole one is made of."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import JobRecord, Statistics, Submission
from acceptd.judge.finding import Judgement
from acceptd.judge.profiles import Target, judge_all, runnable
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import parse_reduced
from acceptd.report.profiles import for_team, profile_rows
from tests import judge_world as world

pytestmark = pytest.mark.unit

CPU = Target(Profile(), "1" * 64)
OTHER = Target(Profile(name="other", optimisation="basic"), "2" * 64)
OPTIONAL = Target(OTHER.profile, OTHER.digest, required=False)
CRASH = {"ending": "crash", "cause": "SIGSEGV", "done": None}


def policy(*, optional: bool = False) -> Policy:
    names = {"profiles": ["cpu"], "optional_profiles": ["other"]} if optional else {"profiles": ["cpu", "other"]}
    return Policy.model_validate(names)


def both(statistics: Statistics | None = None, **changes: Any) -> Submission:
    """A flawless submission under two profiles; ``changes`` are of the run under the other one."""
    given = world.submission()
    others = [world.run(profile="other", **changes), world.unoptimised(profile="other")]
    under = {"profile": "other", "statistics": statistics or world.statistics()}
    fields = given.model_dump(by_alias=True) | {
        "profile": "cpu",
        "jobs": [job.model_dump(by_alias=True) for job in (*given.jobs, *others)],
        "others": [under | {"statistics": under["statistics"].model_dump()}],
    }
    return Submission.model_validate(fields)


def judged(given: Submission, *targets: Target, rules: Policy | None = None) -> Judgement:
    chosen = targets or (CPU, OTHER)
    named = rules or policy(optional=any(not one.required for one in chosen))
    return judge_all(world.a_manifest(), None, named, given, world.NOW, chosen)


def told(judgement: Judgement) -> dict[str, str]:
    return {one.profile: one.verdict for one in judgement.profiles}


def test_positive_control_both_accept() -> None:
    found = judged(both())
    assert found.verdict == "accepted", found.findings
    assert told(found) == {"cpu": "accepted", "other": "accepted"}
    alone = world.verdict()
    assert found.findings == alone.findings  # what both say alike is said once, without a name
    assert not any(one.profile for one in found.findings)


def test_one_profile_judges_as_ever_and_bears_its_verdict() -> None:
    found = judge_all(world.a_manifest(), None, Policy(), world.submission(), world.NOW, [CPU])
    alone = world.verdict()
    assert (found.verdict, found.reason, found.findings) == (alone.verdict, alone.reason, alone.findings)
    assert told(found) == {"cpu": "accepted"}


def test_a_crash_under_one_profile_rejects_and_names_it() -> None:
    found = judged(both(**CRASH))
    assert found.verdict == "rejected"
    assert told(found) == {"cpu": "accepted", "other": "rejected"}
    (crash,) = [one for one in found.findings if one.code == "run/crash"]
    assert crash.profile == "other"
    assert crash.where.startswith("other: run main")
    assert found.reason.startswith("under profile other: run/crash")


def test_an_optional_profile_decides_nothing_but_is_told() -> None:
    found = judged(both(**CRASH), CPU, OPTIONAL)
    assert found.verdict == "accepted"
    assert told(found) == {"cpu": "accepted", "other": "rejected"}
    assert not world.codes(found, "reject", "hold")
    (crash,) = [one for one in found.findings if one.code == "run/crash"]
    assert (crash.severity, crash.profile, crash.evidence["under_profile"]) == ("warn", "other", "reject")
    swapped = (Target(OTHER.profile, OTHER.digest), Target(CPU.profile, CPU.digest, required=False))
    rules = Policy.model_validate({"profiles": ["other"], "optional_profiles": ["cpu"]})
    required = judged(both(**CRASH), *swapped, rules=rules)
    assert required.verdict == "rejected"


def test_statistics_of_one_profile_never_speak_for_another() -> None:
    bad = world.statistics(world.stats(exceeding=2, max_abs=0.5, worst_index=[0, 1]))
    found = judged(both(statistics=bad))
    assert told(found) == {"cpu": "accepted", "other": "rejected"}
    given = both()
    missing = given.model_copy(update={"others": []})
    found = judged(missing)
    assert (found.verdict, told(found)["other"]) == ("inconclusive", "inconclusive")
    assert told(found)["cpu"] == "accepted"


@pytest.mark.parametrize(
    ("cpu", "other", "whole"),
    [
        ("reject", "lost", "rejected"),
        ("lost", "reject", "rejected"),
        ("lost", "", "inconclusive"),
        ("", "lost", "inconclusive"),
        ("hold", "lost", "inconclusive"),
        ("hold", "", "held"),
        ("", "hold", "held"),
    ],
)
def test_the_whole_verdict_is_the_worst_by_the_precedence(cpu: str, other: str, whole: str) -> None:
    def change(job: JobRecord, kind: str) -> JobRecord:
        if kind == "lost":
            return job.model_copy(update={"ending": "lost"})
        if kind == "reject":
            return job.model_copy(update=CRASH)
        assert job.schema_ is not None
        extra = job.cases[0].model_copy(update={"set": "probe:zeros", "error": "no", "in_domain": True})
        return job.model_copy(update={"cases": [*job.cases, extra]})

    given = both()
    wanted = {"cpu": cpu, "other": other}
    jobs = [
        change(job, wanted[job.profile]) if job.kind == "run" and not job.variant and wanted[job.profile] else job
        for job in given.jobs
    ]
    rules = Policy.model_validate({"profiles": ["cpu", "other"], "severity": {"behaviour/probe-error": "hold"}})
    found = judged(given.model_copy(update={"jobs": jobs}), rules=rules)
    assert found.verdict == whole, (found.reason, told(found))


def test_a_missing_wall_of_one_profiles_run_comes_before_another_profiles_reject() -> None:
    given = both(**CRASH)
    walls = given.jobs[0].walls
    assert walls is not None
    broken = walls.model_copy(update={"states": {**walls.states, "seccomp": "failed"}})
    jobs = [
        job.model_copy(update={"walls": broken}) if job.kind == "run" and job.profile == "cpu" else job
        for job in given.jobs
    ]
    found = judged(given.model_copy(update={"jobs": jobs}))
    assert told(found) == {"cpu": "inconclusive", "other": "rejected"}
    assert found.verdict == "inconclusive"


def test_a_build_that_lacks_an_operator_is_not_run_and_the_other_one_is() -> None:
    reduced = parse_reduced(b"ai.onnx;13;Add,MatMul\n", "ops.config")
    small = Target(OTHER.profile, OTHER.digest, reduced)
    known = world.submission()
    ready = list(runnable(world.a_manifest(), None, policy(), known, [CPU, small]))
    assert ready == [CPU]
    assert list(runnable(world.a_manifest(), None, policy(), known, [CPU, OTHER])) == [CPU, OTHER]


def test_opset_ranges_are_those_of_each_profile() -> None:
    rules = Policy.model_validate({"profiles": ["cpu", "other"], "opsets": {"profiles": {"other": {"max": 12}}}})
    found = judged(both(), rules=rules)
    assert told(found)["cpu"] == "accepted"
    assert told(found)["other"] != "accepted"
    assert {one.profile for one in found.findings if one.severity in {"reject", "hold"}} == {"other"}


def test_evidence_from_before_there_were_several_counts_for_its_own_profile_alone() -> None:
    old = world.submission()
    assert (old.profile, old.others) == ("", [])
    assert old.under("cpu") == old
    view = old.under("other")
    assert view.statistics is None
    assert not [job for job in view.jobs if job.kind == "run"]
    assert [job for job in view.jobs if job.kind == "inspect"]


def test_a_team_is_not_told_what_decided_where_only_reviewers_may_know() -> None:
    rows = profile_rows(judged(both()), both(), [CPU, OTHER])
    assert rows[0]["digest"] == "1" * 64
    assert for_team(rows) == rows
    secret = [row | {"reason": "a secret", "decided_by": "reviewer"} for row in rows]
    assert "secret" not in str(for_team(secret))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"profiles": []}, "profiles"),
        ({"profiles": ["cpu", "cpu"]}, "cpu stands twice"),
        ({"profiles": ["cpu"], "optional_profiles": ["cpu"]}, "optional_profiles: cpu stands twice"),
        ({"profile": "a", "profiles": ["b", "a"]}, "keep one of them"),
        ({"profiles": ["Upper"]}, "profiles"),
    ],
)
def test_profiles_that_cannot_be_meant(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Policy.model_validate(table)


def test_one_profile_and_a_list_of_one_are_the_same_policy() -> None:
    one, several = Policy.model_validate({"profile": "gpu"}), Policy.model_validate({"profiles": ["gpu"]})
    assert one == several
    assert one.under("gpu") is one
    assert policy().under("other").profiles == ["other"]
