"""A directory as a place for objects: on one machine, or on a volume that several of them mount.

What is written gets its name by link(2), which refuses one that is taken, after its bytes are on the disk; the
name is durable before anybody is told. Half-written objects lie in ``tmp`` and are swept by their age.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hmac
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from acceptd.errors import ObjectDamagedError, ObjectMissingError, ObjectStoreError, StateError
from acceptd.intake.copying import CHUNK, Copier
from acceptd.intake.files import (
    create_exclusive,
    fsync_dir,
    open_beneath,
    open_directory,
    remove_tree,
    temporary_name,
    write_all,
)
from acceptd.lockfile import open_lock
from acceptd.objectstore.remote import Found
from acceptd.record.failpoint import failpoint

TEMPORARY: Final = "tmp"
LOCK: Final = ".lock"
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class Directory:
    """Objects below one directory, each a file 0444 with one name. As :class:`acceptd.objectstore.remote.Remote`.

    ``make``: the directory is made where there is none (its own place in a state); else it must be there, because
    a volume that is not mounted would look empty.
    """

    def __init__(self, root: Path, *, make: bool) -> None:
        self.where = f"file://{root}"
        self._root = root
        self._make = make

    def check(self) -> str:
        """Write nothing twice: proved with one small object."""
        name = temporary_name()
        with self._writing() as root:
            self._file(root, name, b"")
            try:
                if self._name(root, name, f"{TEMPORARY}/{name}.once"):
                    self._file(root, name, b"")
                    if self._name(root, name, f"{TEMPORARY}/{name}.once"):
                        raise ObjectStoreError(f"{self.where}: a name that is taken can be taken again")
            finally:
                with contextlib.suppress(OSError), self._folder(root, TEMPORARY) as folder:
                    os.unlink(f"{name}.once", dir_fd=folder)
        return "writable, written once by link(2)"

    def look(self, key: str) -> Found | None:
        """As :meth:`Remote.look`."""
        try:
            with self._open(key) as (_, facts):
                return Found(key, facts.st_size, _tag(facts), facts.st_mtime)
        except ObjectMissingError:
            return None

    def create(self, key: str, data: bytes) -> bool:
        """As :meth:`Remote.create`."""
        name = temporary_name()
        with self._writing() as root:
            self._file(root, name, data)
            return self._name(root, name, key)

    def create_from(self, key: str, source: int, size: int, sha256: str) -> bool:
        """As :meth:`Remote.create_from`."""
        name, copier = temporary_name(), Copier()
        with self._writing() as root:
            try:
                with self._folder(root, TEMPORARY) as folder:
                    target = create_exclusive(folder, name, 0o444)
                    copied = copier.copy(source, target, size)
                    copier.flush()
                if copied.size != size or not hmac.compare_digest(copied.sha256, sha256):
                    raise ObjectDamagedError(f"{key}: the file to be kept is not the one that was sealed")
                return self._name(root, name, key)
            except StateError as error:
                raise ObjectStoreError(f"{self.where}: {error.message}", remedy="make room there") from error
            finally:
                copier.close()
                self._drop(root, name)

    def read(self, key: str, most: int) -> tuple[bytes, str]:
        """As :meth:`Remote.read`."""
        with self._open(key) as (fd, facts):
            if facts.st_size > most:
                raise ObjectDamagedError(
                    f"{self.where}/{key} has {facts.st_size} bytes; at most {most} are expected"
                )
            return b"".join(_parts(fd, key, facts.st_size)), _tag(facts)

    def chunks(self, key: str, size: int) -> Iterator[bytes]:
        """As :meth:`Remote.chunks`."""
        with self._open(key) as (fd, facts):
            if facts.st_size != size:
                raise ObjectDamagedError(f"{self.where}/{key} has {facts.st_size} bytes, not {size}")
            yield from _parts(fd, key, size)

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """As :meth:`Remote.replace`; writers of one directory wait for one another."""
        name = temporary_name()
        with self._writing(alone=True) as root:
            found = self.look(key)
            if (found.tag if found is not None else "") != tag:
                return False
            self._file(root, name, data)
            folder, _, last = key.rpartition("/")
            self._made(root, folder)
            with self._folder(root, TEMPORARY) as source, self._folder(root, folder) as target:
                os.rename(name, last, src_dir_fd=source, dst_dir_fd=target)
                os.fsync(target)
            return True

    def listed(self, prefix: str) -> Iterator[Found]:
        """As :meth:`Remote.listed`."""
        begin, _, _ = prefix.rpartition("/")
        waiting = [begin]
        while waiting:
            folder = waiting.pop()
            try:
                with self._root_open() as root, self._folder(root, folder) as fd, os.scandir(fd) as entries:
                    rows = [(one.name, one.stat(follow_symlinks=False)) for one in entries]
            except (ObjectMissingError, FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise self._trouble(folder, error) from error
            for name, facts in rows:
                key = f"{folder}/{name}".lstrip("/")
                if stat.S_ISDIR(facts.st_mode):
                    if key != TEMPORARY and (key.startswith(prefix) or prefix.startswith(f"{key}/")):
                        waiting.append(key)
                elif stat.S_ISREG(facts.st_mode) and key.startswith(prefix) and key != LOCK:
                    yield Found(key, facts.st_size, _tag(facts), facts.st_mtime)

    def refresh(self, found: Found) -> None:
        """As :meth:`Remote.refresh`."""
        with self._open(found.key) as (fd, _):
            try:
                os.utime(fd)
            except OSError as error:
                raise self._trouble(found.key, error) from error

    def remove(self, key: str) -> None:
        """As :meth:`Remote.remove`; a directory that is left empty goes too."""
        with self._writing(alone=True) as root:
            folder, _, last = key.rpartition("/")
            try:
                with self._folder(root, folder) as fd:
                    os.unlink(last, dir_fd=fd)
                    os.fsync(fd)
            except FileNotFoundError:
                return
            while folder:
                above, _, name = folder.rpartition("/")
                try:
                    with self._folder(root, above) as fd:
                        os.rmdir(name, dir_fd=fd)
                except OSError:
                    return
                folder = above

    def sweep(self, before: float) -> list[str]:
        """As :meth:`Remote.sweep`."""
        left: list[str] = []
        with self._writing() as root, self._folder(root, TEMPORARY) as folder:
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
                        left += remove_tree(folder, name)
        return left

    def close(self) -> None:
        """Nothing is under way in a directory."""

    # -- descriptors ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _root_open(self) -> Iterator[int]:
        try:
            fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if self._make:
                raise ObjectMissingError(f"{self.where} holds nothing yet") from error
            raise ObjectStoreError(
                f"{self.where} does not exist", remedy="make it, or mount its volume"
            ) from error
        except OSError as error:
            raise self._trouble("", error) from error
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _writing(self, *, alone: bool = False) -> Iterator[int]:
        """Give the root with a lock: who removes, or replaces, is alone; others write side by side."""
        try:
            if self._make:
                with contextlib.suppress(FileExistsError):
                    self._root.mkdir(mode=0o700)
                    fsync_dir(self._root.parent)
            with self._root_open() as root:
                self._made(root, TEMPORARY)
                lock = open_lock(LOCK, dir_fd=root)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
                    yield root
                finally:
                    os.close(lock)
        except OSError as error:
            raise self._trouble("", error) from error

    @contextlib.contextmanager
    def _folder(self, root: int, folder: str) -> Iterator[int]:
        fd = open_directory(root, folder or None)
        try:
            yield fd
        finally:
            os.close(fd)

    def _made(self, root: int, folder: str) -> None:
        """Make the directories of a key, each durable."""
        path = ""
        for part in folder.split("/") if folder else ():
            with self._folder(root, path) as above:
                try:
                    os.mkdir(part, 0o755, dir_fd=above)
                    os.fsync(above)
                except FileExistsError:
                    pass
            path = f"{path}/{part}".lstrip("/")

    def _file(self, root: int, name: str, data: bytes) -> None:
        with self._folder(root, TEMPORARY) as folder:
            fd = create_exclusive(folder, name, 0o444)
            try:
                write_all(fd, data)
                os.fsync(fd)
            except BaseException:
                self._drop(root, name)
                raise
            finally:
                os.close(fd)

    def _name(self, root: int, name: str, key: str) -> bool:
        """Give what lies in ``tmp`` its key, where that is free; it is gone from ``tmp`` afterwards."""
        folder, _, last = key.rpartition("/")
        failpoint("objects.written")
        try:
            for turn in range(8):
                self._made(root, folder)
                try:
                    with self._folder(root, TEMPORARY) as source, self._folder(root, folder) as target:
                        os.link(name, last, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
                        failpoint("objects.linked")
                        self._drop(root, name)
                        os.fsync(target)
                    return True
                except FileExistsError:
                    return False
                except FileNotFoundError:  # somebody removed a directory that was empty
                    if turn == 7:
                        raise
            return False
        finally:
            self._drop(root, name)

    def _drop(self, root: int, name: str) -> None:
        with contextlib.suppress(OSError), self._folder(root, TEMPORARY) as folder:
            os.unlink(name, dir_fd=folder)

    @contextlib.contextmanager
    def _open(self, key: str) -> Iterator[tuple[int, os.stat_result]]:
        with self._root_open() as root:
            try:
                fd = open_beneath(root, key, _FILE)
            except FileNotFoundError as error:
                raise ObjectMissingError(f"{self.where}/{key} does not exist") from error
            except OSError as error:
                raise self._trouble(key, error) from error
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise ObjectDamagedError(f"{self.where}/{key} is no regular file")
            yield fd, facts
        finally:
            os.close(fd)

    def _trouble(self, key: str, error: OSError) -> ObjectStoreError:
        place = f"{self.where}/{key}" if key else self.where
        if error.errno in {errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.ENXIO}:
            return ObjectDamagedError(f"{place} is a link, or leads elsewhere: {error.strerror}")
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        remedy = "make room there" if full else "look at the directory and who may write to it"
        return ObjectStoreError(f"{place}: {error.strerror or error}", remedy=remedy)


def _parts(fd: int, key: str, size: int) -> Iterator[bytes]:
    """Yield exactly ``size`` bytes of a descriptor; raise ObjectDamagedError where there are fewer or more."""
    left = size
    while left:
        try:
            part = os.read(fd, min(CHUNK, left))
        except OSError as error:
            raise ObjectStoreError(f"{key} cannot be read: {error.strerror}") from error
        if not part:
            raise ObjectDamagedError(f"{key} ended {left} bytes before its end")
        left -= len(part)
        yield part
    if os.read(fd, 1):
        raise ObjectDamagedError(f"{key} grew while it was read")


def _tag(facts: os.stat_result) -> str:
    return f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"
