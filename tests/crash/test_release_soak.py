"""A little of what ``make soak-release`` and ``make soak-readers`` do at length."""

from __future__ import annotations

import pytest

from tests.crash import readers_soak, release_soak

pytestmark = pytest.mark.crash


def test_kills_at_random_moments_under_load_break_no_promise() -> None:
    soaked = release_soak.soak(kills=2, seed=20261130)
    assert soaked.troubles == []
    assert soaked.looked.words == []
    assert soaked.looked.wrong == 0
    assert soaked.kills == 2
    assert soaked.recorded["activated"] >= len(release_soak.PLACES)


def test_readers_during_promotions_and_rollbacks_miss_nothing() -> None:
    found, number = readers_soak.soak(20, readers=2)
    assert found.words == []
    assert found.wrong == 0
    assert found.opened > 0
    assert number == 21
