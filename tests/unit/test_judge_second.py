"""What the second process may rearrange of a model's weights: the decision alone."""

from __future__ import annotations

import pytest

from acceptd.judge.second import RELATIONS, Second, second

pytestmark = pytest.mark.unit

MIB = 1 << 20
ALL = Second(packed=True, sessions=RELATIONS)
UNPACKED = Second(packed=False, sessions=RELATIONS)


@pytest.mark.parametrize("quantised", [False, True])
def test_within_the_budget_every_session_packs(quantised: bool) -> None:
    assert second(50 * MIB, 250 * MIB, quantised=quantised) == ALL
    assert second(0, 0, quantised=quantised) == ALL


def test_one_byte_beyond_a_model_in_floating_point_keeps_all_relations_and_packs_nothing() -> None:
    assert second(50 * MIB, 250 * MIB - 1, quantised=False) == UNPACKED
    assert second(1536 * MIB, 0, quantised=False) == UNPACKED


@pytest.mark.parametrize(("budget", "sessions"), [(249, 3), (150, 2), (149, 1), (99, 0), (49, 0), (0, 0)])
def test_a_quantised_model_packs_as_always_and_opens_as_many_sessions_as_fit(budget: int, sessions: int) -> None:
    """Other kernels may give other answers where nothing is packed: that is no broken relation of the model's."""
    assert second(50 * MIB, budget * MIB, quantised=True) == Second(packed=True, sessions=sessions)


def test_a_profile_that_never_packs_has_nothing_to_bound() -> None:
    entries = {"session.disable_prepacking": "1"}
    assert second(1536 * MIB, 0, quantised=False, entries=entries) == ALL
    assert second(1536 * MIB, 0, quantised=True, entries=entries) == ALL
    assert second(1536 * MIB, 0, quantised=False, entries={"session.disable_prepacking": "0"}) == UNPACKED
