"""The statistics of a canary, on published figures and against exact ones."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest

from acceptd.canary import arithmetic as made

pytestmark = pytest.mark.unit


# Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3.
@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_published(hits: int, of: int, low: float, high: float) -> None:
    assert made.wilson(hits, of, 0.95) == pytest.approx((low, high), abs=5e-5)


# Newcombe, Statistics in Medicine 17 (1998) 873, table II, method 10.
@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((0, 10), (0, 20), -0.1611, 0.2775),
    ],
)
def test_differences_as_published(one: tuple[int, int], other: tuple[int, int], low: float, high: float) -> None:
    assert made.increase(*one, *other, 0.95) == pytest.approx((low, high), abs=5e-5)


def test_nothing_counted_says_nothing() -> None:
    assert made.wilson(0, 0, 0.95) == (0.0, 1.0)
    low, high = made.increase(0, 0, 0, 0, 0.95)
    assert low < -0.6
    assert high > 0.6


def test_a_bucket_is_exact_below_256_and_within_a_hundredth_above() -> None:
    last = -1
    for value in [*range(3000), *(1 << bits for bits in range(12, 53)), 2**53 - 1, 10**9, 123_456_789]:
        end = made.bucket_end(made.bucket(value))
        assert value <= end <= value * 1.008
        assert value >= 256 or end == value
    for number in range(60 * 128):
        end = made.bucket_end(number)
        assert end > last
        assert made.bucket(end) == number
        assert made.bucket(end + 1) == number + 1
        last = end


def test_quantiles_are_ranks() -> None:
    buckets = Counter(range(1, 101))
    assert [made.quantile(buckets, share, 0.95)[1] for share in made.QUANTILES.values()] == [50, 95, 99]
    low, _, high = made.quantile(buckets, 0.5, 0.95)
    assert (low, high) == (40, 61)  # binomial: P(40 ≤ B(100, ½) < 61) = 0.965
    assert made.quantile(Counter([7]), 0.99, 0.95) == (7, 7, 7)
    assert made.quantile({}, 0.5, 0.95) == (0, 0, 0)


def test_the_interval_of_a_quantile_covers() -> None:
    random = Random(7)
    covered = 0
    for _ in range(300):
        buckets = Counter(made.bucket(int(random.expovariate(1) * 10_000)) for _ in range(200))
        low, _, high = made.quantile(buckets, 0.95, 0.95)
        covered += low <= -math.log(0.05) * 10_000 <= high
    assert covered >= 270


def test_distances() -> None:
    assert made.distance({"a": 1}, {"b": 5}) == 1.0
    assert made.distance({"a": 1, "b": 1}, {"a": 10, "b": 10}) == 0.0
    assert made.distance({"a": 3, "b": 1}, {"a": 1, "b": 3}) == 0.5
    assert made.distance({}, {"a": 1}) == 0.0


def test_the_distance_by_chance_is_what_chance_gives() -> None:
    random = Random(3)
    draws = [Counter(random.choices("abcd", (5, 3, 1, 1), k=200)) for _ in range(200)]
    found = [made.distance(one, other) for one, other in zip(draws[::2], draws[1::2], strict=True)]
    expected = made.by_chance({"a": 100, "b": 60, "c": 20, "d": 20}, {"a": 100, "b": 60, "c": 20, "d": 20})
    assert sum(found) / len(found) == pytest.approx(expected, rel=0.15)
    assert made.by_chance({}, {"a": 1}) == 1.0


def test_a_small_sample_is_never_surely_apart() -> None:
    assert made.surely_apart(1.0, 3, 5, 5, 0.95) == 0.0
    assert 0.5 < made.surely_apart(1.0, 3, 1000, 1000, 0.95) < 1.0
    assert made.surely_apart(0.0, 100_001, 1000, 1000, 0.95) == 0.0
    assert made.surely_apart(1.0, 1, 5, 5, 0.95) == 0.0
    assert made.surely_apart(1.0, 3, 0, 5, 0.95) == 0.0
    # Weissman et al., theorem 2.1: k = 3, n = 1000, δ = 0.025 each.
    margin = math.sqrt(2 * math.log(6 / 0.025) / 1000) / 2
    assert made.surely_apart(0.9, 3, 1000, 1000, 0.95) == pytest.approx(0.9 - 2 * margin)
