"""Sealing: copy a drop into acceptd's own storage while hashing it. Only sealed bytes count afterwards.

Nothing is parsed here. Source descriptors are opened beneath the drop, never through a link, never
on another file system, and what was read is compared with what ``fstat`` says before and after.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from acceptd.errors import SealError, StateError
from acceptd.intake import files
from acceptd.intake.paths import Inventory, check_component, shown
from acceptd.intake.stream import StreamSealer
from acceptd.intake.target import SealTarget, bundle_digest
from acceptd.policy.limits import LimitsTable
from acceptd.sealed_facts import Sealed

__all__ = ["SealedArchive", "StreamSealer", "bundle_digest", "copy_archive", "seal_directory"]

Archive = Literal["zip", "tar", "tar.gz"]
ARCHIVE_NAME: Final = "archive"
_HOLES_FROM: Final = 16 << 20
"""From this size on a file of more than seven eighths holes is refused."""
_MAX_HOLES: Final = 4096
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True)
class SealedArchive:
    """A private copy of an archive file, for the unpack job: mode 0444 in a directory of its own."""

    path: Path
    sha256: str
    size: int
    format: Archive


def seal_directory(
    source: Path,
    target: Path,
    limits: LimitsTable,
    *,
    temporary: str | None = None,
    durable: bool = True,
    for_owner: bool = True,
) -> Sealed:
    """Copy the bundle at ``source`` to the new directory ``target`` and return its inventory and digest.

    ``target`` appears whole and durable, or not at all: directories 0755, files 0444. Raises
    SealError with a finding code and the place for what is wrong with the drop, StateError for what
    is wrong with the storage (no space, ``target`` exists). ``temporary`` names the directory beside
    ``target`` that is written meanwhile, for who must remove it after killing this process. ``durable``
    off: as :class:`SealTarget` has it. ``for_owner`` off: it is sealed for whoever runs this, by whose rights it
    is read, and not for whoever owns the drop.
    """
    try:
        source_fd = files.open_directory(source)
    except OSError as error:
        raise source_error(error, "(drop)") from error
    try:
        with SealTarget(target, temporary, durable=durable) as sealed:
            owner = _Owner.of(source_fd) if for_owner else None
            _Walk(limits, sealed, owner).directory(source_fd, sealed.fd, "")
            return sealed.publish("directory")
    finally:
        os.close(source_fd)


def copy_archive(
    source: Path,
    target: Path,
    limits: LimitsTable,
    archive: Archive,
    *,
    temporary: str | None = None,
    for_owner: bool = True,
) -> SealedArchive:
    """Copy the archive file ``source`` into the new directory ``target`` with the same checks as any file.

    ``for_owner`` as in :func:`seal_directory`; the owner is the directory's that it lies in.
    """
    try:
        parent = files.open_directory(source.parent)
    except OSError as error:
        raise source_error(error, "(drop)") from error
    try:
        with SealTarget(target, temporary) as sealed:
            walk = _Walk(limits, sealed, _Owner.of(parent) if for_owner else None)
            walk.file(parent, os.fsencode(source.name), sealed.fd, ARCHIVE_NAME)
            file = sealed.publish("directory").files[0]
    finally:
        os.close(parent)
    return SealedArchive(target / ARCHIVE_NAME, file.sha256, file.size, archive)


MACHINES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What says that this process, or this machine, ran out of something: nothing about any drop."""


def source_error(error: OSError, where: str) -> SealError | StateError:
    """Return the SealError for a system call that failed on the drop's side; StateError where the machine did."""
    if error.errno in MACHINES:
        remedy = "see how many files and how much memory acceptd may have; the drop waits"
        return StateError(f"a drop cannot be read now: {os.strerror(error.errno or 0)}", remedy=remedy)
    match error.errno:
        case errno.ELOOP:
            return SealError("seal/symlink", where, "a symbolic link")
        case errno.EXDEV:
            return SealError("seal/other-filesystem", where, "lies on another file system")
        case errno.ENOENT | errno.ESTALE:
            return SealError("seal/vanished", where, "was removed while it was being sealed")
        case errno.ENOTDIR:
            return SealError("seal/not-a-bundle", where, "is no directory")
        case errno.ENXIO | errno.ENODEV:
            return SealError("seal/not-a-file", where, "is neither a regular file nor a directory")
        case errno.EAGAIN:
            return SealError("seal/unreadable", where, "another process holds a lease on it")
        case _:
            reason = os.strerror(error.errno or errno.EIO)
            return SealError("seal/unreadable", where, f"cannot be read: {reason}")


