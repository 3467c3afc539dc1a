"""What a second attempt may be held against: only two sleeps in a row are the model's own doing (rule 4)."""

from __future__ import annotations

import pytest

from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable

pytestmark = pytest.mark.cell

SLEPT = JobRecord(kind="attack", ending="lost", cause="wall", cpu_s=0.0)
HELD_UP = JobRecord(kind="attack", ending="lost", cause="wall", cpu_s=1.5)
KILLED = JobRecord(kind="attack", ending="lost", cause="SIGKILL that acceptd did not send")
FINE = JobRecord(kind="attack", ending="done")


@pytest.mark.parametrize(
    ("attempts", "ending"),
    [
        ((SLEPT, SLEPT), "limit"),
        ((HELD_UP, HELD_UP), "lost"),
        ((HELD_UP, SLEPT), "lost"),
        ((KILLED, SLEPT), "lost"),
        ((KILLED, KILLED), "lost"),
        ((KILLED, FINE), "done"),
        ((SLEPT, FINE), "done"),
    ],
)
def test_a_busy_host_and_a_stranger_are_not_the_models_fault(
    attempts: tuple[JobRecord, ...], ending: str, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = iter(attempts)
    monkeypatch.setattr(cell, "_once", lambda *_: next(coming))
    limits = job_limits("attack", LimitsTable(run_cpu_seconds=4, wall_factor=1))
    record = cell.run("attack", files={}, spec={}, limits=limits, required_walls=[])
    assert (record.ending, record.attempts) == (ending, 2)
