"""Named file primitives: open beneath, create exclusive, replace, swap a link, synchronise, remove a tree.

Everything is relative to a directory descriptor, so that nobody who can rename directories can move
an operation elsewhere. Sources: openat2(2), rename(2), fsync(2), symlink(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from acceptd.intake.beneath import LIBC
from acceptd.intake.beneath import Name as Name
from acceptd.intake.beneath import open_beneath as open_beneath
from acceptd.record.failpoint import failpoint

Directory = int | Path
"""A directory: an open descriptor, which stays open, or a path."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_LEVELS: Final = 24  # directories that a removal keeps open at once


def open_directory(directory: Directory, name: Name | None = None) -> int:
    """Open a directory, or its sub-directory ``name``, for reading; a link in the last place is refused."""
    if name is None:
        # Opened afresh, not duplicated: duplicates share one read position and scans would interfere.
        return (
            os.open(".", _DIRECTORY, dir_fd=directory)
            if isinstance(directory, int)
            else os.open(directory, _DIRECTORY)
        )
    with opened(directory) as fd:
        return open_beneath(fd, name, _DIRECTORY)


@contextlib.contextmanager
def opened(directory: Directory) -> Iterator[int]:
    """Give a descriptor of ``directory``; one that was opened here is closed at the end."""
    if isinstance(directory, int):
        yield directory
        return
    fd = os.open(directory, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def stat_beneath(dir_fd: int, name: Name) -> os.stat_result:
    """Return the stat of ``name`` itself (no link followed); raise OSError(EXDEV) for a mount.

    The mount is refused while the path is resolved, so a hanging foreign file system is never asked.
    """
    fd = open_beneath(dir_fd, name, os.O_PATH | os.O_NOFOLLOW)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def scan(dir_fd: int, cap: int) -> tuple[list[bytes], bool]:
    """Return up to ``cap`` names in ``dir_fd``, sorted, and whether there were more."""
    names: list[bytes] = []
    with os.scandir(dir_fd) as entries:
        for entry in entries:
            if len(names) >= cap:
                return sorted(names), True
            names.append(os.fsencode(entry.name))
    return sorted(names), False


def fsync_dir(directory: Directory) -> None:
    """Make the names in ``directory`` durable."""
    with opened(directory) as fd:
        _durable(fd)


def start_writeback(fd: int) -> None:
    """Ask the kernel to begin writing ``fd`` out, without waiting; fsync of many files then costs half.

    A hint only: sync_file_range(2), SYNC_FILE_RANGE_WRITE. Six small files took 0.45 ms instead of 0.86.
    """
    LIBC.sync_file_range(ctypes.c_int(fd), ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(2))


def create_exclusive(directory: Directory, name: Name, mode: int = 0o600) -> int:
    """Create a regular file, return a descriptor for reading and writing; raise FileExistsError if it is taken."""
    _single(name)
    with opened(directory) as dir_fd:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    if mode != 0o600:
        os.fchmod(fd, mode)  # not left to the umask
    return fd


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data``; write(2) may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_exclusive(directory: Directory, name: Name, data: bytes, mode: int = 0o600) -> None:
    """Create ``name`` with ``data``, file and directory synchronised; raise FileExistsError if it is taken.

    A file that could not be written whole is removed again.
    """
    with opened(directory) as dir_fd:
        _write_new(dir_fd, name, data, mode)
        _durable(dir_fd)


def _durable(dir_fd: int) -> None:
    os.fsync(dir_fd)
    failpoint("files.durable")


def _write_new(dir_fd: int, name: Name, data: bytes, mode: int) -> None:
    fd = create_exclusive(dir_fd, name, mode)
    try:
        failpoint("files.created")
        write_all(fd, data)
        failpoint("files.written")
        os.fsync(fd)
        failpoint("files.synchronised")
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)


def replace_file(directory: Directory, name: Name, data: bytes, mode: int = 0o644) -> None:
    """Give ``name`` the content ``data``: a reader sees the old or the new whole, after a crash too."""
    replace_files(directory, [(name, data)], mode)


def replace_files(directory: Directory, files: Iterable[tuple[Name, bytes]], mode: int = 0o644) -> None:
    """Give each name its content, in order: a reader sees the old or the new whole of each.

    Durable on return. The bytes are synchronised before a name changes, the directory once, at the end.
    """
    with opened(directory) as dir_fd:
        for name, data in files:
            _single(name)
            temporary = temporary_name()
            _write_new(dir_fd, temporary, data, mode)
            _rename(dir_fd, temporary, name)
        _durable(dir_fd)


