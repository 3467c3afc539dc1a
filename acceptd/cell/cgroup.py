"""The wall ``memory_cgroup``: a cgroup v2 of its own for each job, where memory and pids are delegated to acceptd.

At first use acceptd, if it and its own children are alone in its cgroup, moves into a leaf below and turns the two
controllers on for the siblings (a cgroup with processes may not hand controllers down: "no internal process").
Each job's pid 1 and pid 2 are moved into a sibling of their own before the order is sent. What they touched before
that, as idle rooms, and what they share with the warm parent stays charged to acceptd's leaf: cgroup v2 does not
move charges. So the job is charged for what it makes itself: anonymous memory, copies of the parent's pages, page
cache (given back under pressure), kernel memory, and results that lie on a tmpfs.

Sources: Documentation/admin-guide/cgroup-v2.rst (Delegation, Memory, PID), systemd CGROUP_DELEGATION.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.cell.limits import JobLimits

MOUNT: Final = Path("/sys/fs/cgroup")
OWN_LEAF: Final = "acceptd-daemon"
JOB_PREFIX: Final = "acceptd-job-"
CONTROLLERS: Final = frozenset({"memory", "pids"})
ALLOWANCE: Final = 32 << 20
"""Above the budget: page tables, stacks and copied pages of the warm parent, which RLIMIT_DATA does not count as
the job's. So the rlimit speaks first, with a clean refusal, and this stays within the 64 MiB of the promise."""
TASKS_BESIDE_THREADS: Final = 8
ROOM_SECONDS: Final = 1.0
"""How long pid 1 may take to fork pid 2: a room that was made for this very order may not have yet."""


class UnavailableError(Exception):
    """No such wall here, and why."""


def own_directory(mount: Path = MOUNT, proc: Path = Path("/proc")) -> Path:
    """Return our own cgroup v2 directory; raise UnavailableError unless memory and pids could be handed down."""
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
        inside = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        own = mount / inside.strip("/")
        present = set((own / "cgroup.controllers").read_text(encoding="ascii").split())
    except (OSError, StopIteration) as error:
        raise UnavailableError(f"no cgroup v2 at {mount}") from error
    if missing := CONTROLLERS - present:
        raise UnavailableError(f"the cgroup v2 of this process has no controller {', '.join(sorted(missing))}")
    if not (own / "cgroup.type").exists():  # the root cgroup alone has none
        raise UnavailableError("this process is in the root cgroup, which nobody delegates")
    if not all(os.access(own / name, os.W_OK) for name in ("", "cgroup.procs", "cgroup.subtree_control")):
        raise UnavailableError("the cgroup of this process is not delegated to it (not writable)")
    return own


