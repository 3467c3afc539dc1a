"""Lets a measured process that is killed write first what was measured in it.

A test ends daemons, roles of a fleet and commands by SIGKILL, as power loss does, and what they ran would count
for nothing. Whoever sends SIGKILL to a process that is measured sends :data:`LAST` instead: its handler writes
and then kills its own process, so that its end is the same. One that is stopped, or does not get to its handler
soon, is killed as it was to be. A process that is not measured has no such handler, and gets the SIGKILL at
once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

LAST: Final = signal.SIGRTMAX - 3
"""Nothing else in acceptd or its tests uses it."""
PATIENCE: Final = 3.0
"""Seconds."""

_kill = os.kill
_killpg = os.killpg
_pidfd_send = signal.pidfd_send_signal


def install(write: Callable[[], None]) -> None:
    """Write by ``write()`` when this process is to be killed, and leave others the time for the same."""

    def last(*_: Any) -> None:
        with contextlib.suppress(Exception):
            write()
        _kill(os.getpid(), signal.SIGKILL)

    def kill(pid: int, number: int) -> None:
        if number == signal.SIGKILL:
            if pid == os.getpid():
                last()
            if _last_words(pid):
                return
        _kill(pid, number)

    def killpg(group: int, number: int) -> None:
        if number == signal.SIGKILL:
            ended = [_last_words(pid) for pid in _members(group)]
            if any(ended) and not any(_members(group)):
                return
        _killpg(group, number)

    def pidfd_send(pidfd: int, number: int, *more: Any) -> None:
        if number == signal.SIGKILL and (pid := _behind(pidfd)) and _last_words(pid):
            return
        _pidfd_send(pidfd, number, *more)

    if threading.current_thread() is threading.main_thread():
        signal.signal(LAST, last)
    os.kill, os.killpg = kill, killpg
    signal.pidfd_send_signal = pidfd_send


def _last_words(pid: int) -> bool:
    """Let a process that would hear it write and die; say whether it did, and may have been waited for already."""
    if pid <= 0 or pid == os.getpid() or not _hears(pid):
        return False
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            _pidfd_send(pidfd, LAST)
            return bool(select.select([pidfd], [], [], PATIENCE)[0])
        finally:
            os.close(pidfd)
    return False


def _hears(pid: int) -> bool:
    """Whether it runs, and has a handler for the signal that it does not hold back."""
    try:
        told = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except (OSError, ValueError):
        return False
    bit = 1 << (LAST - 1)
    caught, blocked = int(told.get("SigCgt", "0"), 16), int(told.get("SigBlk", "0"), 16)
    return told.get("State", "Z")[0] not in "TtZX" and bool(caught & bit) and not blocked & bit


def _members(group: int) -> Iterator[int]:
    """Return the processes of a group."""
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # Behind the name in brackets: state, parent, group.
                if int((one / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                    yield int(one.name)


def _behind(pidfd: int) -> int:
    """Return the process of a pidfd; 0 where that cannot be told."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
            if line.startswith("Pid:"):
                return int(line[4:])
    return 0
