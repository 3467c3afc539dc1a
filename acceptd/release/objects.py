"""Reading below a root that may be hostile: small files measured first, store objects hashed by descriptor.

Standard library only: the loader in production and the trusted side use the same code. Every open is
beneath the root and through no link (openat2(2), RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import Final

from acceptd.errors import DigestMismatchError, MalformedError, ReleaseNotFoundError, StorageError
from acceptd.intake.beneath import open_beneath
from acceptd.release.content import Content, Keep, kept_content
from acceptd.release.trust import File

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, mtime and ctime in nanoseconds of a file that was hashed, or of a directory."""

_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_STEP: Final = 256 << 10
"""Read and hashed in steps that stay in the processor's cache."""
_LED_ASTRAY: Final = frozenset({errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.ENXIO, errno.EINVAL, errno.EISDIR})


def open_root(root: str | os.PathLike[str]) -> int:
    """Return a descriptor of the root; raise ReleaseNotFoundError where there is none, else StorageError."""
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ReleaseNotFoundError(f"{root}: {error.strerror}") from error
    except OSError as error:
        raise StorageError(f"{root} cannot be opened: {error.strerror}") from error


def object_path(digest: str, path: str = "") -> str:
    """Return the place of a bundle, or of one file in it, below the root."""
    return f"store/sha256/{digest}/{path}" if path else f"store/sha256/{digest}"


def read_small(root_fd: int, path: str, limit: int) -> bytes:
    """Return the bytes of a regular file that is measured before it is read.

    Raises ReleaseNotFoundError where there is none, MalformedError for a link, another kind of file or
    more than ``limit`` bytes, StorageError where it cannot be read.
    """
    with _regular(root_fd, path, path) as (file, state):
        if state.st_size > limit:
            raise MalformedError(f"{path} is larger than {limit} bytes")
        data = b""
        try:
            # One byte more than was measured shows that there is no more; a file that grows is read on.
            while len(data) <= limit and (part := file.read(max(state.st_size + 1 - len(data), 1))):
                data += part
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    return data


def read_if_there(root_fd: int, path: str, limit: int) -> bytes | None:
    """Return what :func:`read_small` returns, or None where the file does not exist."""
    try:
        return read_small(root_fd, path, limit)
    except ReleaseNotFoundError:
        return None


def verify_object(root_fd: int, digest: str, files: Iterable[File], keep: Keep | None = None) -> dict[str, Stamp]:
    """Hash every file of the store object ``digest`` and return their stamps, and those of its directories.

    The bytes of a file that ``keep`` wants are handed to it once they gave their digest: those, and no others.

    A directory's key ends with ``/``; its stamp is older than any hash, so that one which was put aside
    for another and back again shows it: rename(2) changes the ctime of what it moves.

    ``files`` must already have given the digest. Raises DigestMismatchError for other bytes, sizes or
    names (nothing else may lie there), MalformedError for links and files with a second name,
    ReleaseNotFoundError where the object is missing.
    """
    return verify_tree(root_fd, object_path(digest), files, keep)


def verify_tree(root_fd: int, place: str, files: Iterable[File], keep: Keep | None = None) -> dict[str, Stamp]:
    """Hash every file below the directory ``place``, wherever that is; as :func:`verify_object`."""
    wanted = {file.path: file for file in files}
    folders = _exactly(root_fd, place, set(wanted))
    return folders | {path: _hash(root_fd, place, file, keep) for path, file in wanted.items()}


def verify_files(root_fd: int, digest: str, files: Iterable[File], keep: Keep | None = None) -> None:
    """Hash some files of a store object, whatever else lies there; raise as :func:`verify_object` does."""
    for file in files:
        _hash(root_fd, object_path(digest), file, keep)


def present(root_fd: int, digest: str, files: Iterable[File]) -> None:
    """Raise as :func:`verify_object` does for other names, kinds or sizes; nothing is hashed."""
    wanted = {file.path: file for file in files}
    _exactly(root_fd, object_path(digest), set(wanted))
    for path, file in wanted.items():
        fd = _open(root_fd, object_path(digest, path), os.O_PATH | os.O_NOFOLLOW, path)
        try:
            _measured(os.fstat(fd), file)
        finally:
            os.close(fd)


