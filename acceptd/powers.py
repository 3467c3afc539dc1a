"""What a daemon that is not root may do all the same: a few capabilities that its service manager gave it.

As ``acceptd`` with CAP_SETUID, CAP_SETGID and CAP_KILL it starts cells as ``acceptd-cell`` and the comparer as
``acceptd-compare``, so that a job has a kernel uid of its own and the daemon is not root. What it starts
inherits none of it: the ambient set, which exec(2) would pass on, is emptied at the start, and one is lent where
one is needed.

Sources: capabilities(7), prctl(2) PR_CAP_AMBIENT. Sets belong to threads; a thread begins with its maker's.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any, Final

DAC_OVERRIDE: Final = 1
KILL: Final = 5
SETGID: Final = 6
SETUID: Final = 7
_DROPPING: Final = (1 << KILL) | (1 << SETGID) | (1 << SETUID)
_PR_CAP_AMBIENT: Final = 47
_RAISE: Final = 2
_CLEAR_ALL: Final = 4


def held(name: str = "CapEff") -> int:
    """Return a capability set of this thread as a mask; 0 where /proc does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/thread-self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1], 16)
    return 0


def may_drop(capabilities: int, uid: int) -> bool:
    """Say whether one with these may start processes of another uid, and end them."""
    return uid == 0 or capabilities & _DROPPING == _DROPPING


@functools.cache
def drops() -> bool:
    """Say whether this process starts cells and comparer under uids of their own. Asked once."""
    return may_drop(0 if os.getuid() == 0 else held(), os.getuid())


def keep_to_oneself() -> None:
    """Empty the ambient set: what is started from here on inherits no capability. Root's are another matter."""
    if os.getuid() != 0 and held("CapAmb"):
        drops()  # remembered before any thread asks
        _ambient(_CLEAR_ALL, 0)


@contextlib.contextmanager
def lent(capability: int) -> Iterator[None]:
    """Let what this thread starts meanwhile have one capability, where the daemon has it and is not root."""
    mine = os.getuid() != 0 and all(held(name) >> capability & 1 for name in ("CapPrm", "CapInh"))
    if mine:
        _ambient(_RAISE, capability)
    try:
        yield
    finally:
        if mine:
            _ambient(_CLEAR_ALL, 0)


def as_user(uid: int, gid: int) -> dict[str, Any]:
    """Return what :class:`subprocess.Popen` takes to start a process as another user; nothing for one's own."""
    if uid == os.getuid():
        return {}
    return {"user": uid, "group": gid, "extra_groups": []}


def _ambient(what: int, capability: int) -> None:
    import ctypes  # not at every start of every command

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_CAP_AMBIENT, what, capability, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_CAP_AMBIENT)")
