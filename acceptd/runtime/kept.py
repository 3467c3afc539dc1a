"""Digests of libraries, kept between processes in the user's own cache: a cold check need not hash 120 MB again.

An entry counts for as long as device, inode, size, mtime and ctime of a file are the same. No program can set a
ctime; who may write to the library through a mapping can change it without one, and owns it in any case. The
place comes from the password database, not from the environment; a file that anybody else could have written is
not read. Whoever may write it can change acceptd itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import stat
import threading
from pathlib import Path
from typing import Final

from acceptd.runtime import libraries

MAX_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_once = threading.Lock()
_read = False


def place() -> Path | None:
    """Return the file; None where the user has no home directory that only he can write."""
    try:
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
        status = home.stat()
    except (KeyError, OSError):
        return None
    mine = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return home / ".cache" / "acceptd" / "libraries.json" if mine else None


def recall() -> None:
    """Adopt what is kept, once in a process; a missing, foreign or broken file is no file."""
    global _read
    with _once:
        if _read:
            return
        _read = True
    path = place()
    if path is not None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            libraries.adopt(read(path))


def read(path: Path) -> dict[libraries.Key, str]:
    """Return the entries of a file. Raises OSError, ValueError or TypeError: unreadable, foreign, malformed."""
    for folder in (path.parent.parent, path.parent):
        _mine(os.stat(folder, follow_symlinks=False), folder)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        _mine(os.fstat(descriptor), path)
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} is too large")
    found: dict[libraries.Key, str] = {}
    try:
        for *numbers, digest in json.loads(content):
            if not _DIGEST.fullmatch(digest):
                raise ValueError(f"{path} holds no digest")
            device, inode, size, mtime, ctime = map(int, numbers)
            found[device, inode, size, mtime, ctime] = digest
    except (OverflowError, RecursionError) as error:
        raise ValueError(f"{path} has another form") from error
    return found


def _mine(status: os.stat_result, path: Path) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(1, "may have been written by others", str(path))


def keep(before: dict[libraries.Key, str]) -> None:
    """Write what is known now, where it is more than ``before``; silently nothing where that cannot be done."""
    entries = libraries.known()
    path = place()
    if path is None or entries.keys() <= before.keys():
        return
    body = json.dumps([[*key, digest] for key, digest in entries.items()])
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w") as file:
                file.write(body)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