@dataclass(frozen=True)
class _Owner:
    """Whose directory a drop is. What acceptd may read by its rights alone it must not read for somebody else.

    Who can write a directory can move another's file from it into a drop, and perhaps not read it (rename(2)).
    """

    uid: int
    gid: int

    @classmethod
    def of(cls, directory: int) -> _Owner | None:
        """Return the owner of an open directory; None for root and ourselves, who may read what acceptd may."""
        found = os.fstat(directory)
        return None if found.st_uid in {0, os.geteuid()} else cls(found.st_uid, found.st_gid)

    def reads(self, found: os.stat_result) -> bool:
        """Say whether the owner may read a file or list a directory, by what its mode says."""
        if found.st_uid == self.uid or found.st_mode & stat.S_IROTH:
            return True
        return found.st_gid == self.gid and bool(found.st_mode & stat.S_IRGRP)


class _Walk:
    """Walks one drop, depth first, by descriptors; at most ``path_depth`` of them are open."""

    def __init__(self, limits: LimitsTable, target: SealTarget, owner: _Owner | None) -> None:
        self._limits = limits
        self._owner = owner
        self._target = target
        self._inventory = Inventory(limits)
        self._budget = self._inventory.entry_budget()
        self._allocated = 0

    def directory(self, source: int, target: int, path: str) -> int:
        """Seal everything in ``source`` into ``target``; return how many files lay there and below."""
        before = os.fstat(source)
        where = shown(path) or "(drop)"
        try:
            names, capped = files.scan(source, self._budget)
        except OSError as error:
            raise source_error(error, where) from error
        self._budget -= len(names)
        if capped:
            message = f"more than {self._inventory.entry_budget()} entries; {self._limits.files} files are allowed"
            raise SealError("seal/too-many-files", where, message)
        count, seen = 0, {}
        for raw in names:
            child = shown(f"{path}/".encode() + raw) if path else shown(raw)
            name = check_component(raw, child)
            try:
                found = seen[raw] = files.stat_beneath(source, raw)
            except OSError as error:
                raise source_error(error, child) from error
            if stat.S_ISDIR(found.st_mode):
                count += self._nested(source, target, raw, f"{path}/{name}" if path else name)
            else:
                self.file(source, raw, target, f"{path}/{name}" if path else name)
                count += 1
        self._unchanged(source, before, seen, where)
        return count

    def _nested(self, source: int, target: int, raw: bytes, path: str) -> int:
        self._inventory.directory(path)
        try:
            inner = files.open_beneath(source, raw, _DIRECTORY | os.O_NONBLOCK)
        except NotADirectoryError as error:
            message = "the directory was replaced while it was being sealed"
            raise SealError("seal/changed-while-read", shown(path), message) from error
        except OSError as error:
            raise source_error(error, shown(path)) from error
        name = path.rpartition("/")[2]
        try:
            self._theirs(os.fstat(inner), shown(path))
            made = self._target.make_directory(target, name)
            try:
                count = self.directory(inner, made, path)
            finally:
                os.close(made)
        finally:
            os.close(inner)
        if count:
            self._target.nested(path)
        else:
            os.rmdir(name, dir_fd=target)  # empty directories are no part of a bundle
        return count

    def file(self, source: int, raw: bytes, target: int, path: str) -> None:
        """Seal one regular file as ``path``, whose last part is its name in ``target``."""
        where = shown(path)
        try:
            _regular(files.stat_beneath(source, raw), where)  # a device is not even opened
            fd = files.open_beneath(source, raw, _READ)
        except OSError as error:
            raise source_error(error, where) from error
        try:
            before = os.fstat(fd)
            _regular(before, where)
            self._theirs(before, where)
            self._inventory.file(path, before.st_size)
            holes = self._space(fd, before, where)
            out = self._target.create(target, path.rpartition("/")[2])
            try:
                copied = self._target.copier.copy(fd, out, before.st_size)
            except OSError as error:
                raise source_error(error, where) from error  # the copier's own side raises StateError
            if copied.size != before.st_size or not _same(before, os.fstat(fd)):
                raise SealError("seal/changed-while-read", where, "the file changed while it was being sealed")
        finally:
            os.close(fd)
        self._target.add(path, copied.sha256, copied.size, copied.native, holes)

    def _theirs(self, found: os.stat_result, where: str) -> None:
        """Refuse what the owner of the drop may not read."""
        if self._owner is not None and not self._owner.reads(found):
            message = (
                f"belongs to uid {found.st_uid}, who lets the drop's owner, uid {self._owner.uid}, not read it"
            )
            raise SealError("seal/unreadable", where, message)

    def _space(self, fd: int, found: os.stat_result, where: str) -> int:
        """Return the bytes of holes; refuse a file that is almost nothing else, or too much space together."""
        allocated = found.st_blocks * 512
        self._allocated += allocated
        # Room for the last block of each file, and for file systems that allocate in larger units.
        slack = (self._inventory.files << 20) + (1 << 20)
        if self._allocated > self._limits.bundle_bytes + slack:
            raise SealError(
                "seal/bundle-too-large", where, "the files occupy more than limits.bundle_bytes on disk"
            )
        # st_blocks alone would accuse compressing file systems; a real hole shows in SEEK_HOLE too.
        holes = _holes(fd, found.st_size) if allocated < found.st_size else 0
        if found.st_size >= _HOLES_FROM and allocated * 8 < found.st_size and holes:
            message = f"{found.st_size} bytes of which {allocated} are written; the rest is holes"
            raise SealError("seal/sparse-file", where, message)
        return holes

    def _unchanged(
        self, source: int, before: os.stat_result, seen: dict[bytes, os.stat_result], where: str
    ) -> None:
        """Compare the directory, and every file in it, with what they were when they were read."""
        for raw, old in seen.items():
            if stat.S_ISREG(old.st_mode):
                try:
                    now = files.stat_beneath(source, raw)
                except OSError as error:
                    raise SealError("seal/changed-while-read", shown(raw), "the file was replaced") from error
                if not _same(old, now):
                    raise SealError("seal/changed-while-read", shown(raw), "the file changed after it was read")
        if not _same(before, os.fstat(source)):
            message = "files came, went or were renamed while it was being sealed"
            raise SealError("seal/changed-while-read", where, message)


def _regular(found: os.stat_result, where: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise SealError("seal/symlink", where, "a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise SealError("seal/not-a-file", where, "is neither a regular file nor a directory")
    if found.st_nlink != 1:
        raise SealError("seal/hard-link", where, f"the file has {found.st_nlink} names on disk")


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    fields = ("st_dev", "st_ino", "st_mode", "st_nlink", "st_size", "st_mtime_ns", "st_ctime_ns")
    return all(getattr(before, field) == getattr(after, field) for field in fields)


def _holes(fd: int, size: int) -> int:
    """Return the bytes in holes, as far as MAX_HOLES of them tell; 0 where the file system does not say."""
    total = at = 0
    try:
        for _ in range(_MAX_HOLES):
            if at >= size or (hole := os.lseek(fd, at, os.SEEK_HOLE)) >= size:
                break
            try:
                at = min(os.lseek(fd, hole, os.SEEK_DATA), size)
            except OSError as error:
                if error.errno != errno.ENXIO:  # ENXIO: nothing but holes up to the end
                    raise
                at = size
            total += at - hole
    except OSError:
        return 0
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return total