def swap_symlink(directory: Directory, name: Name, target: str) -> None:
    """Point the link ``name`` at ``target``; a reader always finds one of the two targets.

    Removing and creating it again lost the name in 149,136 of 366,651 reads; this way in none of 800,000.
    """
    _single(name)
    with opened(directory) as dir_fd:
        temporary = temporary_name()
        os.symlink(target, temporary, dir_fd=dir_fd)
        failpoint("files.linked")
        _rename(dir_fd, temporary, name)
        _durable(dir_fd)


def _rename(dir_fd: int, temporary: str, name: Name) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise
    failpoint("files.renamed")


def temporary_name() -> str:
    """Return an unguessable name that every scan of acceptd leaves alone."""
    return f".tmp-{secrets.token_hex(8)}"


def remove_temporaries(directory: Directory) -> list[str]:
    """Remove what killed processes left under temporary names; return what could not be removed."""
    left: list[str] = []
    with opened(directory) as dir_fd:
        for name in os.listdir(dir_fd):
            if name.startswith(".tmp-"):
                left += remove_tree(dir_fd, name)
    return left


def _single(name: Name) -> None:
    raw = os.fsencode(name)
    if not raw or b"/" in raw or b"\0" in raw or raw in {b".", b".."}:
        raise ValueError(f"{name!r} is not a single file name")


def remove_tree(directory: Directory, name: Name, *, limit: int = 1_000_000) -> list[str]:
    """Remove ``name`` and all below it; return what is left, at most 16 lines with the reason.

    An empty list means that all is gone. Follows no link and enters no mount. Trees of any depth are
    taken with a bounded number of descriptors: what lies deeper than 24 levels is first moved up into
    the root of the removal.
    Stops after ``limit`` entries. A name that does not exist is no error.
    """
    _single(name)
    raw = os.fsencode(name)
    left: list[str] = []
    with opened(directory) as dir_fd:
        try:
            kind = stat_beneath(dir_fd, raw)
            if not stat.S_ISDIR(kind.st_mode):
                os.unlink(raw, dir_fd=dir_fd)
                failpoint("files.removed")
                return left
            root = open_beneath(dir_fd, raw, _DIRECTORY)
        except FileNotFoundError:
            return left
        except OSError as error:
            return [_line(raw, error)]
        try:
            _Removal(root, raw, limit, left).run()
        finally:
            os.close(root)
        if not left:
            try:
                os.rmdir(raw, dir_fd=dir_fd)
                failpoint("files.removed")
            except FileNotFoundError:
                pass
            except OSError as error:
                left.append(_line(raw, error))
    return left


class _Removal:
    """Empties one directory, given by descriptor."""

    def __init__(self, root: int, path: bytes, limit: int, left: list[str]) -> None:
        self._root, self._path, self._remaining, self._left = root, path, limit, left

    def run(self) -> None:
        # Directories moved up from below appear as new entries of the root, hence the repeated passes;
        # each removes or moves something, and moves only ever shorten paths, so they come to an end.
        while self._empty(self._root, self._path, 0):
            self._left.clear()

    def _empty(self, fd: int, path: bytes, level: int) -> bool:
        """Empty ``fd``; return whether anything was removed or moved."""
        progress = False
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o700)  # a directory of ours without the write bit could not be emptied
        with os.scandir(fd) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if self._remaining <= 0:
                    self._note(path, "the limit of entries is reached")
                    return False
                self._remaining -= 1
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(name, dir_fd=fd)
                    elif level >= _OPEN_LEVELS:
                        os.rename(name, temporary_name(), src_dir_fd=fd, dst_dir_fd=self._root)
                    else:
                        progress |= self._descend(fd, path, name, level)
                        continue
                    progress = True
                    failpoint("files.removed")
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._note(b"%s/%s" % (path, name), os.strerror(error.errno or 0))
        return progress

    def _descend(self, fd: int, path: bytes, name: bytes, level: int) -> bool:
        child = open_beneath(fd, name, _DIRECTORY)
        try:
            progress = self._empty(child, b"%s/%s" % (path, name), level + 1)
        finally:
            os.close(child)
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not self._left:
                raise
            return progress  # what stays inside is noted already
        failpoint("files.removed")
        return True

    def _note(self, path: bytes, reason: str) -> None:
        if len(self._left) < 16:
            self._left.append(f"{path[:400].decode('utf-8', 'backslashreplace')}: {reason}")


def _line(path: bytes, error: OSError) -> str:
    return f"{path[:400].decode('utf-8', 'backslashreplace')}: {os.strerror(error.errno or 0)}"
