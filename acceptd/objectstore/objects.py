"""Bundles and evidence in an object store, by their digests.

``blobs/sha256/<aa>/<sha256>`` holds contents of bundles, each once; ``evidence/`` alike what nodes measured, and
``outputs/`` what replays may want; ``sealed/<bundle digest>.json`` and ``approved/<bundle digest>.json`` the
inventory whose SHA-256 is the bundle digest. A bundle is there when its inventory is, which is written last.
Whatever is found instead of written is read and hashed before it counts.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from acceptd.errors import (
    ObjectDamagedError,
    ObjectMissingError,
    ObjectStoreError,
    SealError,
)
from acceptd.intake.files import open_beneath, open_directory, remove_tree
from acceptd.intake.native import Sniffer
from acceptd.intake.target import SealTarget
from acceptd.metrics.counting import Counting
from acceptd.objectstore import inventory
from acceptd.objectstore.counted import Counted
from acceptd.objectstore.inventory import Area, Shelf, blob_key, evidence_key, inventory_key
from acceptd.objectstore.local import Directory
from acceptd.objectstore.remote import PART, Remote
from acceptd.objectstore.settings import ObjectsTable, parsed
from acceptd.pool import Pool
from acceptd.record.failpoint import failpoint
from acceptd.release.store import inventory_bytes
from acceptd.release.trust import File
from acceptd.sealed_facts import Sealed

FOLDER: Final = "objects"
"""Where objects lie in a state whose settings name no other place."""
_SMALL: Final = 1 << 20
"""Files up to here are fetched several at once; larger ones come in parts anyway."""
_SOURCE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_MANY: Final = 1 << 50
_YOUNG: Final = 3600.0
"""Seconds: what was written since needs no refreshing. A collection takes nothing that is younger than a day."""
A = TypeVar("A")
R = TypeVar("R")


def open_objects(table: ObjectsTable, state: Path, count: Counting | None = None) -> Objects:
    """Return the objects that ``[objects]`` names; nothing is asked of them yet. ``count`` hears of each call.

    Raises UsageError where an S3-compatible one is named and s3fs is not installed.
    """
    remote = _remote(table, state)
    return Objects(remote if count is None else Counted(remote, count), table.together)


def _remote(table: ObjectsTable, state: Path) -> Remote:
    place = parsed(table.url) if table.url else None
    if place is not None and place.scheme == "s3":
        from acceptd.objectstore.s3 import Bucket

        return Bucket(table)
    return Directory(Path(place.path), make=False) if place is not None else Directory(state / FOLDER, make=True)


class Objects:
    """The bundles and blobs of one place. Used by many threads; ``close`` ends what is under way."""

    def __init__(self, remote: Remote, together: int = 4) -> None:
        self.remote = remote
        self._together = together

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what is under way; who waits for it gets ObjectStoreError."""
        self.remote.close()

    def check(self) -> str:
        """Prove that the place is there and writes a name once; return words for people."""
        return self.remote.check()

    # -- bundles --------------------------------------------------------------------------------------

    def put_bundle(self, area: Area, directory: Path, sealed: Sealed) -> None:
        """Write a sealed directory: contents that are not there, then the inventory. Twice is no error.

        Raises ObjectStoreError; ObjectDamagedError where the directory is not what was sealed, or what is there
        under its names is something else.
        """
        data = inventory_bytes(sealed.files)
        if hashlib.sha256(data).hexdigest() != sealed.digest:
            raise ObjectDamagedError(f"the files of the sealed bundle do not give its digest {sealed.digest}")
        files = {row.sha256: File(row.path, row.sha256, row.size) for row in sealed.files}
        try:
            root = open_directory(directory)
        except OSError as error:
            raise ObjectStoreError(f"{directory}: {error.strerror}") from error
        try:
            small = [one for one in files.values() if one.size <= PART]
            large = [one for one in files.values() if one.size > PART]  # those go in parts side by side
            with Pool(self._together, "objects-put") as pool:
                fresh = list(_each(pool, partial(self._put_file, root), small, self._together))
            fresh += [self._put_file(root, one) for one in large]
            failpoint("objects.blobs-written")
            self._once(inventory_key(area, sealed.digest), data)
            for one, written in zip([*small, *large], fresh, strict=True):
                # What was found may have been removed before the inventory named it.
                if not written and self.remote.look(blob_key(one.sha256)) is None:
                    self._put_file(root, one)
        finally:
            os.close(root)

    def fetch_bundle(
        self, area: Area, digest: str, destination: Path, *, most: int = _MANY, durable: bool = True
    ) -> Sealed:
        """Write a bundle to the new directory ``destination``, which appears whole and right, or not at all.

        Directories are 0755, files 0444 with one name each. Returns what was written, as a sealer does (holes are
        not known any more). Raises ObjectMissingError, ObjectDamagedError, ObjectsUnreachableError;
        ObjectStoreError for more than ``most`` bytes; StateError where the disk does not take it.
        """
        return self.fetch_files(digest, self.inventory(area, digest, most), destination, durable=durable)

    def inventory(self, area: Area, digest: str, most: int = _MANY) -> tuple[File, ...]:
        """Return the files of a bundle, as its digest proves them; raise as :meth:`fetch_bundle` does."""
        data, _ = self.remote.read(inventory_key(area, digest), inventory.MAX_BYTES)
        return inventory.opened(data, digest, most)

    def fetch_files(
        self, digest: str, files: Sequence[File], destination: Path, *, durable: bool = True
    ) -> Sealed:
        """Write the files of a proven inventory to a new directory; as :meth:`fetch_bundle`."""
        try:
            with SealTarget(destination, durable=durable) as target, ExitStack() as stack:
                pool = stack.enter_context(Pool(self._together, "objects-get"))
                hasher = stack.enter_context(Pool(1, "objects-hash"))
                places = _folders(target, files, stack)
                for file, content in self._contents(pool, files):
                    _write(target, places[file.path.rpartition("/")[0]], file, content, hasher)
                sealed = target.publish("directory")
        except SealError as error:
            raise ObjectDamagedError(f"the bundle {digest}: {error.where}: {error.message}") from error
        except RecursionError as error:
            raise ObjectDamagedError(f"the bundle {digest} is nested too deep") from error
        if sealed.digest != digest:  # only of an inventory that is not canonical
            remove_tree(destination.parent, destination.name)
            raise ObjectDamagedError(f"the inventory {digest} is not written as acceptd writes it")
        return sealed

    def _contents(self, pool: Pool, files: Sequence[File]) -> Iterator[tuple[File, Iterator[bytes]]]:
        """Yield each file with its chunks, the small ones fetched ahead."""
        small = [file for file in files if file.size <= _SMALL]
        fetched = _each(pool, self._small, small, 2 * self._together)
        yield from ((file, iter((data,))) for file, data in zip(small, fetched, strict=True))
        for file in files:
            if file.size > _SMALL:
                yield file, self.remote.chunks(blob_key(file.sha256), file.size)

    def _small(self, file: File) -> bytes:
        return b"".join(self.remote.chunks(blob_key(file.sha256), file.size))

    def has(self, area: Area, digest: str) -> bool:
        """Say whether a bundle's inventory is there; what it names is proved when it is fetched."""
        return self.remote.look(inventory_key(area, digest)) is not None

    def forget(self, area: Area, digest: str) -> None:
        """Remove a bundle's inventory; contents that nothing names any more go with a later collection."""
        self.remote.remove(inventory_key(area, digest))

    # -- evidence -------------------------------------------------------------------------------------

    def put_blob(self, data: bytes, shelf: Shelf = "evidence") -> str:
        """Write a piece of evidence and return its SHA-256 in hex; what is there already is verified first."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._once(evidence_key(sha256, shelf), data)
        return sha256

    def get_blob(self, sha256: str, most: int, shelf: Shelf = "evidence") -> bytes:
        """Return evidence by its SHA-256; raise ObjectDamagedError for other bytes or more than ``most``."""
        data, _ = self.remote.read(evidence_key(sha256, shelf), most)
        if not hmac.compare_digest(hashlib.sha256(data).hexdigest(), sha256):
            raise ObjectDamagedError(f"{self.remote.where}: the object {sha256} has other bytes")
        return data

    # -- written once ---------------------------------------------------------------------------------

    def _once(self, key: str, data: bytes) -> None:
        if self.remote.create(key, data):
            return
        there, _ = self.remote.read(key, len(data))
        if not hmac.compare_digest(there, data):
            raise _other(self.remote.where, key)
        self._renew(key)

    def _put_file(self, root: int, file: File) -> bool:
        """Write one file of a sealed directory; return whether it was not there yet."""
        key = blob_key(file.sha256)
        try:
            source = open_beneath(root, file.path, _SOURCE)
        except OSError as error:
            raise ObjectDamagedError(f"the sealed file {file.path[:200]!r}: {error.strerror}") from error
        try:
            facts = os.fstat(source)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != file.size:
                raise ObjectDamagedError(f"the sealed file {file.path[:200]!r} is not the one that was sealed")
            fresh = file.size <= PART or self.remote.look(key) is None  # a large one is not sent in vain
            if fresh and self.remote.create_from(key, source, file.size, file.sha256):
                return True
        except OSError as error:
            raise ObjectStoreError(f"the sealed file {file.path[:200]!r}: {error.strerror}") from error
        finally:
            os.close(source)
        digest = hashlib.sha256()
        for part in self.remote.chunks(key, file.size):
            digest.update(part)
        if not hmac.compare_digest(digest.hexdigest(), file.sha256):
            raise _other(self.remote.where, key)
        self._renew(key)
        return False

    def _renew(self, key: str) -> None:
        """Keep what was found from being collected as old before it is named again."""
        found = self.remote.look(key)
        if found is None:
            raise ObjectMissingError(f"{self.remote.where}: {key} was removed meanwhile", remedy="try it again")
        if found.modified < time.time() - _YOUNG:
            self.remote.refresh(found)


def _other(where: str, key: str) -> ObjectDamagedError:
    return ObjectDamagedError(
        f"{where}: what lies at {key} is something else; nothing is written over it",
        remedy="find out who wrote it, remove it, and try again",
    )


def _each(pool: Pool, work: Callable[[A], R], items: Iterable[A], ahead: int) -> Iterator[R]:
    """Yield what ``work`` makes of each item, in order, at most ``ahead`` of them under way."""
    rest, pending = iter(items), deque[Future[R]]()
    try:
        while True:
            pending.extend(pool.submit(work, one) for one in islice(rest, ahead - len(pending)))
            if not pending:
                return
            yield pending.popleft().result()
    finally:
        for one in pending:
            one.cancel()


def _folders(target: SealTarget, files: Iterable[File], stack: ExitStack) -> dict[str, int]:
    """Make every directory of a bundle; return a descriptor of each by its path, the bundle's own under ''."""
    made = {"": target.fd}
    for path in sorted({file.path[:cut] for file in files for cut, char in enumerate(file.path) if char == "/"}):
        above, _, name = path.rpartition("/")
        made[path] = target.make_directory(made[above], name)
        stack.callback(os.close, made[path])
        target.nested(path)
    return made


def _write(target: SealTarget, folder: int, file: File, content: Iterator[bytes], hasher: Pool) -> None:
    """Write one file while it is hashed; raise ObjectDamagedError for other bytes than its inventory says."""
    fd = target.create(folder, file.path.rpartition("/")[2])
    target.copier.adopt(fd)
    digest, sniffer, size = hashlib.sha256(), Sniffer(), 0
    hashing: Future[None] | None = None
    for part in content:
        if hashing is not None:
            hashing.result()
        if file.size > _SMALL:
            hashing = hasher.submit(digest.update, part)
        else:
            digest.update(part)
        sniffer.feed(part)
        target.copier.write(fd, part)
        size += len(part)
    if hashing is not None:
        hashing.result()
    if size != file.size or not hmac.compare_digest(digest.hexdigest(), file.sha256):
        raise ObjectDamagedError(f"{file.path[:200]!r}: the object {file.sha256} has other bytes")
    target.add(file.path, file.sha256, size, sniffer.native)
