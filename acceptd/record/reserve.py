"""Space on disk that is kept for the ledger: with a full disk a revocation still goes on record.

A file of a fixed size in the state directory, its blocks allocated. When a durable write begins and next to
nothing is free, the file goes first; housekeeping makes it again once there is room. Intake stops long before
(``min_free_bytes``), so what comes then is little: a revocation, a verdict whose work had begun.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from acceptd.intake.files import temporary_name

NAME: Final = "reserve"
SIZE: Final = 32 << 20
"""A verdict with its evidence is well below a megabyte; SQLite's WAL and a few signed documents come on top."""
LOW: Final = 8 << 20
"""Free bytes below which the reserve gives way."""


def free_bytes(place: Path) -> int:
    """Return what this process may still write at ``place``."""
    status = os.statvfs(place)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize


def keep(state: Path, size: int = SIZE) -> bool:
    """Make the reserve where it is missing and twice its size is free; say whether it stands."""
    place = state / NAME
    if place.exists():
        return True
    temporary = state / temporary_name()
    try:
        if free_bytes(state) < 2 * size:
            return False
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)
        os.rename(temporary, place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True


def give_way(state: Path) -> bool:
    """Remove the reserve where next to nothing is free; say whether it was."""
    try:
        if free_bytes(state) >= LOW:
            return False
        os.unlink(state / NAME)
    except OSError:
        return False
    return True
