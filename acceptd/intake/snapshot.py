"""A fingerprint of a drop as it stands, to see whether it still changes. Capped, and never through a mount."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Final

from acceptd.intake import files

_DEPTH: Final = 32
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK


def fingerprint(team_fd: int, name: bytes, cap: int) -> bytes:
    """Return a digest of the names, kinds, sizes and times of at most ``cap`` entries of the drop.

    Raises FileNotFoundError when the drop is gone. What cannot be read, lies deeper than 32 levels
    or on another file system counts by its name only: sealing will say what is wrong with it.
    """
    state = _State(cap)
    state.add(team_fd, name, b"", 0)
    return state.digest.digest()


class _State:
    def __init__(self, cap: int) -> None:
        self.digest = hashlib.sha256()
        self._left = cap

    def add(self, parent: int, name: bytes, path: bytes, depth: int) -> None:
        """Add one entry and all below it."""
        self._left -= 1
        path = path + b"/" + name
        self.digest.update(b"%d:%s" % (len(path), path))
        try:
            found = files.stat_beneath(parent, name)
        except OSError as error:
            if error.errno == errno.ENOENT and depth == 0:
                raise
            self.digest.update(b"?")
            return
        times = (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns)
        self.digest.update(b"%d,%d,%d,%d" % times)
        if stat.S_ISDIR(found.st_mode) and depth < _DEPTH and self._left > 0:
            self._inside(parent, name, path, depth)

    def _inside(self, parent: int, name: bytes, path: bytes, depth: int) -> None:
        try:
            fd = files.open_beneath(parent, name, _DIRECTORY)
        except OSError:
            return
        try:
            names, _ = files.scan(fd, self._left)
            for child in names:
                if self._left > 0:
                    self.add(fd, child, path, depth + 1)
        finally:
            os.close(fd)
