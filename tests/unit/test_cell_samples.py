"""Samples of a job's memory: bounded, in order, and the peak is never lost."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acceptd.cell.samples import MOST, Samples

pytestmark = pytest.mark.unit


def test_a_short_job_keeps_every_sample() -> None:
    samples = Samples()
    for number in range(MOST):
        samples.add(number * 0.05, number)
    assert samples.kept() == [(number * 0.05, number) for number in range(MOST)]


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=3000))
@example(list(range(3000)))  # lists that are drawn are short, as a rule: none would be thinned
@example([1 << 40] + [0] * 2999)
@example([number % 7 for number in range(1025)])
def test_a_long_job_is_thinned_and_keeps_its_peak(used: list[int]) -> None:
    samples = Samples()
    taken = [(number * 0.05, value) for number, value in enumerate(used)]
    for seconds, value in taken:
        samples.add(seconds, value)
    kept = samples.kept()
    assert 0 < len(kept) <= MOST
    assert len(kept) >= min(len(used), MOST // 2)
    assert kept == sorted(kept)
    assert set(kept) <= set(taken)
    assert max(value for _, value in kept) == max(used)
