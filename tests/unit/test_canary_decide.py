"""Promote, hold or roll back: what a small sample must not do, and what each limit does."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.canary.decide import decide
from acceptd.canary.figures import Compared, Quantile, Sample, Shift
from acceptd.policy.canary import CanaryTable

pytestmark = pytest.mark.unit
LIMITS = CanaryTable()


def latency(p50: int = 1000, p95: int = 2000, p99: int = 3000, spread: float = 0.05) -> dict[str, Quantile]:
    return {
        name: Quantile(low=int(one * (1 - spread)), point=one, high=int(one * (1 + spread)))
        for name, one in (("p50", p50), ("p95", p95), ("p99", p99))
    }


def sample(requests: int = 1000, **changes: Any) -> Sample:
    given = {"requests": requests, "timed": requests, "latency": latency(), **changes}
    return Sample(**given)


def shift(distance: float = 0.02, rows: int = 1000, chance: float = 0.01, **changes: Any) -> Shift:
    given = {"output": "p", "kinds": 4, "canary": rows, "against": rows, "distance": distance, "chance": chance}
    return Shift(**given | changes)


def one(canary: Sample | None = None, against: Sample | None = None, *shifts: Shift) -> Compared:
    return Compared(
        model="main", canary=canary or sample(), against=against or sample(10_000), shifts=list(shifts)
    )


def judged(compared: Compared, limits: CanaryTable = LIMITS) -> tuple[str, dict[str, str]]:
    """Return the decision, and the outcomes that are not ``passes`` by check."""
    found = decide([compared], limits)
    return found.decision, {each.check: each.outcome for each in found.reasons if each.outcome != "passes"}


def test_a_canary_as_good_as_production_is_promoted() -> None:
    assert judged(one(None, None, shift())) == ("promote", {})
    assert judged(one(sample(errors=2, invalid=1, timeouts=2, refused=3), sample(10_000, errors=30))) == (
        "promote",
        {},
    )


SMALL: dict[str, Compared] = {
    "no receipts": one(Sample(), Sample()),
    "one perfect request": one(sample(1)),
    "499": one(sample(499)),
    "few of production": one(None, sample(499)),
    "one error of one": one(sample(1, errors=1)),
    "19 errors of 19": one(sample(19, errors=19)),
    "99 failures of 99": one(sample(99, errors=99, invalid=99, timeouts=99)),
    "slow, 99 times": one(sample(99, latency=latency(10**6, 10**6, 10**6))),
    "other labels, 99 times": one(sample(99), None, shift(1.0, 99)),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_sample_does_not_decide(name: str) -> None:
    decision, unsure = judged(SMALL[name])
    assert decision == "hold"
    assert unsure
    assert set(unsure.values()) == {"unsure"}


def test_enough_receipts_of_a_rate_that_may_be_either_hold() -> None:
    decision, unsure = judged(one(sample(500, errors=5)))  # 1 %: between 0.4 and 2.3
    assert (decision, unsure["errors"]) == ("hold", "unsure")


FAILED: dict[str, tuple[Compared, str]] = {
    "errors": (one(sample(200, errors=20)), "errors"),
    "invalid outputs": (one(sample(errors=50, invalid=50)), "invalid outputs"),
    "time-outs": (one(sample(timeouts=50)), "time-outs"),
    "more refused inputs": (one(sample(refused=100)), "refused inputs, increase"),
    "p50": (one(sample(latency=latency(p50=5000))), "latency p50"),
    "p95": (one(sample(latency=latency(p95=9000))), "latency p95"),
    "p99": (one(sample(latency=latency(p99=9000))), "latency p99"),
    "labels": (one(None, None, shift(0.5)), "labels"),
}


@pytest.mark.parametrize("name", FAILED)
def test_each_limit_that_surely_fails_rolls_back(name: str) -> None:
    compared, check = FAILED[name]
    decision, failed = judged(compared)
    assert decision == "rollback"
    assert failed[check] == "fails"


def test_errors_within_the_rate_and_surely_more_than_before_roll_back() -> None:
    limits = LIMITS.model_copy(update={"max_error_rate": 1.0, "max_invalid_rate": 1.0, "max_timeout_rate": 1.0})
    assert judged(one(sample(errors=50)), limits) == ("rollback", {"errors, increase": "fails"})


def test_a_canary_that_fails_as_production_does_is_held() -> None:
    """To roll back would mend nothing; to promote would bless it."""
    decision, found = judged(one(sample(errors=50), sample(10_000, errors=500)))
    assert (decision, found["errors"]) == ("hold", "unsure")


def test_latency_between_point_and_interval_holds() -> None:
    decision, found = judged(one(sample(latency=latency(p50=2300, spread=0.5))))
    assert (decision, found) == ("hold", {"latency p50": "unsure"})


def test_slack_spares_a_model_of_microseconds() -> None:
    fast = sample(latency=latency(100, 200, 300))
    assert judged(one(sample(latency=latency(900, 1000, 1100)), fast)) == ("promote", {})
    limits = LIMITS.model_copy(update={"latency_slack_ms": 0.0})
    assert judged(one(sample(latency=latency(900, 1000, 1100)), fast), limits)[0] == "rollback"


def test_errors_are_not_timed_and_too_few_times_hold() -> None:
    unsure = judged(one(sample(timed=499)))[1]
    assert unsure == dict.fromkeys(("latency p50", "latency p95", "latency p99"), "unsure")
    assert judged(one(sample(timed=0, latency={})))[0] == "hold"


def test_labels_that_differ_by_chance_hold() -> None:
    assert judged(one(None, None, shift(0.15)))[1] == {"labels": "unsure"}
    assert judged(one(None, None, shift(0.05, chance=0.2)))[1] == {"labels": "unsure"}
    assert judged(one(None, None, shift(0.0, rows=0)))[1] == {"labels": "unsure"}


def test_what_is_not_looked_at() -> None:
    limits = CanaryTable(latency_p50_ratio=0, latency_p95_ratio=0, latency_p99_ratio=0, max_label_shift=1)
    slow = sample(latency=latency(10**6, 10**6, 10**6))
    assert judged(one(slow, None, shift(1.0)), limits) == ("promote", {})


def test_a_model_that_production_does_not_have_holds() -> None:
    alone = Compared(model="second", canary=sample(), against=None)
    found = decide([one(), alone], LIMITS)
    assert found.decision == "hold"
    assert [each.check for each in found.reasons if each.outcome == "unsure"] == ["comparison"]


def test_one_failed_model_of_two_rolls_back() -> None:
    found = decide([one(), one(sample(errors=500)).model_copy(update={"model": "second"})], LIMITS)
    assert found.decision == "rollback"
    assert {each.model for each in found.reasons if each.outcome == "fails"} == {"second"}


def test_nothing_to_check_is_no_promotion() -> None:
    assert decide([], LIMITS).decision == "hold"


def test_more_errors_never_help_a_canary() -> None:
    order = ("promote", "hold", "rollback")
    for name in ("errors", "invalid", "timeouts", "refused"):
        found = [order.index(judged(one(sample(**{name: hits})))[0]) for hits in range(0, 200, 3)]
        assert found == sorted(found), name
        assert found[0] == 0
        assert found[-1] == 2


def test_rollback_needs_no_more_than_promotion() -> None:
    with pytest.raises(ValueError, match="rollback_samples"):
        CanaryTable(min_samples=10, rollback_samples=11)
