"""What a handful of timings can and cannot show: quantiles, bounds that hold without a model of the noise. Pure.

No randomness: the same samples give the same answer. Quantiles are nearest-rank: the least sample that at least a
share q of all are not above (Hyndman and Fan, Sample Quantiles in Statistical Packages, 1996, definition 1). A
bound on the true quantile is an order statistic: the k-th least of n samples lies above the q-quantile with the
probability P(Bin(n, q) < k), whatever the distribution (Conover, Practical Nonparametric Statistics, 3rd edition,
section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["within", "over", "unclear", "too-few"]
ALPHA: Final = 0.01
"""Chance of a bound on the wrong side of the true quantile, for independent samples."""
MOST: Final = 1000
"""Samples that are looked at; the first ones count."""


def quantile(samples: Sequence[float], q: float) -> float:
    """Return the nearest-rank ``q``-quantile, 0 < q <= 1. Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(q * len(ordered) - 1e-9) - 1)]


def _below(n: int, q: float, k: int) -> float:
    """Return P(Bin(n, q) < k)."""
    return math.fsum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k))


def lower(samples: Sequence[float], q: float, alpha: float = ALPHA) -> float | None:
    """Return a sample that the true ``q``-quantile is not below, but for the chance ``alpha``; None: none is."""
    ordered = sorted(samples[:MOST])
    found = None
    for k in range(1, len(ordered) + 1):
        if _below(len(ordered), q, k) > alpha:
            break
        found = ordered[k - 1]
    return found


def upper(samples: Sequence[float], q: float, alpha: float = ALPHA) -> float | None:
    """Return a sample that the true ``q``-quantile is not above, but for the chance ``alpha``; None: none is."""
    ordered = sorted(samples[:MOST])
    for k in range(1, len(ordered) + 1):
        if _below(len(ordered), q, k) >= 1 - alpha:
            return ordered[k - 1]
    return None


def against(samples: Sequence[float], q: float, ceiling: float, least: int) -> Outcome:
    """Hold the ``q``-quantile of ``samples`` against ``ceiling``, in the same unit.

    ``within``: the samples' own quantile is not above it; noise only ever adds time. ``over``: the true quantile
    is above it, but for the chance :data:`ALPHA`. ``unclear``: between the two. ``too-few``: fewer than ``least``.
    """
    if len(samples) < max(1, least):
        return "too-few"
    if quantile(samples, q) <= ceiling:
        return "within"
    bound = lower(samples, q)
    return "over" if bound is not None and bound > ceiling else "unclear"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The medians of two distributions as a ratio, new to old, with bounds; None where samples are too few."""

    outcome: Outcome
    value: float | None = None
    low: float | None = None
    high: float | None = None


def ratio(new: Sequence[float], old: Sequence[float], limit: float, least: int, alpha: float = ALPHA) -> Ratio:
    """Hold the ratio of medians, ``new`` to ``old``, against ``limit``.

    The bounds come from those of each median at ``alpha`` / 2 (Bonferroni). ``over`` only where the lower bound is
    above the limit, ``within`` where the ratio itself is not.
    """
    if min(len(new), len(old)) < max(1, least):
        return Ratio("too-few")
    below = quantile(old, 0.5)
    if below <= 0:
        return Ratio("unclear")
    value = quantile(new, 0.5) / below
    ends = [
        lower(new, 0.5, alpha / 2),
        upper(old, 0.5, alpha / 2),
        upper(new, 0.5, alpha / 2),
        lower(old, 0.5, alpha / 2),
    ]
    low = ends[0] / ends[1] if ends[0] is not None and ends[1] else None
    high = ends[2] / ends[3] if ends[2] is not None and ends[3] else None
    if value <= limit:
        return Ratio("within", value, low, high)
    return Ratio("over" if low is not None and low > limit else "unclear", value, low, high)


def alternating(
    rounds: Sequence[tuple[Sequence[float], Sequence[float]]], limit: float, least: int, alpha: float = ALPHA
) -> Ratio:
    """Hold two models that were timed in alternating jobs against ``limit``: each round is (new, old).

    All samples of a side are pooled and held by :func:`ratio`. A machine that is slow for a while makes one
    round differ, and a whole pool with it: so ``over`` also needs two rounds, each with its ratio above the limit.
    """
    pooled = ratio(
        [ms for new, _ in rounds for ms in new], [ms for _, old in rounds for ms in old], limit, least, alpha
    )
    if pooled.outcome != "over":
        return pooled
    each = [ratio(new, old, limit, 1, alpha).value for new, old in rounds]
    if len(rounds) < 2 or any(value is None or value <= limit for value in each):
        return Ratio("unclear", pooled.value, pooled.low, pooled.high)
    return pooled
