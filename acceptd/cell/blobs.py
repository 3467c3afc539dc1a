"""Result and input files that the trusted side makes and lends to jobs, one own descriptor each.

A descriptor that a job holds shares its offset and its flags with whoever else holds it: a job that
sets O_NONBLOCK or seeks would disturb us (measured). So every job gets a fresh open of its own,
write-only or read-only, and the trusted side reads through its own only after the job is dead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Blob:
    """A nameless file below ``directory``; gone when closed."""

    def __init__(self, directory: Path) -> None:
        try:
            self._descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # a file system without O_TMPFILE (overlayfs before 6.x, some network ones)
            self._descriptor, name = tempfile.mkstemp(dir=directory)
            os.unlink(name)

    def _open(self, flags: int) -> int:
        return os.open(f"/proc/self/fd/{self._descriptor}", flags | os.O_CLOEXEC)

    def writer(self) -> int:
        """Return a new write-only descriptor; the caller closes it."""
        return self._open(os.O_WRONLY)

    def reader(self) -> int:
        """Return a new read-only descriptor; the caller closes it."""
        return self._open(os.O_RDONLY)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Give the file's space back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def closing_blob(directory: Path) -> Iterator[Blob]:
    """Yield a fresh blob; its space is given back at the end."""
    blob = Blob(directory)
    try:
        yield blob
    finally:
        blob.close()


@contextmanager
def lent(descriptors: dict[str, int]) -> Iterator[dict[str, int]]:
    """Yield descriptors made for one job or comparison; closed at the end."""
    try:
        yield descriptors
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
