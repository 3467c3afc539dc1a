"""Lays files of a team's own directory where jobs of the cell can read them. Copies bytes, reads none."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from acceptd.bundling.write import placed
from acceptd.errors import UsageError
from acceptd.intake import files
from acceptd.intake.paths import shown
from acceptd.local import Bench
from acceptd.policy.limits import LimitsTable

_CHUNK: Final = 8 << 20


class Room:
    """How many bytes may still be copied: no more than a bundle may have, holes of sparse files too."""

    def __init__(self, limits: LimitsTable) -> None:
        self._file, self._left = limits.file_bytes, limits.bundle_bytes

    def take(self, where: str, size: int) -> None:
        """Count a file of ``size`` bytes. Raises UsageError where it is too much."""
        most = min(self._file, self._left)
        if size > most:
            raise UsageError(
                f"{shown(where)} has {size} bytes; {most} are possible here",
                remedy="[limits] file_bytes and bundle_bytes of the policy say how many a bundle may have",
            )
        self._left -= size


@contextlib.contextmanager
def laid(
    place: Bench, root: Path, paths: Iterable[str], followed: Mapping[str, Path] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the place in the cell's area that holds copies of ``paths``; it is removed at the end.

    ``followed`` says of some where else their bytes lie.
    Raises UsageError for what is no regular file, cannot be read, or is more than a bundle may be.
    """
    tools, room = place.tools, Room(place.rules.policy.limits)
    name = f"stage-{secrets.token_hex(6)}"
    home = tools.sealed / name
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    try:
        for path in paths:
            target = home / path
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            source = followed.get(path)
            if source is None:
                copy_file(root, path, target, room)
            else:
                copy_file(source.parent, source.name, target, room, where=str(source))
        for directory, _, _ in os.walk(home):
            os.chmod(directory, 0o755)  # noqa: S103 - whatever the umask is: jobs have another uid
        yield name
    finally:
        files.remove_tree(tools.sealed, name)


@contextlib.contextmanager
def beneath(root: Path, path: str) -> Iterator[int]:
    """Yield a descriptor (O_PATH) of the directory ``path`` below ``root``; no link below ``root`` is followed.

    Who may write there may put a link in the place of a directory at any time. Raises OSError.
    """
    found = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.split("/") if path else ():
            inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found)
            os.close(found)
            found = inner
        yield found
    finally:
        os.close(found)


def open_file(root: Path, path: str, where: str) -> int:
    """Open one regular file below ``root`` for reading, through no link. Raises UsageError where it is none."""
    folder, _, name = path.rpartition("/")
    try:
        with beneath(root, folder) as inside:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(name, flags, dir_fd=inside)
    except OSError as error:
        raise UsageError(
            f"{shown(where)} cannot be read: {error.strerror}", remedy="a bundle holds readable regular files"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{shown(where)} is no regular file", remedy="a bundle holds regular files alone")
    return descriptor


def copy_file(root: Path, path: str, target: Path, room: Room, *, where: str = "", mode: int = 0o444) -> int:
    """Copy one regular file below ``root``, no link is followed; the copy has ``mode``, and its size is returned.

    Not a byte is copied of what ``room`` has no place for, nor more than the file had when it was opened.
    """
    where = where or path
    given = open_file(root, path, where)
    try:
        info = os.fstat(given)
        room.take(where, info.st_size)
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            total = 0
            with placed(target):
                while count := os.sendfile(made, given, None, min(_CHUNK, info.st_size - total + 1)):
                    total += count
                    if total > info.st_size:
                        break
            if total != info.st_size:
                raise UsageError(f"{shown(where)} changed while it was copied", remedy="try again")
            os.fchmod(made, mode)
            return total
        finally:
            os.close(made)
    finally:
        os.close(given)
