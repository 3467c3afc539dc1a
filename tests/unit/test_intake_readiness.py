"""When a drop is ready: the decisions alone."""

from __future__ import annotations

import pytest

from acceptd.intake.readiness import Candidate, marked_name, marker_name, waits

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", [b".hidden", b".claimed-x", b"a.part", b"a.tmp", b"a.PARTIAL", b"a.zip.part"])
def test_a_name_that_says_unfinished_waits(name: bytes) -> None:
    assert waits(name)


@pytest.mark.parametrize("name", [b"a", b"a.zip", b"part", b"a.parts", b"a.ready", b"\xff"])
def test_any_other_name_does_not_wait(name: bytes) -> None:
    assert not waits(name)


def test_a_marker_names_its_drop() -> None:
    assert marked_name(marker_name(b"model-v1")) == b"model-v1"
    assert marked_name(b"model-v1") is None
    assert marked_name(b".ready") is None  # marks nothing


def test_nothing_happens_before_the_settle_time_and_nothing_is_lost_after_it() -> None:
    seen = Candidate(since=0.0).looked_at(b"one", 10.0)
    assert seen.wait(10.0, 2.0) == 2.0
    assert seen.wait(11.5, 2.0) == 0.5
    assert seen.wait(12.0, 2.0) == 0.0


def test_a_change_starts_the_settle_time_afresh() -> None:
    seen = Candidate(since=0.0).looked_at(b"one", 10.0)
    unchanged = seen.looked_at(b"one", 11.9)
    assert unchanged.wait(12.0, 2.0) == 0.0
    changed = seen.looked_at(b"two", 11.9)
    assert changed.wait(12.0, 2.0) == pytest.approx(1.9)


@pytest.mark.parametrize("how", [{"arrived_by_rename": True}, {"marked": True}])
def test_a_rename_or_a_marker_makes_ready_at_once(how: dict[str, bool]) -> None:
    assert Candidate(since=10.0, **how).wait(10.0, 3600.0) == 0.0
