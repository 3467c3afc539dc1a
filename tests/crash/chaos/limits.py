"""A daemon that runs out of something: descriptors, memory, processes, its disk; or whose disk is read-only."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.crash.chaos import disk
from tests.crash.chaos.calls import injected
from tests.crash.chaos.lasting import strike
from tests.crash.chaos.town import Town
from tests.crash.faults.full import fill

FREE: Final = (0, 0, 4 << 10, 96 << 10, 1 << 20)
"""Bytes that a full disk has left."""
_PIDS: Final = Path("/sys/fs/cgroup/pids")


@contextmanager
def _limited(town: Town, pid: int, which: int, soft: int) -> Iterator[None]:
    given = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (soft, given[1]))
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (pid, *(below.pid for below in psutil.Process(pid).children(recursive=True))):
                with contextlib.suppress(ProcessLookupError, PermissionError):  # inherited; jobs are closed
                    if resource.prlimit(one, which)[0] == soft:
                        resource.prlimit(one, which, given)


def _sizes(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}


def no_descriptors(town: Town) -> str:
    """Lower RLIMIT_NOFILE to about what the daemon has open."""
    more, at_start = town.chance.randrange(-4, 8), town.chance.random() < 0.25

    def fault(town: Town, pid: int) -> contextlib.AbstractContextManager[None]:
        there = 12 + 3 * abs(more) if at_start else len(os.listdir(f"/proc/{pid}/fd"))
        return _limited(town, pid, resource.RLIMIT_NOFILE, max(3, there + more))

    return f"{'from the start' if at_start else 'at work'}: {strike(town, fault, at_start=at_start)}"


def no_memory(town: Town) -> str:
    """Lower RLIMIT_AS or RLIMIT_DATA to little more than the daemon has."""
    which, name = town.chance.choice(((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")))
    more, at_start = town.chance.choice((0, 256 << 10, 2 << 20, 16 << 20)), town.chance.random() < 0.25

    def fault(town: Town, pid: int) -> contextlib.AbstractContextManager[None]:
        return _limited(town, pid, which, _sizes(pid)[name] + more)

    word = strike(town, fault, at_start=at_start)
    return f"{'addresses' if name == 'VmSize' else 'data'}, {'from the start' if at_start else 'at work'}: {word}"


@contextmanager
def _few_processes(town: Town, pid: int, more: int) -> Iterator[None]:
    group = _PIDS / f"acceptd-chaos-{os.getpid()}"
    group.mkdir(exist_ok=True)
    try:
        (group / "pids.max").write_text("max")
        (group / "cgroup.procs").write_text(str(pid))
        (group / "pids.max").write_text(str(len(os.listdir(f"/proc/{pid}/task")) + more))
        yield
    finally:
        (group / "pids.max").write_text("max")
        for one in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (_PIDS / "cgroup.procs").write_text(one)
        with contextlib.suppress(OSError):
            group.rmdir()


def no_processes(town: Town) -> str:
    """Let the daemon start no process and no thread: by a pids cgroup, which binds root too, or by strace.

    RLIMIT_NPROC is not used: it counts a whole user's processes, and root is not bound by it.
    """
    at_start, more = town.chance.random() < 0.25, town.chance.randrange(0, 4)
    if os.access(_PIDS, os.W_OK):
        word = strike(town, lambda town, pid: _few_processes(town, pid, more), at_start=at_start)
        return f"pids.max, {'from the start' if at_start else 'at work'}: {word}"
    calls = "clone,clone3,fork,vfork"
    word = strike(town, lambda town, pid: injected(town, pid, calls, "EAGAIN", "1+"), at_start=at_start)
    return f"clone fails, {'from the start' if at_start else 'at work'}: {word}"


@contextmanager
def _full(town: Town, leave: int) -> Iterator[None]:
    junk = town.disk / "junk"
    try:
        fill(junk, leave)
        yield
    finally:
        junk.unlink(missing_ok=True)


def full_disk(town: Town) -> str:
    """Fill the state's disk, with the reserve there or gone."""
    if not disk.able():
        raise disk.NotHereError("mounting a small disk takes root")
    at_start, leave = town.chance.random() < 0.3, town.chance.choice(FREE)
    if town.chance.random() < 0.5:
        (town.state / "reserve").unlink(missing_ok=True)
    word = strike(town, lambda town, _pid: _full(town, leave), at_start=at_start)
    return f"{leave} bytes free, {'from the start' if at_start else 'at work'}: {word}"


def read_only_disk(town: Town) -> str:
    """Let every name of the state be read-only, for a daemon that starts or for what one at work opens anew."""
    at_start = town.chance.random() < 0.6
    word = strike(town, lambda town, _pid: disk.read_only(town.disk), at_start=at_start, before=True)
    return f"{'from the start' if at_start else 'at work'}: {word}"
