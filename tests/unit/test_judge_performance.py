"""Ceilings on time: what is proved rejects, what noise could explain holds, what is kept in one job is kept."""

from __future__ import annotations

import random
from typing import Any

import pytest

from acceptd.evidence import Case, HostLoad, JobRecord, Kernel, Timing
from acceptd.judge.distribution import against, alternating, lower, quantile, ratio, upper
from acceptd.judge.performance import again, busy, warm_samples
from acceptd.policy.contract import Contract
from acceptd.policy.policy import PerformanceTable, Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit
QUIET = HostLoad(cores=2, load1=0.5, pressure=0.0, steal=0.0)
TABLE = PerformanceTable()


def timed(ms: list[float], variant: Any = "", host: HostLoad | None = QUIET, **more: Any) -> JobRecord:
    """A run whose second golden set was timed: its warm repeat and ``ms``."""
    cases = [
        Case(set=name, repeat=repeat, outputs=case.outputs, finite=True, wall_ms=wall)
        for case, name, repeat, wall in zip(
            world.golden_cases(), world.SETS * 2, (0, 0, 1, 1), (9.0, 2.0, 0.5, ms[0]), strict=True
        )
    ]
    timing = Timing(set=world.SETS[1], warmups=2, wall_ms=ms[1:])
    return world.run(variant=variant, cases=cases, timing=timing, host=host, wall_s=60.0, **more)


def contract(**ceilings: float) -> Contract:
    def only(document: dict[str, Any]) -> None:
        document["ceilings"] = ceilings

    return world.a_contract(only)


def judged(*runs: JobRecord, policy: Policy | None = None, **ceilings: float) -> list[tuple[str, str]]:
    found = world.verdict(world.submission(list(runs)), contract=contract(**ceilings), policy=policy)
    told = [one for one in found.findings if one.code.startswith(("performance/", "resources/"))]
    return [(one.code, one.severity) for one in told]


# -- statistics ---------------------------------------------------------------------------------------


def test_quantiles_are_nearest_rank_and_never_between_samples() -> None:
    hundred = [float(value) for value in range(1, 101)]
    assert [quantile(hundred, q) for q in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)


def test_a_bound_on_the_median_needs_seven_samples() -> None:
    """P(all n above the median) = 2^-n: below one in a hundred from seven on."""
    assert lower([5.0] * 6, 0.5) is None
    assert lower([5.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 0.5) == 5.0
    assert upper([5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0], 0.5) == 9.0


def test_bounds_hold_for_skewed_noise_as_often_as_they_say() -> None:
    """1,000 drawings of 30 from a lognormal with the median 1: a bound on the wrong side in about 1 of 100."""
    draw = random.Random(5)
    wrong = sum((lower([draw.lognormvariate(0, 1) for _ in range(30)], 0.5) or 0.0) > 1.0 for _ in range(1000))
    assert wrong <= 20


def test_a_median_at_its_ceiling_is_kept_and_one_tail_is_never_over_by_one_preemption() -> None:
    assert against([1.0] * 30, 0.5, 1.0, 5) == "within"
    assert against([1.0] * 99 + [40.0], 0.99, 2.0, 5) == "within"
    assert against([1.0] * 98 + [40.0] * 2, 0.99, 2.0, 5) == "unclear"
    assert against([1.0] * 50 + [40.0] * 50, 0.99, 2.0, 5) == "over"
    assert against([9.0] * 4, 0.5, 2.0, 5) == "too-few"


def test_a_ratio_is_over_only_beyond_the_bounds_of_both_medians() -> None:
    assert ratio([2.0] * 20, [1.0] * 20, 1.5, 5).outcome == "over"
    assert ratio([1.4] * 20, [1.0] * 20, 1.5, 5).outcome == "within"
    wide = [1.0, 1.2, 1.4, 1.6, 1.8] * 4
    assert ratio([value * 1.1 for value in wide], wide, 1.05, 5).outcome == "unclear"
    assert ratio([2.0] * 4, [1.0] * 20, 1.5, 5).outcome == "too-few"
    assert ratio([2.0] * 20, [0.0] * 20, 1.5, 5).outcome == "unclear"


def test_one_slow_minute_is_no_regression_in_alternating_jobs() -> None:
    fast, slow = [1.0] * 20, [3.0] * 20
    assert alternating([(slow, fast), (slow, fast)], 1.5, 5).outcome == "over"
    assert alternating([(slow, fast), (fast, fast)], 1.5, 5).outcome != "over"
    assert alternating([(slow * 2, fast)], 1.5, 5).outcome == "unclear"


# -- ceilings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "ceiling", "code"),
    [
        ("p50_ms", 2.0, "performance/latency-ceiling"),
        ("p95_ms", 2.0, "performance/latency-ceiling"),
        ("p99_ms", 2.0, "performance/latency-ceiling"),
        ("run_ms", 1.5, "resources/run-ceiling"),
        ("first_run_ms", 8.0, "performance/first-run-ceiling"),
        ("load_ms", 1.0, "resources/load-ceiling"),
    ],
)
def test_what_two_jobs_show_on_a_quiet_machine_is_rejected(key: str, ceiling: float, code: str) -> None:
    slow = [3.0] * 60
    assert judged(timed(slow), timed(slow, "timed"), **{key: ceiling}) == [(code, "reject")]


