"""Promote, hold or roll back: a pure function of what was counted and of the policy's limits.

A limit is *passed* where the whole interval of a rate lies below it, and *failed* where the whole interval lies
above it; between, the sample is too small to say, and the canary is held. Quantiles and label shares pass by the
figure itself and fail by its interval. One failed check rolls back, one that is unsure holds, else the canary is
promoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acceptd.canary import arithmetic
from acceptd.canary.figures import Compared, Judged, Outcome, Reason, Sample, Shift, Word
from acceptd.policy.canary import CanaryTable

_RATES: Final = (
    ("errors", "errors", "max_error_rate"),
    ("invalid outputs", "invalid", "max_invalid_rate"),
    ("time-outs", "timeouts", "max_timeout_rate"),
)


def decide(compared: Sequence[Compared], limits: CanaryTable) -> Judged:
    """Return the decision and every check that it rests on, in a fixed order."""
    reasons = [reason for one in compared for reason in _checks(one, limits)]
    failed = any(one.outcome == "fails" for one in reasons)
    unsure = any(one.outcome == "unsure" for one in reasons)
    word: Word = "rollback" if failed else "hold" if unsure or not reasons else "promote"
    return Judged(decision=word, reasons=reasons)


def _checks(one: Compared, limits: CanaryTable) -> Iterator[Reason]:
    canary, against = one.canary, one.against
    enough = canary.requests >= limits.rollback_samples
    for reason in (*_samples(one, limits), *_rates(one, limits), *_latency(one, limits), *_labels(one, limits)):
        if reason.outcome == "fails" and not enough:
            least = f"; {limits.rollback_samples:,} requests are needed to roll back"
            yield reason.model_copy(update={"outcome": "unsure", "message": reason.message + least})
        else:
            yield reason
    if against is None:
        yield _reason(one, "comparison", "unsure", "the other release has no model of this name")


def _samples(one: Compared, limits: CanaryTable) -> Iterator[Reason]:
    found = [one.canary.requests, *([one.against.requests] if one.against else [])]
    outcome: Outcome = "passes" if min(found) >= limits.min_samples else "unsure"
    words = f"{found[0]:,}" + (f", the other {found[1]:,}" if one.against else "")
    yield _reason(one, "samples", outcome, f"{words}; {limits.min_samples:,} each needed")


def _rates(one: Compared, limits: CanaryTable) -> Iterator[Reason]:
    canary, against = one.canary, one.against
    for check, name, key in _RATES:
        hits, limit = getattr(canary, name), getattr(limits, key)
        low, high = arithmetic.wilson(hits, canary.requests, limits.confidence)
        outcome: Outcome = "passes" if high <= limit else "fails" if low > limit else "unsure"
        words = f"{hits:,} of {canary.requests:,} ({_range(low, high)}); {_percent(limit)} allowed"
        if outcome == "fails" and against is not None:
            more, _ = arithmetic.increase(
                hits, canary.requests, getattr(against, name), against.requests, limits.confidence
            )
            if more <= 0:  # rolling back would mend nothing that is known
                outcome, words = "unsure", f"{words}; the other release is not surely better"
        yield _reason(one, check, outcome, words)
        if against is not None:
            before = getattr(against, name)
            yield _increase(one, check, limits, (hits, canary.requests), (before, against.requests))
    if against is not None:
        given = [(side.refused, side.refused + side.requests) for side in (canary, against)]
        yield _increase(one, "refused inputs", limits, *given)


def _increase(
    one: Compared, check: str, limits: CanaryTable, now: tuple[int, int], before: tuple[int, int]
) -> Reason:
    low, high = arithmetic.increase(*now, *before, limits.confidence)
    limit = limits.max_increase
    outcome: Outcome = "passes" if high <= limit else "fails" if low > limit else "unsure"
    words = f"{_percent(low, sign='+')} to {_percent(high, sign='+')}; {_percent(limit, sign='+')} allowed"
    if check == "refused inputs":
        words = f"{now[0]:,} of {now[1]:,}, the other {before[0]:,} of {before[1]:,}: {words}"
    return _reason(one, f"{check}, increase", outcome, words)


def _latency(one: Compared, limits: CanaryTable) -> Iterator[Reason]:
    if one.against is None:
        return
    for name in arithmetic.QUANTILES:
        ratio: float = getattr(limits, f"latency_{name}_ratio")
        if not ratio:
            continue
        check = f"latency {name}"
        ours, theirs = (_quantile(side, name) for side in (one.canary, one.against))
        if min(one.canary.timed, one.against.timed) < limits.min_samples or ours is None or theirs is None:
            words = f"{one.canary.timed:,} timed, the other {one.against.timed:,}"
            yield _reason(one, check, "unsure", f"{words}; {limits.min_samples:,} each needed")
            continue
        slack = limits.latency_slack_ms * 1000
        outcome: Outcome = (
            "passes" if ours[1] <= theirs[1] * ratio + slack
            else "fails" if ours[0] > theirs[2] * ratio + slack
            else "unsure"
        )  # fmt: skip
        allowed = _milliseconds(theirs[1] * ratio + slack)
        words = f"{_milliseconds(ours[1])}, the other {_milliseconds(theirs[1])}; {allowed} allowed"
        yield _reason(one, check, outcome, words)


def _quantile(side: Sample, name: str) -> tuple[int, int, int] | None:
    found = dict(side.latency).get(name)  # type: ignore[call-overload]
    return None if found is None else (found.low, found.point, found.high)


def _labels(one: Compared, limits: CanaryTable) -> Iterator[Reason]:
    limit = limits.max_label_shift
    if limit >= 1 or one.against is None:
        return
    for shift in one.shifts:
        yield _reason(one, "labels", *_shifted(shift, limit, limits))


def _shifted(shift: Shift, limit: float, limits: CanaryTable) -> tuple[Outcome, str]:
    words = f"{shift.output}: {shift.distance:.3f} apart ({shift.canary:,}, {shift.against:,} rows)"
    if min(shift.canary, shift.against) < limits.min_samples:
        return "unsure", f"{words}; {limits.min_samples:,} each needed"
    sure = arithmetic.surely_apart(shift.distance, shift.kinds, shift.canary, shift.against, limits.confidence)
    words = f"{words}; {limit:g} allowed"
    if sure > limit:
        return "fails", f"{words}, surely {sure:.3f}"
    if shift.distance > limit:
        return "unsure", f"{words}, {shift.chance:.3f} by chance"
    if shift.chance > limit:
        return "unsure", f"{words}, and chance alone gives {shift.chance:.3f} for so few rows"
    return "passes", words


def _reason(one: Compared, check: str, outcome: Outcome, message: str) -> Reason:
    return Reason(check=check, model=one.model, outcome=outcome, message=message[:2000])


def _range(low: float, high: float) -> str:
    return f"{_percent(low)} to {_percent(high)}"


def _percent(share: float, sign: str = "") -> str:
    return f"{share * 100:{sign}.3g} %" if abs(share) >= 5e-5 else "0 %"


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:,.3g} ms" if microseconds < 1e6 else f"{microseconds / 1e6:,.4g} s"