def stamp_of(root_fd: int, digest: str, path: str) -> Stamp:
    """Return the present stamp of one file of a store object, or of a directory (``path`` ends with ``/``)."""
    fd = _open(root_fd, object_path(digest, path.rstrip("/")), os.O_PATH | os.O_NOFOLLOW, path)
    try:
        return _stamp(os.fstat(fd))
    finally:
        os.close(fd)


def _hash(root_fd: int, place: str, file: File, keep: Keep | None = None) -> Stamp:
    wanted = keep is not None and keep.wants(file)
    content: Content = b""
    with _regular(root_fd, f"{place}/{file.path}", file.path) as (stream, before):
        _measured(before, file)
        try:
            if wanted:
                content, found = kept_content(stream, file)
            else:
                found = _digest(stream, file.size)
        except OSError as error:
            raise StorageError(f"{file.path} cannot be read: {error.strerror}") from error
        after = _stamp(os.fstat(stream.fileno()))
    # Bytes in memory stay what was hashed, whatever became of the file meanwhile.
    if found != file.sha256 or (after != _stamp(before) and not wanted):
        raise DigestMismatchError(f"{file.path} is not the file that was promoted")
    if wanted and keep is not None:
        keep.take(file, content)
    return after


def _digest(stream: FileIO, size: int) -> str:
    """Return the SHA-256 of an open file whose size was measured; one that became shorter or longer has another.

    At most one byte more than ``size`` is read: who appends to a file for ever holds nobody up.
    """
    state, left = hashlib.sha256(), size + 1
    buffer = memoryview(bytearray(min(left, _STEP)))
    while left and (count := stream.readinto(buffer[:left])):
        state.update(buffer[:count])  # releases the GIL
        left -= count
    return state.hexdigest()


def _measured(state: os.stat_result, file: File) -> None:
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
        raise MalformedError(f"{file.path} is no regular file with one name")
    if state.st_size != file.size:
        raise DigestMismatchError(f"{file.path} has {state.st_size} bytes, not the {file.size} that were promoted")


def _exactly(root_fd: int, place: str, wanted: set[str]) -> dict[str, Stamp]:
    """Return the stamps of the object's directories, each under its path and ``/``.

    Raises DigestMismatchError where the object holds a file more or less than ``wanted``, by name.
    """
    stamps: dict[str, Stamp] = {}
    folders = {"", *(path[:cut] for path in wanted for cut in range(len(path)) if path[cut] == "/")}
    found: set[str] = set()
    for inner in sorted(folders):
        what = f"the store's {inner}" if inner else f"the store's bundle {place.removeprefix(object_path(''))}"
        fd = _open(root_fd, f"{place}/{inner}" if inner else place, _FOLDER, what)
        try:
            stamps[f"{inner}/"] = _stamp(os.fstat(fd))
            with os.scandir(fd) as entries:
                for entry in entries:
                    path = f"{inner}/{entry.name}" if inner else entry.name
                    if path not in wanted and path not in folders:
                        raise DigestMismatchError(f"{path[:200]!r} is in the store but was never promoted")
                    found.add(path)
        finally:
            os.close(fd)
    missing = wanted - found
    if missing:
        raise DigestMismatchError(f"{min(missing)} is missing from the store")
    return stamps


@contextlib.contextmanager
def _regular(root_fd: int, path: str, what: str) -> Iterator[tuple[FileIO, os.stat_result]]:
    """Give an open regular file, unbuffered, and its stat; raise as :func:`_open`, or MalformedError."""
    fd = _open(root_fd, path, _FILE, what)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise MalformedError(f"{what} is no regular file")
        with FileIO(fd, "rb", closefd=False) as file:
            yield file, state
    finally:
        os.close(fd)


def _open(root_fd: int, path: str, flags: int, what: str) -> int:
    try:
        return open_beneath(root_fd, path, flags)
    except FileNotFoundError:
        raise ReleaseNotFoundError(f"{what} does not exist") from None
    except OSError as error:
        if error.errno in _LED_ASTRAY:
            raise MalformedError(f"{what} is a link, leads elsewhere or is no file: {error.strerror}") from error
        raise StorageError(f"{what} cannot be opened: {error.strerror}") from error


def _stamp(state: os.stat_result) -> Stamp:
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
