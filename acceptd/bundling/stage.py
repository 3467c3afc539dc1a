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

from acceptd.errors import UsageError
from acceptd.intake import files
from acceptd.intake.paths import shown
from acceptd.tools import Tools

_CHUNK: Final = 8 << 20


@contextlib.contextmanager
def laid(
    tools: Tools, root: Path, paths: Iterable[str], followed: Mapping[str, Path] = MappingProxyType({})
) -> Iterator[str]:
    """Yield the place in the cell's area that holds copies of ``paths``; it is removed at the end.

    ``followed`` says of some where else their bytes lie.
    Raises UsageError for what is no regular file, or cannot be read.
    """
    name = f"stage-{secrets.token_hex(6)}"
    home = tools.sealed / name
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    try:
        for path in paths:
            target = home / path
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            copy_file(followed.get(path, root / path), target, path)
        for directory, _, _ in os.walk(home):
            os.chmod(directory, 0o755)  # noqa: S103 - whatever the umask is: jobs have another uid
        yield name
    finally:
        files.remove_tree(tools.sealed, name)


def copy_file(source: Path, target: Path, where: str, *, mode: int = 0o444) -> int:
    """Copy one regular file, a link is not followed; the copy has ``mode``, and its size is returned."""
    try:
        given = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(
            f"{shown(where)} cannot be read: {error.strerror}", remedy="a bundle holds readable regular files"
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(given).st_mode):
            raise UsageError(f"{shown(where)} is no regular file", remedy="a bundle holds regular files alone")
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            total = 0
            while count := os.sendfile(made, given, None, _CHUNK):
                total += count
            os.fchmod(made, mode)
            return total
        finally:
            os.close(made)
    finally:
        os.close(given)
