"""Writes a team's own files: whole or not at all, and never over another one unless that is wanted."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from acceptd.errors import UsageError
from acceptd.intake.paths import shown

_STEM_BYTES: Final = 200


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise UsageError where something is there that may not be replaced."""
    if os.path.lexists(path) and not (force and path.is_file() and not path.is_symlink()):
        remedy = "--force replaces it" if not force else "only a regular file is replaced: remove it first"
        raise UsageError(f"{shown(str(path))} exists", remedy=remedy)


def hidden_beside(path: Path, ending: str) -> Path:
    """Return a hidden name beside ``path`` for what takes its place when it is whole; within 255 bytes."""
    stem = os.fsencode(path.name)[:_STEM_BYTES].decode("utf-8", "ignore")
    return path.with_name(f".{stem}.{ending}")


@contextmanager
def placed(path: Path) -> Iterator[None]:
    """Give an OSError without a place, as that of a full disk, the place ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextmanager
def written(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the place of ``path`` when the block ends well, and goes away when it does not.

    Its mode is that of the file it replaces, else what the umask leaves. Raises UsageError: something is there and
    ``force`` is not given, also where it came there meanwhile.
    """
    refuse_existing(path, force=force)
    temporary = hidden_beside(path, secrets.token_hex(6))
    descriptor = os.open(temporary, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with placed(path), os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if force:
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), os.stat(path).st_mode & 0o777)
            os.fsync(file.fileno())
        if force:
            os.rename(temporary, path)
        else:
            try:
                os.link(temporary, path)
            except FileExistsError as error:
                raise UsageError(f"{shown(str(path))} exists", remedy="--force replaces it") from error
            except OSError as error:
                if error.errno not in {errno.EPERM, errno.EOPNOTSUPP}:
                    raise
                refuse_existing(path, force=False)  # a file system without hard links, as of a memory stick
                os.rename(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def replace_text(path: Path, text: str, *, force: bool) -> None:
    """Write ``text`` to ``path`` as :func:`written` does."""
    with written(path, force=force) as file:
        file.write(text.encode())
