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
        if offset < 0 or length < 0 or length > CHUNK_BYTES or offset + length > self.size:
            raise MalformedError("bytes beyond the end of the file")
        parts = bytearray()
        while len(parts) < length:
            part = os.pread(self._descriptor, length - len(parts), offset + len(parts))
            if not part:
                raise MalformedError("the file is shorter than it was")
            parts += part
        return bytes(parts)
