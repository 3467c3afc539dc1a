"""Lock files that no other user of the machine can hold.

flock(2) asks for no right to write: whoever can open a file, or a directory, for reading can hold an exclusive
lock on it for as long as he likes. So what acceptd waits for is a file that its owner alone can open.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def open_lock(path: Path | str, *, dir_fd: int | None = None) -> int:
    """Open the lock file ``path``, made where it is missing; return a descriptor for flock(2).

    One that others can open, as earlier versions made them, is closed to them. Raises OSError: it is a link, or
    somebody else's.
    """
    descriptor = os.open(path, _FLAGS, _MODE, dir_fd=dir_fd)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, _MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