@pytest.mark.parametrize("key", ["p50_ms", "p99_ms", "run_ms", "first_run_ms", "load_ms"])
def test_one_job_rejects_nothing_for_its_time(key: str) -> None:
    assert judged(timed([3.0] * 60), **{key: 0.1}) == [("performance/unclear", "hold")]


def test_a_ceiling_that_one_of_two_jobs_keeps_is_kept() -> None:
    assert judged(timed([3.0] * 60), timed([1.0] * 60, "timed"), p50_ms=2.0) == []
    assert judged(timed([1.0] * 60), timed([3.0] * 60, "timed"), p50_ms=2.0) == []


@pytest.mark.parametrize(
    "host",
    [
        None,
        HostLoad(cores=2, pressure=0.5, steal=0.0),
        HostLoad(cores=2, pressure=0.0, steal=0.3),
        HostLoad(cores=2, load1=7.0),
    ],
)
def test_a_busy_machine_holds_and_never_rejects(host: HostLoad | None) -> None:
    slow = [3.0] * 60
    assert judged(timed(slow), timed(slow, "timed", host), p50_ms=2.0) == [("performance/unclear", "hold")]


def test_a_load_average_of_the_minute_before_is_outweighed_by_the_pressure() -> None:
    assert busy(HostLoad(cores=2, load1=9.0, pressure=0.01), TABLE) == ""
    assert "load average" in busy(HostLoad(cores=2, load1=9.0), TABLE)


def test_noise_that_two_jobs_cannot_rule_out_holds() -> None:
    noisy = [1.0, 3.0] * 15 + [3.0]
    assert judged(timed(noisy), timed(noisy, "timed"), p50_ms=2.0) == [("performance/unclear", "hold")]


def test_a_model_too_slow_to_be_timed_often_is_never_judged_by_one_sample() -> None:
    assert judged(timed([900.0]), timed([900.0], "timed"), p50_ms=2.0) == [("performance/unclear", "hold")]
    assert judged(timed([1.0]), timed([1.0], "timed"), p50_ms=2.0) == [("performance/unclear", "hold")]


def test_a_ceiling_that_nothing_was_measured_for_holds() -> None:
    given = [world.run(cases=[], host=QUIET)]
    assert ("performance/unmeasured", "hold") in judged(*given, p50_ms=2.0)


def test_a_budget_in_kernels_holds_on_any_machine() -> None:
    slow, fast = Kernel(name="k", wall_ms=[10.0] * 30), Kernel(name="k", wall_ms=[0.1] * 30)
    both = (timed([20.0] * 30, kernel=slow), timed([20.0] * 30, "timed", kernel=slow))
    assert judged(*both, p50_kernels=3.0) == []
    both = (timed([20.0] * 30, kernel=fast), timed([20.0] * 30, "timed", kernel=fast))
    assert judged(*both, p50_kernels=3.0) == [("performance/kernel-ceiling", "reject")]
    assert judged(timed([20.0] * 30), p50_kernels=3.0) == [("performance/unmeasured", "hold")]


def test_a_job_that_tells_of_more_time_than_it_had_is_seen() -> None:
    liar = timed([3.0] * 60).model_copy(update={"wall_s": 0.05})
    assert judged(liar) == [("performance/impossible", "hold")]


# -- timing again -------------------------------------------------------------------------------------


def test_a_model_is_timed_again_only_where_a_ceiling_does_not_look_kept() -> None:
    run = timed([3.0] * 60)
    assert again(run, contract(p50_ms=2.0), Policy())
    assert not again(run, contract(p50_ms=4.0), Policy())
    assert not again(run, None, Policy())
    assert not again(None, contract(p50_ms=2.0), Policy())
    assert not again(run.model_copy(update={"ending": "crash"}), contract(p50_ms=2.0), Policy())
    assert not again(run, contract(p50_ms=2.0), Policy(performance=PerformanceTable(retry=False)))


def test_the_warm_samples_leave_out_cold_runs_failures_and_other_sets() -> None:
    assert warm_samples(timed([3.0, 4.0])) == [3.0, 4.0]
    assert warm_samples(timed([3.0]).model_copy(update={"timing": None})) == [3.0]
    failed = [case.model_copy(update={"error": "no"}) for case in timed([3.0]).cases]
    assert warm_samples(world.run(cases=failed)) == []


def test_old_evidence_without_timing_is_still_read() -> None:
    old = world.run().model_dump(mode="json", by_alias=True)
    for key in ("timing", "kernel", "host"):
        old.pop(key)
    assert JobRecord.model_validate(old).timing is None
