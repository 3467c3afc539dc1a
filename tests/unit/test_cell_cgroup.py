"""The wall memory_cgroup against a directory that looks like a cgroup; what needs the kernel is in tests/cell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from acceptd.cell import cgroup
from acceptd.cell.collected import with_own
from acceptd.cell.limits import Observed, classify, job_limits
from acceptd.evidence import Walls
from acceptd.policy.policy import LimitsTable

pytestmark = pytest.mark.unit

FILES = (
    "cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "memory.max", "memory.swap.max", "memory.oom.group",
    "memory.events", "pids.max",
)  # fmt: skip
INIT, JOB = 4100, 4101
LIMITS = job_limits("run", LimitsTable(memory_bytes=256 << 20, threads=4), mapped_bytes=5 << 20)


def furnish(path: Path) -> None:
    path.mkdir(mode=0o755)
    for name in FILES:
        (path / name).write_text("")


class Host:
    """A mount and a /proc, with acceptd alone in ``acceptd.service``."""

    def __init__(self, root: Path) -> None:
        self.mount, self.proc = root / "cgroup", root / "proc"
        self.own = self.mount / "system.slice" / "acceptd.service"
        self.own.parent.mkdir(parents=True)
        furnish(self.own)
        self.put("cgroup.controllers", "cpu io memory pids\n")
        self.put("cgroup.type", "domain\n")
        self.put("cgroup.procs", f"{os.getpid()}\n")
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "cgroup").write_text("1:name=systemd:/\n0::/system.slice/acceptd.service\n")

    def put(self, name: str, text: str) -> None:
        (self.own / name).write_text(text)

    def process(self, pid: int, parent: int) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a b) c) S {parent} 0 0")

    def room(self, children: str = f"{JOB} ") -> None:
        task = self.proc / str(INIT) / "task" / str(INIT)
        task.mkdir(parents=True, exist_ok=True)
        (task / "children").write_text(children)

    def directory(self) -> Path:
        return cgroup.own_directory(self.mount, self.proc)

    def area(self) -> cgroup.Area:
        return cgroup.Area(self.directory(), self.proc)


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every write, as (directory's name and file, text); directories behave as the kernel's do."""
    seen: list[tuple[str, str]] = []
    write = cgroup._write

    def watched(path: Path, text: str) -> None:
        seen.append((f"{path.parent.name}/{path.name}", text))
        write(path, text)

    monkeypatch.setattr(cgroup, "_write", watched)
    monkeypatch.setattr(cgroup, "_make", furnish)
    monkeypatch.setattr(cgroup, "_remove", shutil.rmtree)
    return seen


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def jobs_of(host: Host) -> list[Path]:
    return sorted(host.own.glob("acceptd-job-*"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda host: (host.proc / "self" / "cgroup").write_text("4:memory:/\n"), "no cgroup v2"),
        (lambda host: (host.own / "cgroup.controllers").unlink(), "no cgroup v2"),
        (lambda host: host.put("cgroup.controllers", "cpu pids\n"), "no controller memory"),
        (lambda host: host.put("cgroup.controllers", "\n"), "no controller memory, pids"),
        (lambda host: (host.own / "cgroup.type").unlink(), "root cgroup"),
        (lambda host: (host.own / "cgroup.subtree_control").unlink(), "not delegated"),
    ],
)
def test_where_nothing_is_delegated_it_says_why(spoil: Callable[[Host], object], why: str, host: Host) -> None:
    spoil(host)
    with pytest.raises(cgroup.UnavailableError, match=why):
        host.directory()


def test_acceptd_moves_itself_and_its_children_into_a_leaf_then_hands_down(
    host: Host, moves: list[tuple[str, str]]
) -> None:
    host.process(77, os.getpid())
    host.process(78, 77)
    host.put("cgroup.procs", f"{os.getpid()}\n77\n78\n")
    host.area()
    leaf = "acceptd-daemon/cgroup.procs"
    assert moves == [
        (leaf, str(os.getpid())), (leaf, "77"), (leaf, "78"),
        ("acceptd.service/cgroup.subtree_control", "+memory +pids"),
    ]  # fmt: skip


def test_a_stranger_in_the_cgroup_means_that_nothing_is_touched(host: Host, moves: list[tuple[str, str]]) -> None:
    host.process(900, 1)
    host.put("cgroup.procs", f"{os.getpid()}\n900\n")
    with pytest.raises(cgroup.UnavailableError, match="other processes"):
        host.area()
    assert moves == []
    assert not (host.own / "acceptd-daemon").exists()


