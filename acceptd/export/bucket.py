"""An export in a bucket: how the follower's steps are done there, with objects that are written once.

Order for one number: its files, each written once → its proofs → everything read back and hashed → the pointer,
written over exactly what was seen (``If-Match``). A reader follows the pointer, so it sees the number of before,
whole, or this one. A kill leaves objects that nothing leads to; the next run goes on with them where they are
right, and removes them where they are not.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.errors import DigestMismatchError, ExportError
from acceptd.export import build, plan
from acceptd.export.document import EXPORT_FILE, EXPORT_TYPE, PROOFS, RELEASE_FILE, ExportDocument, Signed
from acceptd.export.settings import Kind
from acceptd.export.shelf import Shelf, leads_to
from acceptd.intake.files import open_beneath
from acceptd.objectstore.remote import Remote
from acceptd.record.canonical import MAX_INT
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Keyring
from acceptd.release import objects, trust
from acceptd.release.layout import release_path
from acceptd.release.signers import seal_document

_ALONE: Final = "see who else writes below that prefix: an export needs one of its own"


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """As :class:`acceptd.export.follow.Target`: a prefix of a bucket."""

    remote: Remote
    kind: Kind
    selects: Callable[[str, str], bool]
    keep: int = 2

    @contextlib.contextmanager
    def opened(self, state: Path) -> Iterator[Bucket]:  # noqa: ARG002 - a directory needs it
        """List what is there; raise ObjectStoreError where it cannot be reached, ExportError for another kind."""
        yield Bucket(self.remote, Shelf(self.remote, self.kind), self.kind)


@dataclass(frozen=True, slots=True)
class Bucket:
    """As :class:`acceptd.export.follow.Place`."""

    remote: Remote
    shelf: Shelf
    kind: Kind

    @property
    def where(self) -> str:
        """The URL."""
        return self.remote.where

    def homes(self) -> list[str]:
        """As :meth:`Place.homes`."""
        return self.shelf.homes()

    def versions(self, home: str) -> list[str]:
        """As :meth:`Place.versions`."""
        return self.shelf.versions(home)

    def served(self, home: str) -> str:
        """As :meth:`Place.served`."""
        return self.shelf.served(home)

    def proofs_in(self, home: str) -> bool:
        """As :meth:`Place.proofs_in`."""
        return any(f"{home}/{one}/{PROOFS}/{EXPORT_FILE}" in self.shelf.keys for one in self.shelf.versions(home))

    def astray(self, begin: str) -> Path | None:
        """Return nothing: objects have no links."""

    def signed(self, place: str, keyring: Keyring) -> Signed:
        """As :meth:`Place.signed`."""
        return self.shelf.signed(place, keyring)

    def whole(self, found: Signed) -> None:
        """As :meth:`Place.whole`: every byte is read back."""
        self.shelf.whole(found)

    def stage(self, unit: plan.Unit, said: ExportDocument, source: build.Source) -> str:
        """Write a number whole, where it will lie, and read it back; nobody is led to it meanwhile."""
        content, _ = self.shelf.told(unit.home)
        if content and leads_to(self.kind, content) == unit.version:
            self._remove(self.shelf.pointer(unit.home))  # what is served is damaged
        if self.shelf.below(unit.place):
            self.take_away(unit.place)
        release, keys = source.release, source.keys
        root = objects.open_root(source.state)
        try:
            for path, file in unit.files:
                self._file(root, f"{unit.place}/{path}", file, release.bundle_digest)
            failpoint("export.bucket.copied")
            at = f"{release_path(release.model_id, release.channel, release.number)}/{RELEASE_FILE}"
            proof = objects.read_small(root, at, trust.MAX_RELEASE_BYTES)
        finally:
            os.close(root)
        if trust.sha256(proof) != source.release_digest:
            raise DigestMismatchError(f"{at} is not the one that was promoted")
        self._create(f"{unit.place}/{PROOFS}/{RELEASE_FILE}", proof)
        sealed = seal_document(said, EXPORT_TYPE, keys.release, *keys.beside)
        self._create(f"{unit.place}/{PROOFS}/{EXPORT_FILE}", sealed)
        self.whole(self.signed(unit.place, keys.at(MAX_INT)))
        failpoint("export.bucket.written")
        return unit.place

    def _file(self, root: int, key: str, file: trust.File, digest: str) -> None:
        what = f"the store's {file.path[:200]!r} of {digest}"
        try:
            source = open_beneath(root, objects.object_path(digest, file.path), os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise DigestMismatchError(f"{what}: {error.strerror}") from error
        try:
            facts = os.fstat(source)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_size != file.size:
                raise DigestMismatchError(f"{what} is not the file that was promoted")
            # Where one is there, an answer was lost or another writes: what is read back decides.
            self.remote.create_from(key, source, file.size, file.sha256)
        finally:
            os.close(source)
        self._know(key)

    def _create(self, key: str, data: bytes) -> None:
        """Write a new object; raise ExportError where another one is there."""
        if not self.remote.create(key, data) and self.remote.read(key, len(data))[0] != data:
            raise self._another(key)
        self._know(key)

    def _know(self, key: str) -> None:
        found = self.remote.look(key)
        if found is None:
            raise ExportError(f"{self.where}: {key} is gone as soon as it was written", remedy=_ALONE)
        self.shelf.keys[key] = found

    def put(self, unit: plan.Unit, staged: str) -> None:  # noqa: ARG002 - it lies in its place
        """Write the pointer to a number over the one that was seen."""
        wanted = unit.config if unit.config is not None else f"{unit.version}\n".encode()
        content, tag = self.shelf.told(unit.home)
        if content != wanted:
            pointer = self.shelf.pointer(unit.home)
            if not self.remote.replace(pointer, wanted, tag) and self.shelf.told(unit.home)[0] != wanted:
                raise self._another(pointer)
            failpoint("export.bucket.switched")
            self._know(pointer)

    def discard(self, staged: str) -> None:
        """Leave what was staged: nothing leads to it, and the next run removes it or goes on with it."""

    def take_away(self, place: str) -> None:
        """Remove all below a place, the proofs first: what is left of a number is none."""
        for key in sorted(self.shelf.below(place), key=lambda key: f"/{PROOFS}/" not in key):
            self._remove(key)

    def withdraw(self, home: str) -> None:
        """Remove what leads to a home, then the home."""
        self._remove(self.shelf.pointer(home))
        failpoint("export.bucket.withdrawn")
        self.take_away(home)

    def _remove(self, key: str) -> None:
        self.remote.remove(key)
        self.shelf.keys.pop(key, None)

    def note(self, name: str, data: bytes) -> None:
        """Replace an object beside the homes where it has another content."""
        there = self.shelf.keys.get(name)
        if there is not None and there.size == len(data) and self.remote.read(name, len(data))[0] == data:
            return
        if not self.remote.replace(name, data, there.tag if there is not None else ""):
            raise self._another(name)
        self._know(name)

    def _another(self, key: str) -> ExportError:
        return ExportError(f"{self.where}: another one wrote {key[:300]} meanwhile", remedy=_ALONE)
