"""The statistics of an evaluation: intervals that a small sample makes wide. Pure, standard library alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Final

QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_EXACT_BITS: Final = 8
"""Durations below 2^8 µs have a bucket each; above, 128 buckets double the value."""


def deviate(confidence: float) -> float:
    """Return the standard normal deviate of a two-sided interval: 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(hits: int, of: int, confidence: float) -> tuple[float, float]:
    """Return the score interval of a share (Wilson, JASA 22 (1927) 209; Brown, Cai, DasGupta 2001); (0, 1) of
    none.
    """
    if not of:
        return 0.0, 1.0
    z2 = deviate(confidence) ** 2
    share = hits / of
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * of)) / of) / (1 + z2 / of)
    low = 0.0 if not hits else max(middle - half, 0.0)
    return low, 1.0 if hits == of else min(middle + half, 1.0)


def increase(hits: int, of: int, before: int, of_before: int, confidence: float) -> tuple[float, float]:
    """Return the interval of the difference of two independent shares, the second taken from the first.

    Newcombe's hybrid of two score intervals (Statistics in Medicine 17 (1998) 873, method 10).
    """
    low, high = wilson(hits, of, confidence)
    low_before, high_before = wilson(before, of_before, confidence)
    share, share_before = hits / of if of else 0.5, before / of_before if of_before else 0.5
    difference = share - share_before
    return (
        max(difference - math.hypot(share - low, high_before - share_before), -1.0),
        min(difference + math.hypot(high - share, share_before - low_before), 1.0),
    )


def bucket(microseconds: int) -> int:
    """Return the bucket of a duration: 0.8 % wide (as HdrHistogram's, hdrhistogram.org), exact below 256 µs."""
    excess = max(microseconds.bit_length() - _EXACT_BITS, 0)
    return (excess << (_EXACT_BITS - 1)) + (microseconds >> excess)


def bucket_end(number: int) -> int:
    """Return the greatest duration of a bucket, in microseconds."""
    half = 1 << (_EXACT_BITS - 1)
    if number < 2 * half:
        return number
    excess = number // half - 1
    return ((number - excess * half + 1) << excess) - 1


def quantile(buckets: Mapping[int, int], share: float, confidence: float) -> tuple[int, int, int]:
    """Return low, point and high of a quantile, as bucket ends in microseconds; zeros of no durations.

    The interval is that of order statistics, free of any distribution: the ranks n·q ± z·√(n·q·(1−q)) of the
    binomial (David and Nagaraja, Order Statistics, 7.1), at the least and greatest duration where they pass it.
    """
    count = sum(buckets.values())
    if not count:
        return 0, 0, 0
    half = deviate(confidence) * math.sqrt(count * share * (1 - share))
    ranks = (math.floor(count * share - half), math.ceil(count * share), math.ceil(count * share + half) + 1)
    low, point, high = (min(max(rank, 1), count) for rank in ranks)
    return _ranked(buckets, low), _ranked(buckets, point), _ranked(buckets, high)


def _ranked(buckets: Mapping[int, int], rank: int) -> int:
    seen = 0
    for number in sorted(buckets):
        seen += buckets[number]
        if seen >= rank:
            return bucket_end(number)
    raise ValueError("a rank beyond what was counted")


def distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the total variation distance of two histograms: ½ Σ |p − q|, from 0 to 1; 0 where one is empty.

    Levin, Peres, Wilmer, Markov Chains and Mixing Times, proposition 4.2. Unlike the population stability index it
    is finite where a label of one is not among the other's.
    """
    count, other_count = sum(one.values()), sum(other.values())
    if not count or not other_count:
        return 0.0
    return sum(abs(one.get(key, 0) / count - other.get(key, 0) / other_count) for key in {*one, *other}) / 2


def by_chance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the distance that two samples of these sizes from one distribution have on average.

    The mean of a normal's absolute value, √(2/π)·σ, for each label's difference under the pooled shares.
    """
    count, other_count = sum(one.values()), sum(other.values())
    if not count or not other_count:
        return 1.0
    scale = math.sqrt(2 / math.pi * (1 / count + 1 / other_count))
    pooled = ((one.get(key, 0) + other.get(key, 0)) / (count + other_count) for key in {*one, *other})
    return min(_sum(math.sqrt(share * (1 - share)) for share in pooled) * scale / 2, 1.0)


def _sum(values: Iterable[float]) -> float:
    return math.fsum(sorted(values))  # the order of a set of texts differs between processes


def surely_apart(found: float, kinds: int, count: int, other_count: int, confidence: float) -> float:
    """Return the distance that both distributions surely have, 0 at least, where their samples have ``found``.

    Each sample is further from its own distribution than its margin in (1 − confidence) / 2 of all cases at most:
    P(‖p̂ − p‖₁ ≥ ε) ≤ (2^k − 2)·e^(−n·ε²/2) for ``kinds`` k (Weissman et al., HPL-2003-97).
    """
    if kinds < 2 or not count or not other_count:
        return 0.0
    weight = kinds * math.log(2) + math.log1p(-(2.0 ** (1 - kinds))) + math.log(2 / (1 - confidence))
    margins = (math.sqrt(2 * weight / of) / 2 for of in (count, other_count))
    return max(found - sum(margins), 0.0)
