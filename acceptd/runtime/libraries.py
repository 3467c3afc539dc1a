"""Which native files a process has mapped, and their SHA-256. Standard library only: the loader uses it too."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final

from acceptd.runtime.facts import Library

_CHUNK: Final = 1 << 20
_MAX_CACHED: Final = 4096
_TRIES: Final = 3
"""A hard link to a file (as some installers make) changes its ctime while it is read."""
_SETTLED_NS: Final = 2_000_000_000
"""A file changed so shortly before it is hashed may change again within one tick of the clock, unseen."""
Key = tuple[int, int, int, int, int]
"""Device, inode, size, mtime_ns, ctime_ns. A write through the file system changes it. Who may write to the file
through a mapping, or set the clock, can leave it: he owns the library and need not hide (threat model)."""
_cache: dict[Key, str] = {}
_lock = threading.Lock()


def mapped(maps_text: str) -> list[str]:
    """Return the paths of the executable file mappings of a ``/proc/PID/maps`` text, sorted, each once.

    proc_pid_maps(5): address, permissions, offset, device, inode, path; the path is the rest of the line,
    with ``\\012`` for a line feed. A file that was removed since keeps its mark `` (deleted)``: it has no path.
    """
    found = set()
    for line in maps_text.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            found.add(fields[5].replace("\\012", "\n"))
    return sorted(found)


def digests(paths: Iterable[str]) -> list[Library]:
    """Return path, SHA-256 and size of each file, in the order given.

    A digest is kept for as long as device, inode, size and both times stay the same. Raises OSError: a
    file is missing, unreadable, no regular file, or changed while it was read.
    """
    return [_library(path) for path in paths]


def known() -> dict[Key, str]:
    """Return the digests that are kept."""
    with _lock:
        return dict(_cache)


def adopt(entries: Mapping[Key, str]) -> None:
    """Keep digests that were made before, here or in another process of the same user."""
    with _lock:
        if len(_cache) + len(entries) > _MAX_CACHED:
            _cache.clear()
        _cache.update(entries)


def _library(path: str) -> Library:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        for _ in range(_TRIES):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(22, "not a regular file", path)
            key = _key(status)
            with _lock:
                digest = _cache.get(key)
            if digest is not None:
                return Library(path, digest, status.st_size)
            begun = time.time_ns()
            digest = _read(descriptor)
            if _key(os.fstat(descriptor)) == key:
                break
        else:
            raise OSError(116, "changed while it was read", path)
    finally:
        os.close(descriptor)
    if begun - max(key[3], key[4]) > _SETTLED_NS:
        adopt({key: digest})
    return Library(path, digest, status.st_size)


def _read(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    state = hashlib.sha256()
    buffer = memoryview(bytearray(_CHUNK))
    while count := os.readv(descriptor, [buffer]):
        state.update(buffer[:count])  # releases the GIL
    return state.hexdigest()


def _key(status: os.stat_result) -> Key:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
