"""Give up every privilege that reading two files needs none of. Called once, after the imports."""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

from acceptd.errors import InternalError

PR_SET_DUMPABLE: Final = 4
PR_SET_NO_NEW_PRIVS: Final = 38
MEMORY_BYTES: Final = 2 << 30
OPEN_FILES: Final = 240
CPU_SECONDS: Final = 24 * 3600


def confine(uid: int | None, gid: int | None) -> None:
    """Drop to ``uid`` and ``gid`` (groups emptied first), then no_new_privs, rlimits, not dumpable.

    The order is that of setuid(2) and prctl(2): groups can only be dropped while privileged, and a
    change of uid resets the dumpable flag. Raises InternalError where root would be kept.
    """
    if uid is not None:
        group = uid if gid is None else gid
        if os.geteuid() == 0:
            os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(uid, uid, uid)
    if os.geteuid() == 0 or os.getuid() == 0:
        raise InternalError("the comparer does not run as root: give it a uid")
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 0)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
    ):
        _, hard = resource.getrlimit(limit)
        wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (wanted, wanted))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise InternalError(f"prctl({option}): {os.strerror(ctypes.get_errno())}")