class Area:
    """The delegated part of the tree: acceptd in a leaf, jobs beside it. Thread-safe."""

    def __init__(self, own: Path, proc: Path = Path("/proc")) -> None:
        """Move acceptd and its children into the leaf, hand the controllers down, remove what was left behind."""
        self._own = own
        self._proc = proc
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._leftover = [path for path in own.glob(f"{JOB_PREFIX}*") if path.is_dir()]
        for path in self._leftover:
            with contextlib.suppress(OSError):
                _write(path / "cgroup.kill", "1")
        self._settle()
        self.sweep()

    def _settle(self) -> None:
        inhabitants = _pids(self._own / "cgroup.procs")
        if not all(self._ours(pid) for pid in inhabitants):
            raise UnavailableError("other processes live in the cgroup of this one: give acceptd one of its own")
        leaf = self._own / OWN_LEAF
        try:
            with contextlib.suppress(FileExistsError):
                _make(leaf)
            for pid in inhabitants:
                with contextlib.suppress(ProcessLookupError):  # a child that has just ended
                    _write(leaf / "cgroup.procs", str(pid))
            _write(self._own / "cgroup.subtree_control", "+memory +pids")
        except OSError as error:
            for pid in inhabitants:  # as it was
                with contextlib.suppress(OSError):
                    _write(self._own / "cgroup.procs", str(pid))
            with contextlib.suppress(OSError):
                _remove(leaf)
            raise UnavailableError(f"the controllers cannot be handed down: {error}") from error

    def _ours(self, pid: int) -> bool:
        """Return whether ``pid`` is this process or descends from it; so is one that has ended meanwhile."""
        while pid > 1:
            if pid == os.getpid():
                return True
            try:
                status = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                return True
            pid = int(status.rpartition(")")[2].split()[1])
        return False

    def job(self, limits: JobLimits) -> JobCgroup:
        """Make the cgroup of one job with all its limits; OSError when the kernel refuses one."""
        self.sweep()
        path = self._own / f"{JOB_PREFIX}{os.getpid()}-{next(self._numbers)}"
        _make(path)
        try:
            most = limits.memory_bytes + limits.inner.mapped_bytes + ALLOWANCE
            _write(path / "memory.max", str(most))
            if (path / "memory.swap.max").exists():  # a kernel without swap has none
                _write(path / "memory.swap.max", "0")
            _write(path / "memory.oom.group", "1")
            _write(path / "pids.max", str(limits.inner.threads + TASKS_BESIDE_THREADS))
        except OSError:
            self.remove(path)
            raise
        return JobCgroup(path, self, self._proc)

    def admit(self, limits: JobLimits, init_pid: int) -> JobCgroup:
        """Make a job's cgroup and move its pid 1 and pid 2 in; OSError, and nothing left, unless all worked."""
        made = self.job(limits)
        try:
            made.enter(init_pid)
        except OSError:
            made.close()
            raise
        return made

    def remove(self, path: Path) -> None:
        """Remove a job's cgroup, later if pid 1 has not quite ended."""
        with self._lock:
            self._leftover.append(path)
        self.sweep()

    def sweep(self) -> None:
        """Remove what could not be removed yet."""
        with self._lock:
            self._leftover = [path for path in self._leftover if not _gone(path)]


@dataclass(frozen=True, slots=True)
class JobCgroup:
    """The cgroup of one job."""

    path: Path
    area: Area
    proc: Path

    def enter(self, init_pid: int) -> None:
        """Move pid 1 and pid 2 of a room in; OSError unless both are. pid 2 has had no order yet."""
        if init_pid <= 0:
            raise ProcessLookupError("the job's pid 1 has ended")
        # pid 1 first: a pid 2 that it forks from here on is born inside.
        _write(self.path / "cgroup.procs", str(init_pid))
        children = self.proc / str(init_pid) / "task" / str(init_pid) / "children"
        deadline = time.monotonic() + ROOM_SECONDS
        while not (found := children.read_text(encoding="ascii").split()):
            if time.monotonic() > deadline:
                raise TimeoutError("the job's pid 1 has not forked")
            time.sleep(0.001)
        _write(self.path / "cgroup.procs", found[0])

    def out_of_memory(self) -> bool:
        """Return whether the kernel killed the job at its own limit.

        ``oom_kill`` alone would also count a victim of the whole host's or the service's shortage, which is not
        the model's fault; ``oom`` counts only where the limit was reached (cgroup-v2.rst, memory.events).
        """
        events: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError):
            for line in (self.path / "memory.events").read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                events[name] = int(count)
        return events.get("oom", 0) > 0 and events.get("oom_kill", 0) > 0

    def close(self) -> None:
        """Remove it; the job is dead."""
        self.area.remove(self.path)


@functools.cache
def area() -> tuple[Area | None, str]:
    """Return (the area of this process, "") or (None, why there is none). Moves this process at the first call."""
    try:
        return Area(own_directory()), ""
    except UnavailableError as error:
        return None, str(error)
    except OSError as error:
        return None, f"the cgroup of this process cannot be used: {error}"


def _write(path: Path, text: str) -> None:
    # One write, no creation: these are the kernel's files.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _pids(path: Path) -> list[int]:
    return [int(word) for word in path.read_text(encoding="ascii").split()]


def _make(path: Path) -> None:
    path.mkdir(mode=0o755)


def _remove(path: Path) -> None:
    path.rmdir()


def _gone(path: Path) -> bool:
    try:
        _remove(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
