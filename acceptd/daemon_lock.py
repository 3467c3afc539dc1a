"""One daemon for one state directory: an flock that the kernel releases however the daemon ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from acceptd.errors import StateError
from acceptd.lockfile import open_lock


def acquire(path: Path) -> int:
    """Take the lock and write our pid; return the descriptor to keep open. StateError when it is held."""
    try:
        descriptor = open_lock(path)
    except OSError as error:
        raise StateError(
            f"{path}: cannot be locked: {error.strerror}", remedy="look at what stands there"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateError(
            f"another daemon (pid {holder(path) or 'unknown'}) works on {path.parent}",
            remedy="stop it first, or choose another --state",
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def holder(path: Path) -> int | None:
    """Return the pid of the daemon that holds the lock, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else None
    finally:
        os.close(descriptor)
    return None
