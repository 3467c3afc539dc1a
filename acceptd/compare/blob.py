"""Bounded reads out of a file that a job wrote: every offset and length is hostile."""

from __future__ import annotations

import os
from typing import Final

CHUNK_BYTES: Final = 16 << 20


class MalformedError(Exception):
    """A reference that does not describe what lies in the file."""


class Blob:
    """One file of values, by descriptor. Read with ``pread``: no shared offset, no mapping that could fault."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes (at most CHUNK_BYTES); raise MalformedError otherwise."""
        self._within(offset, length)
        whole = os.pread(self._descriptor, length, offset)
        if len(whole) == length:
            return whole
        parts = bytearray(length)
        self.into(offset, memoryview(parts))
        return bytes(parts)

    def into(self, offset: int, target: memoryview) -> None:
        """Fill ``target`` (bytes, at most CHUNK_BYTES) from ``offset``; raise MalformedError otherwise."""
        length = len(target)
        self._within(offset, length)
        done = 0
        while done < length:
            part = os.preadv(self._descriptor, [target[done:]], offset + done)
            if not part:
                raise MalformedError("the file is shorter than it was")
            done += part

    def _within(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or length > CHUNK_BYTES or offset + length > self.size:
            raise MalformedError("bytes beyond the end of the file")
