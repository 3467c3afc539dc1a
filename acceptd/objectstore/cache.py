"""Bundles beside a worker: bounded bytes, the least recently used go first, nothing that is in use goes.

``<root>/<digest>/bundle`` is the bundle's directory, as below ``sealed``; ``<root>/<digest>/inventory.json`` the
list that proves itself. Every use hashes every file again: stamps of the file system would show a later write by
honest means, a hash shows any, and also what a disk has lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from acceptd.errors import LoaderError, ObjectDamagedError, ObjectStoreError, StateError
from acceptd.intake.files import (
    fsync_dir,
    open_directory,
    remove_temporaries,
    remove_tree,
    temporary_name,
    write_exclusive,
)
from acceptd.lockfile import open_lock
from acceptd.metrics.counting import Counting
from acceptd.objectstore import inventory
from acceptd.objectstore.inventory import Area, valid_digest
from acceptd.objectstore.objects import Objects
from acceptd.record.failpoint import failpoint
from acceptd.release import objects as trees
from acceptd.release.store import inventory_bytes
from acceptd.release.trust import File

BUNDLE: Final = "bundle"
INVENTORY: Final = "inventory.json"
_BLOCK: Final = 4096
"""Each file and each bundle counts at least that much: a cache of empty files is no endless one."""
_PATIENCE: Final = 120.0
_LOOK: Final = 5.0
log = structlog.get_logger("acceptd.objects")


@dataclass(slots=True)
class _Kept:
    """One bundle: its bytes, who holds it, and whether somebody fetches or verifies it now."""

    size: int
    holders: int = 0
    busy: bool = False
    used: float = 0.0
    failure: BaseException | None = field(default=None)


class BundleCache:
    """The bundles below ``root``, at most ``most_bytes`` of them. One process has it; many threads use it.

    Raises StateError where the directory cannot be used or another process has it.
    """

    def __init__(
        self,
        root: Path,
        objects: Objects,
        most_bytes: int,
        *,
        patience: float = _PATIENCE,
        count: Counting | None = None,
    ) -> None:
        self._root, self._objects, self._most, self._patience = root, objects, most_bytes, patience
        self._count = count or Counting()
        self._kept: dict[str, _Kept] = {}
        self._changed = threading.Condition()
        self.fetched = 0
        """Bundles that were fetched since the start."""
        self.hits = 0
        """Uses of a bundle that was there, whole."""
        try:
            with contextlib.suppress(FileExistsError):
                root.mkdir(mode=0o700)
                fsync_dir(root.parent)
            self._lock = open_lock(root / ".lock")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise StateError(
                    f"{root}: another process has this cache", remedy="each node needs a state of its own"
                ) from None
            self._found()
        except OSError as error:
            raise StateError(f"{root}: {error.strerror}: {error.filename}") from error

    def close(self) -> None:
        """Let another process have it; bundles stay for the next start."""
        os.close(self._lock)

    @property
    def size(self) -> int:
        """Bytes of all bundles that are there or on their way."""
        with self._changed:
            return sum(one.size for one in self._kept.values())

    @contextlib.contextmanager
    def hold(self, area: Area, digest: str) -> Iterator[Path]:
        """Give the directory of a bundle, whole and verified now; it stays until the end of the block.

        Raises as :meth:`Objects.fetch_bundle` does; ObjectStoreError where the bundle is larger than the whole
        cache, or where what is in use leaves no room for it as long as the cache waits for that.
        """
        valid_digest(digest)
        kept = self._take(area, digest)
        try:
            yield self._root / digest / BUNDLE
        finally:
            with self._changed:
                kept.holders -= 1
                kept.used = time.time()
                self._changed.notify_all()
            with contextlib.suppress(OSError):
                os.utime(self._root / digest)  # the order after a restart

    # -- one use --------------------------------------------------------------------------------------

    def _take(self, area: Area, digest: str) -> _Kept:
        """Return a bundle that is held for the caller, fetched or verified by it or by who came first."""
        with self._changed:
            kept = self._kept.get(digest)
            if kept is None:
                kept = self._kept[digest] = _Kept(0)
                fresh = True
            else:
                fresh = False
            kept.holders += 1
            if kept.busy:  # two at once share one fetch, and its end
                self._changed.wait_for(lambda: not kept.busy)
                if kept.failure is None:
                    return kept
                self._failed(digest, kept)
                raise _again(kept.failure)
            kept.busy, alone = True, kept.holders == 1
        failure: BaseException | None = None
        try:
            if fresh or not self._whole(digest, alone=alone):
                self._fetch(area, digest, kept)
                self._count.cached(hit=False)
            else:
                self.hits += 1
                self._count.cached(hit=True)
        except BaseException as error:
            failure = error
            raise
        finally:
            with self._changed:
                kept.busy, kept.failure = False, failure
                if failure is not None:
                    self._failed(digest, kept)
                self._changed.notify_all()
        return kept

    def _failed(self, digest: str, kept: _Kept) -> None:
        """Forget a bundle that did not come with the last who waited for it; who uses it already goes on."""
        kept.holders -= 1
        if not kept.holders and self._kept.get(digest) is kept:
            del self._kept[digest]
        self._changed.notify_all()

    def _whole(self, digest: str, *, alone: bool) -> bool:
        """Hash every file of a bundle that is there; one that differs goes, unless somebody else uses it."""
        try:
            files = self._listed(digest)
            fd = open_directory(self._root)
            try:
                trees.verify_tree(fd, f"{digest}/{BUNDLE}", files)
            finally:
                os.close(fd)
        except (LoaderError, ObjectStoreError, OSError) as error:
            log.error("cached bundle is damaged", digest=digest, why=str(error))  # noqa: TRY400 - it says all
            if not alone:
                raise ObjectDamagedError(
                    f"the bundle {digest} in {self._root} was changed while it is in use: {error}",
                    remedy="find out what writes there; the next use fetches it anew",
                ) from error
            self._remove(digest)
            return False
        return True

    def _fetch(self, area: Area, digest: str, kept: _Kept) -> None:
        files = self._objects.inventory(area, digest)
        size = _counted(files)
        if size > self._most:
            raise ObjectStoreError(
                f"the bundle {digest} needs {size} bytes, more than the whole cache of {self._most}",
                remedy="raise objects.cache_bytes",
            )
        self._room(digest, kept, size)
        name = temporary_name()
        try:
            os.mkdir(self._root / name, 0o755)
            (self._root / name).chmod(0o755)  # the cell walks through it
            write_exclusive(self._root / name, INVENTORY, inventory_bytes(files), 0o444)
            # Not durable: each use hashes it, so a power loss costs another fetch and nothing else.
            self._objects.fetch_files(digest, files, self._root / name / BUNDLE, durable=False)
            failpoint("objects.cache-fetched")
            self._remove(digest)  # what nobody knows of any more, if anything
            os.rename(self._root / name, self._root / digest)
        except OSError as error:
            raise StateError(f"{self._root}: {error.strerror}", remedy="make room for the cache") from error
        finally:
            if (self._root / name).exists():
                remove_tree(self._root, name)
        self.fetched += 1

    def _room(self, digest: str, kept: _Kept, size: int) -> None:
        """Set bytes aside; remove what was used longest ago, wait for what is in use."""
        until = time.monotonic() + self._patience
        with self._changed:
            while True:
                others = {name: one for name, one in self._kept.items() if one is not kept}
                free = self._most - sum(one.size for one in others.values())
                if size <= free:
                    kept.size = size
                    return
                idle = [name for name, one in others.items() if not one.holders and not one.busy]
                if idle:
                    oldest = min(idle, key=lambda name: others[name].used)
                    self._remove(oldest)
                    del self._kept[oldest]
                elif time.monotonic() >= until:
                    raise ObjectStoreError(
                        f"no room for the bundle {digest}: {self._most - free} of {self._most} bytes are in use",
                        remedy="raise objects.cache_bytes, or have fewer slots",
                    )
                else:
                    self._changed.wait(min(_LOOK, max(0.0, until - time.monotonic())))

    # -- the directory --------------------------------------------------------------------------------

    def _found(self) -> None:
        """Take over what an earlier process left; what it had not finished goes."""
        if left := remove_temporaries(self._root):
            raise StateError(f"{self._root}: not removed: {left[0]}", remedy="remove it by hand")
        for entry in os.scandir(self._root):
            if entry.name == ".lock":
                continue
            try:
                self._kept[valid_digest(entry.name)] = _Kept(
                    _counted(self._listed(entry.name)), used=entry.stat(follow_symlinks=False).st_mtime
                )
            except (ObjectStoreError, LoaderError, OSError):
                self._remove(entry.name)
        with self._changed:
            while sum(one.size for one in self._kept.values()) > self._most:
                oldest = min(self._kept, key=lambda name: self._kept[name].used)
                self._remove(oldest)
                del self._kept[oldest]

    def _listed(self, digest: str) -> tuple[File, ...]:
        fd = open_directory(self._root)
        try:
            data = trees.read_small(fd, f"{digest}/{INVENTORY}", inventory.MAX_BYTES)
        finally:
            os.close(fd)
        return inventory.opened(data, digest, 1 << 50)

    def _remove(self, name: str) -> None:
        """Take a bundle's name away at once, then its bytes."""
        gone = temporary_name()
        try:
            os.rename(self._root / name, self._root / gone)
        except FileNotFoundError:
            return
        if left := remove_tree(self._root, gone):
            log.warning("not removed", place=str(self._root), what=left[0])


def _counted(files: tuple[File, ...]) -> int:
    return _BLOCK + sum(-(-file.size // _BLOCK) * _BLOCK + _BLOCK for file in files)


def _again(error: BaseException) -> BaseException:
    """Return an error for another thread: the same words, without the first one's traceback."""
    return (
        error.with_traceback(None) if isinstance(error, Exception) else ObjectStoreError("the fetch was cut off")
    )
