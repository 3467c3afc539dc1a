"""What the readers of zip and tar share: a member, the meter against bombs, exact reading."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandbox.messages import RefusedError

CHUNK: Final = 1 << 20
FREE_BYTES: Final = 16 << 20
"""The ratio counts only beyond this: a bias of zeros packs a thousandfold, deflate's own best is 1,032."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its name as written, its size as stated."""

    name: str
    size: int
    is_dir: bool


class Meter:
    """Counts packed and unpacked bytes of a whole archive, and stops a bomb while it streams."""

    def __init__(self, ratio: int, most: int) -> None:
        self._ratio = ratio
        self._most = most
        self._packed = 0
        self._unpacked = 0

    def add(self, packed: int, unpacked: int, where: str) -> None:
        """Count; raise RefusedError when the unpacked bytes pass the limit or the ratio."""
        self._packed += packed
        self._unpacked += unpacked
        if self._unpacked > self._most:
            raise RefusedError("archive/too-large", where, f"unpacks to more than {self._most} bytes")
        if self._unpacked > FREE_BYTES and self._unpacked > self._ratio * max(1, self._packed):
            raise RefusedError("archive/bomb", where, f"unpacks to more than {self._ratio} times its size")


def exactly(fd: int, size: int, offset: int, where: str) -> bytes:
    """Return ``size`` bytes at ``offset``; raise RefusedError when the file ends before."""
    parts = []
    while size:
        part = os.pread(fd, min(size, CHUNK), offset)
        if not part:
            raise RefusedError("archive/truncated", where, "the archive ends inside this member")
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)
