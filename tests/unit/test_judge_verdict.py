"""The precedence, line by line: what is accepted, and that nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import JobRecord, Refused, SealFailure, Statistics, Submission, Walls
from acceptd.judge import stages
from acceptd.judge.inventory import take
from acceptd.judge.verdict import decide
from acceptd.judge.words import make
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit


def policy(**changes: Any) -> Policy:
    return Policy.model_validate(changes)


def test_a_flawless_submission_is_accepted_and_says_why() -> None:
    judged = world.verdict()
    assert judged.verdict == "accepted"
    assert world.codes(judged, "reject", "hold", "warn") == []
    assert judged.judged_at == world.NOW


# -- first line: a mandatory wall missing -> inconclusive


@pytest.mark.parametrize("state", ["unavailable", "failed", None])
@pytest.mark.parametrize("wall", Policy().required_walls)
def test_a_required_wall_that_did_not_stand_is_inconclusive(wall: str, state: str | None) -> None:
    walls = {name: kept for name, kept in world.WALLS.items() if name != wall}
    if state is not None:
        walls[wall] = state
    judged = world.verdict(world.submission(walls=walls))
    assert judged.verdict == "inconclusive"
    assert wall in judged.reason
    assert "cell/wall-missing" in world.codes(judged)


def test_a_wall_missing_in_one_single_job_is_inconclusive() -> None:
    states = Walls(states={"seccomp": "failed"}, notes={"seccomp": "EINVAL"})
    judged = world.verdict(world.submission([world.run(walls=states)]))
    assert judged.verdict == "inconclusive"
    assert "EINVAL" in judged.findings[0].message


def test_a_missing_wall_comes_before_a_reject() -> None:
    crashed = world.run(ending="crash", cause="SIGSEGV", cases=[])
    assert world.verdict(world.submission([crashed])).verdict == "rejected"
    assert world.verdict(world.submission([crashed], walls={})).verdict == "inconclusive"


def test_a_wall_that_the_policy_does_not_require_may_be_missing() -> None:
    walls = world.WALLS | {"memory_cgroup": "unavailable"}
    assert world.verdict(world.submission(walls=walls)).verdict == "accepted"


# -- second line: any reject -> rejected

FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"ending": "limit", "cause": "cpu"}, "resources/cpu-limit"),
    ({"ending": "limit", "cause": "memory"}, "resources/memory-limit"),
    ({"ending": "limit", "cause": "output"}, "resources/output-limit"),
    ({"ending": "limit", "cause": "stderr"}, "resources/stderr-limit"),
    ({"ending": "limit", "cause": "wall"}, "resources/wall-limit"),
    ({"ending": "limit", "cause": "threads"}, "resources/thread-limit"),
    ({"ending": "limit", "cause": "something new"}, "resources/other-limit"),
    ({"ending": "crash", "cause": "SIGFPE"}, "run/crash"),
    ({"ending": "crash", "cause": "SIGSYS"}, "sandbox/forbidden-call"),
    ({"ending": "violation", "message": "early reply"}, "sandbox/protocol-violation"),
    ({"ending": "refused", "refused": Refused(code="load/failed", where="session", message="no")}, "load/failed"),
    ({"ending": "refused"}, "sandbox/protocol-violation"),
]


@pytest.mark.parametrize(("ending", "code"), FAULTS)
def test_an_ending_that_is_the_models_fault_is_rejected(ending: dict[str, Any], code: str) -> None:
    judged = world.verdict(world.submission([world.run(done=None, stage="schema", cases=[], **ending)]))
    assert judged.verdict == "rejected"
    assert code in world.codes(judged, "reject")
    assert judged.reason.startswith(code)


@pytest.mark.parametrize("kind", ["manifest", "inspect", "vectors", "unpack"])
def test_a_crash_outside_run_is_rejected_too(kind: str) -> None:
    judged = world.verdict(world.submission([world.record(kind, ending="crash", cause="SIGSEGV", done=None)]))
    assert judged.verdict == "rejected"
    assert "sandbox/job-crash" in world.codes(judged, "reject")


def test_a_stage_that_a_reject_left_out_is_not_told() -> None:
    given = world.submission(team="other", statistics=None)
    given = given.model_copy(update={"jobs": [job for job in given.jobs if job.kind != "run"]})
    judged = world.verdict(given)
    assert (judged.verdict, "cell/stage-missing" in world.codes(judged)) == ("rejected", False)


def test_a_reject_comes_before_a_missing_stage_and_before_a_hold() -> None:
    given = world.submission([world.vectors(ending="lost", vectors=None)], team="other")
    judged = world.verdict(given, policy=policy(contracts={"missing": "hold"}))
    assert judged.verdict == "rejected"
    assert world.codes(judged, "reject") == ["manifest/team-mismatch"]


def test_a_drop_that_could_not_be_sealed_is_rejected_without_any_wall() -> None:
    failure = SealFailure(code="seal/symlink", where="model.onnx", message="a symbolic link")
    given = Submission(id="s", team="mosaic", sealed=None, seal_failure=failure)
    judged = world.verdict(given, manifest=None)
    assert (judged.verdict, judged.reason) == ("rejected", "seal/symlink at model.onnx: a symbolic link")


# -- third line: a stage missing -> inconclusive


@pytest.mark.parametrize("kind", ["manifest", "inspect", "vectors", "run"])
@pytest.mark.parametrize("ending", ["lost", "unavailable", None])
def test_a_stage_that_left_nothing_is_inconclusive(kind: str, ending: str | None) -> None:
    given = world.submission()
    jobs = [job for job in given.jobs if job.kind != kind]
    if ending is not None:
        jobs.append(JobRecord.model_validate({"kind": kind, "model": "main", "ending": ending}))
    judged = world.verdict(given.model_copy(update={"jobs": jobs}))
    assert judged.verdict == "inconclusive"
    assert "cell/stage-missing" in world.codes(judged)


@pytest.mark.parametrize("frame", ["wire", "facts", "structure", "checker", "shapes"])
def test_inspect_without_one_of_its_frames_is_inconclusive(frame: str) -> None:
    judged = world.verdict(world.submission([world.inspect(**{frame: None})]))
    assert judged.verdict == "inconclusive"
    assert frame in judged.reason


@pytest.mark.parametrize("frame", ["schema_", "placement", "done"])
def test_run_without_one_of_its_frames_is_inconclusive(frame: str) -> None:
    assert world.verdict(world.submission([world.run(**{frame: None})])).verdict == "inconclusive"


def _fewer(make: Any, repeats: int) -> Any:
    return make(
        cases=[case for case in world.golden_cases(repeats) if (case.set, case.repeat) != (world.SETS[1], 0)]
    )


@pytest.mark.parametrize(
    ("left", "changed", "gap"),
    [
        ("inspect", {}, "inspect main: no job"),
        ("run", {}, "run main: no job"),
        ("unoptimised", {}, "run main unoptimised: no job"),
        ("vectors", {}, "vectors"),
        ("manifest", {}, "manifest"),
        ("", {"jobs": lambda: world.inspect(ending="lost")}, "inspect main: ended by lost"),
        ("", {"jobs": lambda: world.run(schema_=None)}, "run main: schema"),
        ("", {"jobs": lambda: world.run(placement=None)}, "run main: placement"),
        ("", {"jobs": lambda: world.run(done=None)}, "run main: done"),
        ("", {"jobs": lambda: world.run(ending="lost")}, "run main: ended by lost"),
        (
            "",
            {"jobs": lambda: _fewer(world.run, 2)},
            f"run main: 1 of 4 golden runs, first {world.SETS[1]} repeat 0",
        ),
        ("", {"jobs": lambda: _fewer(world.unoptimised, 1)}, "run main unoptimised: golden runs"),
        ("", {"jobs": lambda: world.unoptimised(ending="lost")}, "run main unoptimised: ended by lost"),
        ("", {"statistics": lambda: None}, "compare main: no statistics"),
        (
            "",
            {"statistics": lambda: Statistics(outputs=world.statistics().outputs[:3])},
            f"compare main: statistics of set {world.SETS[1]}: 0 of 1 outputs",
        ),
    ],
)
def test_each_stage_that_is_missing_is_named_by_itself(left: str, changed: dict[str, Any], gap: str) -> None:
    given = world.submission([changed["jobs"]()] if "jobs" in changed else None)
    if "statistics" in changed:
        given = given.model_copy(update={"statistics": changed["statistics"]()})
    jobs = [job for job in given.jobs if left != (job.variant or job.kind)]
    given = given.model_copy(update={"jobs": jobs})
    assert given.sealed is not None
    manifest = world.a_manifest()
    assert gap in stages.missing(manifest, Policy(), given, take(given.sealed, manifest))
    assert world.verdict(given).verdict == "inconclusive"


@pytest.mark.parametrize("left_out", range(4))
def test_one_golden_run_less_is_inconclusive(left_out: int) -> None:
    cases = world.golden_cases()
    del cases[left_out]
    assert world.verdict(world.submission([world.run(cases=cases)])).verdict == "inconclusive"


def test_a_golden_set_that_the_vectors_job_left_out_is_inconclusive() -> None:
    short = world.vectors(vectors={"sets": [one.model_dump() for one in world.vector_sets()[:1]]})
    runs = [
        make(cases=[case for case in world.golden_cases(repeats) if case.set == world.SETS[0]])
        for make, repeats in ((world.run, 2), (world.unoptimised, 1))
    ]
    judged = world.verdict(world.submission([short, *runs]))
    assert judged.verdict == "inconclusive"
    assert "vectors: set test_data_set_1 of main" in [one.where for one in judged.findings]


@pytest.mark.parametrize("against", ["golden"])
@pytest.mark.parametrize("name", world.SETS)
def test_a_missing_statistic_of_any_golden_output_is_inconclusive(name: str, against: str) -> None:
    rows = [row for row in world.statistics().outputs if (row.set, row.against) != (name, against)]
    judged = world.verdict(world.submission(statistics=Statistics(outputs=rows)))
    assert judged.verdict == "inconclusive"
    assert name in judged.reason


def test_one_statistic_twice_does_not_stand_for_two() -> None:
    rows = [row for row in world.statistics().outputs if row.set != world.SETS[1] or row.against != "golden"]
    doubled = Statistics(outputs=[*rows, world.stats(world.SETS[0])])
    assert world.verdict(world.submission(statistics=doubled)).verdict == "inconclusive"


def test_a_dead_comparer_is_inconclusive() -> None:
    assert world.verdict(world.submission(statistics=None)).verdict == "inconclusive"


def test_the_run_without_optimisation_is_a_required_stage() -> None:
    given = world.submission()
    jobs = [job for job in given.jobs if job.variant != "unoptimised"]
    assert world.verdict(given.model_copy(update={"jobs": jobs})).verdict == "inconclusive"
    relaxed = policy(probes={"unoptimised": False})
    assert world.verdict(given.model_copy(update={"jobs": jobs}), policy=relaxed).verdict == "accepted"


def test_a_missing_stage_comes_before_a_hold() -> None:
    judged = world.verdict(world.submission(statistics=None), policy=policy(contracts={"missing": "hold"}))
    assert judged.verdict == "inconclusive"


def test_nothing_at_all_is_inconclusive() -> None:
    judged = world.verdict(Submission(id="s", team="mosaic", sealed=None), manifest=None)
    assert (judged.verdict, judged.reason) == ("inconclusive", "a required stage is missing: seal")


def test_a_lost_attempt_that_a_later_one_replaced_is_only_told() -> None:
    given = world.submission()
    lost = JobRecord(kind="run", model="main", ending="lost")
    judged = world.verdict(given.model_copy(update={"jobs": [lost, *given.jobs]}))
    assert judged.verdict == "accepted"
    assert "cell/job-retried" in world.codes(judged, "info")


# -- fourth line: any hold -> held


def test_a_hold_alone_is_held() -> None:
    judged = world.verdict(policy=policy(contracts={"missing": "hold"}))
    assert (judged.verdict, world.codes(judged, "hold")) == ("held", ["contract/missing"])


def test_warnings_do_not_decide() -> None:
    relaxed = policy(severity={"vectors/insensitive": "warn"})
    constant = world.submission(statistics=world.statistics(insensitive=["main: probabilities"]))
    judged = world.verdict(constant, policy=relaxed)
    assert (judged.verdict, world.codes(judged, "warn")) == ("accepted", ["vectors/insensitive"])


def test_a_missing_stage_names_the_job_that_was_lost() -> None:
    lost = make("cell/lost", "cell", "run main", "lost at step: wall")
    gap = make("cell/stage-missing", "judge", "compare main", "no complete evidence of this stage")
    word, reason = decide((gap, lost), walls=[], gaps=["compare main"])
    assert word == "inconclusive"
    assert reason == "a required stage is missing: compare main: cell/lost at run main: lost at step: wall"