def test_a_refusal_to_hand_down_puts_everything_back(
    host: Host, moves: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = cgroup._write

    def refuse(path: Path, text: str) -> None:
        if path.name == "cgroup.subtree_control":
            raise OSError(16, "busy")
        write(path, text)

    monkeypatch.setattr(cgroup, "_write", refuse)
    with pytest.raises(cgroup.UnavailableError, match="handed down"):
        host.area()
    assert moves[-1] == ("acceptd.service/cgroup.procs", str(os.getpid()))
    assert not (host.own / "acceptd-daemon").exists()


def test_leftovers_are_killed_and_removed_at_start(host: Host, moves: list[tuple[str, str]]) -> None:
    furnish(host.own / "acceptd-job-1-0")
    host.area()
    assert moves[0] == ("acceptd-job-1-0/cgroup.kill", "1")
    assert jobs_of(host) == []


def test_a_job_is_bounded_before_it_is_moved_in_pid_1_first(host: Host, moves: list[tuple[str, str]]) -> None:
    area = host.area()
    moves.clear()
    host.room()
    job = area.admit(LIMITS, INIT)
    assert [(place.rpartition("/")[2], text) for place, text in moves] == [
        ("memory.max", str((256 + 5 + 32) << 20)),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", "12"),
        ("cgroup.procs", str(INIT)),
        ("cgroup.procs", str(JOB)),
    ]
    assert jobs_of(host) == [job.path]
    job.close()
    assert jobs_of(host) == []


@pytest.mark.parametrize("limit", ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"])
def test_a_limit_that_the_kernel_refuses_leaves_no_cgroup_without_it(
    limit: str, host: Host, moves: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job in a cgroup with three of its four limits would count as bounded."""
    area, write = host.area(), cgroup._write

    def refuse(path: Path, text: str) -> None:
        if path.name == limit:
            raise OSError(22, "Invalid argument")
        write(path, text)

    monkeypatch.setattr(cgroup, "_write", refuse)
    with pytest.raises(OSError, match="Invalid argument"):
        area.job(LIMITS)
    assert jobs_of(host) == []
    assert moves


def test_a_process_that_ended_meanwhile_was_ours(host: Host, moves: list[tuple[str, str]]) -> None:
    """Who lives in the cgroup was listed a moment ago; a stranger that is still there is seen by its parents."""
    assert host.area()._ours(99_999)
    host.process(700, parent=1)
    assert not host.area()._ours(700)
    assert moves


@pytest.mark.parametrize("broken", ["dead", "childless", "refused"])
def test_a_job_that_cannot_be_moved_leaves_nothing(
    broken: str, host: Host, moves: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    area = host.area()
    monkeypatch.setattr(cgroup, "ROOM_SECONDS", 0.01)
    if broken == "childless":
        host.room("")
    elif broken == "refused":
        host.room()
        write = cgroup._write

        def refuse(path: Path, text: str) -> None:
            if text == str(JOB):
                raise OSError(16, "busy")
            write(path, text)

        monkeypatch.setattr(cgroup, "_write", refuse)
    with pytest.raises(OSError, match=r".+"):
        area.admit(LIMITS, INIT)
    with pytest.raises(OSError, match="has ended"):
        area.admit(LIMITS, -1)
    assert jobs_of(host) == []
    assert moves


def test_what_cannot_be_removed_yet_is_removed_later(
    host: Host, moves: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    area = host.area()
    first = area.job(LIMITS)

    def busy(path: Path) -> None:
        raise OSError(16, "busy")

    monkeypatch.setattr(cgroup, "_remove", busy)
    first.close()
    assert jobs_of(host) == [first.path]
    monkeypatch.setattr(cgroup, "_remove", shutil.rmtree)
    assert jobs_of(host) == [first.path]
    second = area.job(LIMITS)
    assert jobs_of(host) == [second.path]
    assert moves


@pytest.mark.parametrize(
    ("events", "killed"),
    [
        ("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n", True),
        ("low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n", False),
        ("low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n", False),  # the host's shortage: not the model's fault
        ("", False),
        ("nonsense\n", False),
    ],
)
@pytest.mark.usefixtures("moves")
def test_an_out_of_memory_kill_at_the_jobs_own_limit_is_recognised(events: str, killed: bool, host: Host) -> None:
    job = host.area().job(LIMITS)
    (job.path / "memory.events").write_text(events)
    assert job.out_of_memory() is killed


def test_an_out_of_memory_kill_is_the_models_fault() -> None:
    seen = Observed(status=None, killed_for="memory", finished=False, refused=False, cpu_s=0.1, wall_s=0.2)
    assert classify(seen, LIMITS) == ("limit", "memory")
    assert classify(replace(seen, killed_for=""), LIMITS)[0] == "lost"


def test_a_job_has_no_word_on_the_walls_that_it_cannot_see() -> None:
    lie = Walls(
        states={"seccomp": "enforced", "memory_cgroup": "enforced", "separate_uid": "enforced"},
        notes={"memory_cgroup": "believe me"},
    )
    here = with_own(lie, False, "")
    assert here is not None
    assert (here.states, here.notes) == ({"seccomp": "enforced"}, {})
    moved, left = with_own(lie, True, ""), with_own(lie, True, "busy")
    assert moved is not None
    assert left is not None
    assert moved.states == {"seccomp": "enforced", "memory_cgroup": "enforced"}
    assert left.states == {"seccomp": "enforced", "memory_cgroup": "unavailable"}
    assert left.notes == {"memory_cgroup": "busy"}
    assert with_own(None, True, "") is None
