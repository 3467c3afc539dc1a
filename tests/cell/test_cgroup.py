"""The wall memory_cgroup in the real cell: what acceptd does with it, and the kernel's part where there is one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from acceptd.cell import cgroup
from acceptd.cell.client import Cell
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable
from tests.cell.conftest import Attack

pytestmark = pytest.mark.cell


def soon(holds: Callable[[], Any]) -> bool:
    """Wait until the warm parent has reaped what has just died."""
    end = time.monotonic() + 5
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Box:
    """Stands for a job's cgroup."""

    def __init__(self, *, killed: bool = False) -> None:
        self.killed, self.closed = killed, False

    def out_of_memory(self) -> bool:
        return self.killed

    def close(self) -> None:
        self.closed = True


class FakeArea:
    """Stands for the delegated area: hands out a box, or refuses."""

    def __init__(self, box: Any) -> None:
        self.box, self.pids = box, list[int]()

    def admit(self, limits: JobLimits, init_pid: int) -> Any:
        self.pids.append(init_pid)
        if isinstance(self.box, OSError):
            raise self.box
        return self.box


def run(cell: Cell, source: str, required: list[str]) -> JobRecord:
    limits = job_limits("attack", LimitsTable(run_cpu_seconds=2))
    return cell.run("attack", files={}, spec={"source": source}, limits=limits, required_walls=required)


def test_the_host_is_told_as_it_is(cell: Cell, attack: Attack) -> None:
    area, why = cgroup.area()
    record = attack("note(ok=True)")
    assert record.walls is not None
    if area is None:
        assert cell.outer_states["memory_cgroup"] == "unavailable"
        assert why in cell.outer_notes["memory_cgroup"]
        assert "memory_cgroup" not in record.walls.states
    else:
        assert cell.outer_states["memory_cgroup"] == record.walls.states["memory_cgroup"] == "enforced"


def test_a_job_that_was_moved_says_so_and_its_cgroup_is_given_back(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box()
    area = FakeArea(box)
    monkeypatch.setattr(cell, "_area", area)
    record = run(cell, "note(ok=True)", ["memory_cgroup"])
    assert record.ending == "done"
    assert record.walls is not None
    assert record.walls.states["memory_cgroup"] == "enforced"
    assert area.pids[0] > 1
    assert box.closed


def test_a_job_that_cannot_be_moved_gets_no_order_where_the_wall_is_required(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = FakeArea(OSError(16, "busy"))
    monkeypatch.setattr(cell, "_area", area)
    record = run(cell, "note(ok=True)", ["memory_cgroup"])
    assert (record.ending, record.cause) == ("unavailable", "a mandatory wall is missing")
    assert "busy" in record.message
    assert record.notes == []
    assert soon(lambda: not Path(f"/proc/{area.pids[0]}").exists())
    free = run(cell, "note(ok=True)", [])
    assert free.ending == "done"
    assert free.walls is not None
    assert free.walls.states["memory_cgroup"] == "unavailable"
    assert "busy" in free.walls.notes["memory_cgroup"]


def test_a_kill_by_the_kernel_at_the_jobs_own_limit_is_a_limit(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "_area", FakeArea(Box(killed=True)))
    record = run(cell, "note(ok=True)", [])
    assert (record.ending, record.cause, record.attempts) == ("limit", "memory", 1)


class NoLimits(cgroup.Area):
    """The real moves, in a real cgroup v2 that may have no memory controller."""

    def __init__(self, own: Path) -> None:
        super().__init__(own)
        self.seen: list[set[str]] = []

    def _settle(self) -> None:
        pass

    def job(self, limits: JobLimits) -> cgroup.JobCgroup:
        self.sweep()
        path = self._own / f"{cgroup.JOB_PREFIX}test-{next(self._numbers)}"
        path.mkdir()
        return cgroup.JobCgroup(path, self, Path("/proc"))

    def admit(self, limits: JobLimits, init_pid: int) -> cgroup.JobCgroup:
        made = super().admit(limits, init_pid)
        inside = cgroup._pids(made.path / "cgroup.procs")
        with open(f"/proc/{init_pid}/task/{init_pid}/children", encoding="ascii") as file:
            assert sorted(inside) == sorted([init_pid, *map(int, file.read().split())])
        self.seen.append({f"{made.path.name}: {len(inside)}"})
        return made


@pytest.fixture
def tree() -> Iterator[Path]:
    """A directory of our own in a mounted cgroup v2, where we may make one."""
    for mount in (cgroup.MOUNT, cgroup.MOUNT / "unified"):
        place = mount / f"acceptd-test-{os.getpid()}"
        if (mount / "cgroup.procs").exists() and (mount / "cgroup.controllers").exists():
            with suppress(OSError):
                place.mkdir()
                break
    else:
        pytest.skip("no cgroup v2 in which we may make a directory")
    try:
        yield place
    finally:
        for below in place.glob("*/"):
            with suppress(OSError):
                below.rmdir()
        place.rmdir()


def test_the_kernel_moves_both_and_the_cgroup_goes_with_the_job(
    cell: Cell, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = NoLimits(tree)
    monkeypatch.setattr(cell, "_area", area)
    endings = [run(cell, source, []).ending for source in ("note(ok=True)", "ctypes.string_at(0)") * 4]
    assert endings == ["done", "crash"] * 4
    assert [len(seen) for seen in area.seen] == [1] * 8
    assert all(": 2" in text for seen in area.seen for text in seen)
    assert soon(lambda: area.sweep() or not list(tree.glob("acceptd-job-*")))


def test_the_kernel_stops_a_job_at_its_budget(cell: Cell) -> None:
    if cgroup.area()[0] is None:
        pytest.skip(cgroup.area()[1])
    source = "keep = []\nwhile True: keep.append(bytearray(1 << 20))"
    limits = job_limits("attack", LimitsTable(run_cpu_seconds=10, memory_bytes=64 << 20))
    record = cell.run(
        "attack", files={}, spec={"source": source}, limits=limits, required_walls=[], walls_off=["rlimits"]
    )
    assert (record.ending, record.cause) == ("limit", "memory")
