"""Files of the operator: read, or named by a profile, only if nobody else can write them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from acceptd.errors import ConfigError

_LINKS: Final = 16
VENV_MARK: Final = "pyvenv.cfg"


def read_trusted(path: Path, limit: int, what: str) -> bytes:
    """Read a regular file that its owner alone can write, checking the open descriptor, not the name.

    ``what`` names the kind in the remedy. Raises ConfigError, also beyond ``limit`` bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy=f"name {what} that can be read") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: not a regular file", remedy=f"name {what}")
        check_owner(path, status)
        content = os.read(descriptor, limit + 1)
        while len(content) <= limit and (more := os.read(descriptor, limit + 1 - len(content))):
            content += more
    except OSError as error:  # a disk's error has no path of its own
        raise ConfigError(f"{path}: {error.strerror}", remedy=f"name {what} that can be read") from error
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise ConfigError(f"{path}: larger than {limit} bytes", remedy="keep to the documented form")
    return content


def check_owner(path: Path, status: os.stat_result, place: str = "") -> None:
    """Raise ConfigError unless root or this process's user owns ``path`` and nobody else can write it.

    ``place`` is the key that names the path, where it is not the file being loaded.
    """
    where = f"{place}: " if place else ""
    if status.st_uid not in {0, os.geteuid()}:
        raise ConfigError(
            f"{where}{path}: is owned by uid {status.st_uid}, neither root nor the user that runs acceptd",
            remedy=f"chown {os.geteuid()} {path}",
        )
    # The mode of a symbolic link means nothing; its owner does.
    if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(f"{where}{path}: can be written by its group or by others", remedy=f"chmod go-w {path}")


def check_file(place: str, path: Path) -> None:
    """Raise ConfigError unless ``path`` and its directory are ones that nobody else can write.

    ``place`` is the file and key that name it.
    """
    status = _status(place, path)
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{place}: {path}: not a regular file", remedy="name the file itself")
    check_owner(path, status, place)
    check_owner(path.parent, _status(place, path.parent), place)


def check_program(place: str, path: Path) -> None:
    """Raise ConfigError unless ``path`` is a program that nobody but root and this process's user can exchange.

    Looked at: every link on the way to it, the program, and every directory above each of them. In a directory
    with the sticky bit, as ``/tmp`` is one, nobody exchanges what is another's (inode(7), rename(2)).
    """
    if not path.is_absolute():
        message = f"{place}: {str(path)!r:.200} is no absolute path of a program"
        raise ConfigError(message, remedy="name one in full")
    for step in (*_steps(place, path), Path(os.path.realpath(path))):
        check_owner(step, _status(place, step, follow=False), place)
        for above in step.parents:
            status = _status(place, above)
            if status.st_uid not in {0, os.geteuid()} or not status.st_mode & stat.S_ISVTX:
                check_owner(above, status, place)
    if not stat.S_ISREG(_status(place, path).st_mode) or not os.access(path, os.X_OK):
        raise ConfigError(f"{place}: {path}: cannot be executed", remedy="name a program")


def check_interpreter(place: str, path: Path) -> None:
    """Raise ConfigError unless the interpreter is executable and nobody else can replace it.

    Looked at: every link on the way to the binary, the binary, their directories, and the directories
    from the interpreter up to its virtual environment (where ``pyvenv.cfg`` stands), that file included.
    """
    for step in _steps(place, path):
        check_owner(step, _status(place, step, follow=False), place)
        check_owner(step.parent, _status(place, step.parent), place)
    binary = _status(place, path)
    if not stat.S_ISREG(binary.st_mode) or not os.access(path, os.X_OK):
        raise ConfigError(f"{place}: {path}: cannot be executed", remedy="name the environment's bin/python")
    venv = next((above for above in list(path.parents)[:3] if (above / VENV_MARK).exists()), None)
    if venv is None:
        return
    for above in path.parents:
        check_owner(above, _status(place, above), place)
        if above == venv:
            break
    check_owner(venv / VENV_MARK, _status(place, venv / VENV_MARK), place)


def _steps(place: str, path: Path) -> Iterator[Path]:
    """Yield ``path`` and what it links to, link by link."""
    for _ in range(_LINKS):
        yield path
        status = _status(place, path, follow=False)
        if not stat.S_ISLNK(status.st_mode):
            return
        path = Path(os.path.normpath(path.parent.resolve() / os.readlink(path)))
    raise ConfigError(f"{place}: {path}: more than {_LINKS} links", remedy="name the interpreter itself")


def _status(place: str, path: Path, *, follow: bool = True) -> os.stat_result:
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        raise ConfigError(f"{place}: {path}: {error.strerror}", remedy="correct the path") from error
