"""Brings an export in a bucket in line with what is current: objects first, the one that leads to them last.

Order for one number: its files, each written once → its proofs → everything read back and hashed → the pointer,
written over exactly what was seen (``If-Match``), under the lock that revocations take alone → older numbers
removed. A reader follows the pointer, so it sees the number of before, whole, or this one. A kill leaves objects
that nothing leads to; the next run goes on with them where they are right, and removes them where they are not.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from acceptd.errors import (
    DigestMismatchError,
    ExportError,
    LoaderError,
    ObjectStoreError,
    ReleaseError,
    SigningError,
    StateError,
)
from acceptd.export import build, plan
from acceptd.export.document import (
    EXPORT_FILE,
    EXPORT_TYPE,
    PROOFS,
    RELEASE_FILE,
    REVOCATIONS_FILE,
    ROTATIONS_FILE,
    ExportDocument,
    Signed,
)
from acceptd.export.follow import TRIES, Followed, Origin, same
from acceptd.export.settings import Kind
from acceptd.export.shelf import Shelf, leads_to
from acceptd.intake.files import open_beneath
from acceptd.objectstore.remote import Remote
from acceptd.record.canonical import MAX_INT
from acceptd.record.failpoint import failpoint
from acceptd.release import channel as channels
from acceptd.release import objects, rotated, trust
from acceptd.release.book import Row, read_book
from acceptd.release.layout import release_path, revocation_lock, store_lock
from acceptd.release.signers import seal_document

_TROUBLES: Final = (ExportError, ReleaseError, SigningError, StateError, LoaderError, ObjectStoreError, OSError)


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """Where to export, in which form, and which models on which channels."""

    remote: Remote
    kind: Kind
    selects: Callable[[str, str], bool]
    keep: int = 2


def follow_bucket(origin: Origin, target: BucketTarget, *, whole: bool = False) -> Followed:
    """Export what is current and is not there, withdraw what is revoked; as :func:`acceptd.export.follow.follow`.

    Raises ObjectStoreError where the bucket cannot be reached, or keeps no conditions; ExportError where an export
    of another kind lies there. One model's trouble is a line in ``problems``.
    """
    result = Followed()
    shelf = Shelf(target.remote, target.kind)
    run = _Run(origin, target, shelf, whole, result)
    try:
        run.notes()
    except _TROUBLES as error:
        result.problems.append(f"{target.remote.where}: its revocation list may be an older one: {error}")
    seen: set[str] = set()
    pairs = sorted(read_book(origin.ledger).channels)
    for model_id, channel in pairs:
        if target.selects(model_id, channel):
            seen |= run.bring(model_id, channel)
    begun = tuple(plan.homes(target.kind, *pair) for pair in pairs)
    for home in shelf.homes():
        ours = home in begun if target.kind == "plain" else home.startswith(begun)
        proofs = any(f"{home}/{one}/{PROOFS}/{EXPORT_FILE}" in shelf.keys for one in shelf.versions(home))
        if home not in seen and (ours or proofs):
            run.guarded(home, lambda home=home: run.purge(home))  # type: ignore[misc]
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    origin: Origin
    target: BucketTarget
    shelf: Shelf
    whole: bool
    result: Followed

    @property
    def remote(self) -> Remote:
        return self.target.remote

    def guarded(self, what: str, work: Callable[[], None]) -> None:
        """Do something whose failure is a line and no more."""
        try:
            work()
        except _TROUBLES as error:
            self.result.problems.append(f"{what}: {error}")

    def bring(self, model_id: str, channel: str, tries: int = TRIES) -> set[str]:
        """Bring the homes of one model on one channel in line; return them."""
        row = read_book(self.origin.ledger).current(model_id, channel)
        begin = plan.homes(self.target.kind, model_id, channel)
        plain = self.target.kind == "plain"
        mine = {one for one in self.shelf.homes() if (one == begin if plain else one.startswith(begin))}
        try:
            if row is None or row.digest in self.revoked():
                for home in sorted(mine):
                    self.withdraw(home, "its release is revoked" if row else "nothing is current")
                return mine
            units = self.publish(row)
            if units is None and tries > 1:
                return self.bring(model_id, channel, tries - 1)
            if units is None:
                raise ExportError(f"number {row.number} is not current any more", remedy="the next run follows")
        except _TROUBLES as error:
            self.result.problems.append(f"{model_id} {channel}: {error}")
            for home in sorted(mine):
                self.guarded(home, lambda home=home: self.purge(home))  # type: ignore[misc]
            return mine
        for home in sorted(mine - units):
            self.withdraw(home, "the release has no such model any more")
        return mine | units

    def publish(self, row: Row) -> set[str] | None:
        """Export a release; return its homes, None where it was not current any more when it was to be served."""
        state, keys = self.origin.state, self.origin.keys
        released = channels.verified_release(state, keys, row, row.release_digest)
        units = plan.units(self.target.kind, released)
        listed = channels.read_revocations(state, keys).number
        source = build.Source(state, keys, released, row.release_digest, listed, self.origin.clock())
        for unit in units:
            said = build.document(self.target.kind, unit, source)
            there = self.signed(unit.place)
            if there is None or not same(there, said) or (self.whole and not self.intact(there)):
                with store_lock(state, shared=True):  # what is copied is not removed meanwhile
                    self.write(unit, said, source)
            if not self.switch(row, unit):
                return None
            self.purge(unit.home)
        return {unit.home for unit in units}

    def write(self, unit: plan.Unit, said: ExportDocument, source: build.Source) -> None:
        """Write a number whole and read it back; nobody is led to it meanwhile."""
        content, _ = self.shelf.told(unit.home)
        if content and leads_to(self.target.kind, content) == unit.version:
            self.remove(self.shelf.pointer(unit.home))  # what is served is damaged
        if self.shelf.below(unit.place):
            self.take_away(unit.place)
        root = objects.open_root(source.state)
        try:
            for path, file in unit.files:
                self._file(root, f"{unit.place}/{path}", file, source.release.bundle_digest)
            failpoint("export.bucket.copied")
            release = source.release
            at = f"{release_path(release.model_id, release.channel, release.number)}/{RELEASE_FILE}"
            proof = objects.read_small(root, at, trust.MAX_RELEASE_BYTES)
        finally:
            os.close(root)
        if trust.sha256(proof) != source.release_digest:
            raise DigestMismatchError(f"{at} is not the one that was promoted")
        keys = source.keys
        self.create(f"{unit.place}/{PROOFS}/{RELEASE_FILE}", proof)
        sealed = seal_document(said, EXPORT_TYPE, keys.release, *keys.beside)
        self.create(f"{unit.place}/{PROOFS}/{EXPORT_FILE}", sealed)
        found = self.shelf.signed(unit.place, keys.at(MAX_INT))
        self.shelf.whole(found)
        failpoint("export.bucket.written")
        self.result.done.append(f"{unit.place}: exported")

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

    def create(self, key: str, data: bytes) -> None:
        """Write a new object; raise ExportError where another one is there."""
        if not self.remote.create(key, data) and self.remote.read(key, len(data))[0] != data:
            raise _another(self.remote.where, key)
        self._know(key)

    def _know(self, key: str) -> None:
        found = self.remote.look(key)
        if found is None:
            raise ExportError(f"{self.remote.where}: {key} is gone as soon as it was written", remedy=_ALONE)
        self.shelf.keys[key] = found

    def switch(self, row: Row, unit: plan.Unit) -> bool:
        """Lead consumers to a number; False where the ledger has moved on meanwhile."""
        wanted = unit.config if unit.config is not None else f"{unit.version}\n".encode()
        with revocation_lock(self.origin.state, shared=True):
            now = read_book(self.origin.ledger).current(row.model_id, row.channel)
            if now is None or now.number != row.number or row.digest in self.revoked():
                return False
            content, tag = self.shelf.told(unit.home)
            if content != wanted:
                pointer = self.shelf.pointer(unit.home)
                if not self.remote.replace(pointer, wanted, tag) and self.shelf.told(unit.home)[0] != wanted:
                    raise _another(self.remote.where, pointer)
                failpoint("export.bucket.switched")
                self._know(pointer)
        return True

    def purge(self, home: str) -> None:
        """Remove numbers that are revoked, no longer signed by a key that counts, or too many.

        Where the number that is served is among them, nobody is led to the home any more, and all of it goes.
        """
        served, revoked = self.shelf.served(home), self.revoked()
        kept = 1
        for version in reversed(self.shelf.versions(home)):
            one = self.signed(f"{home}/{version}")
            if one is None or one.said.bundle_digest in revoked:
                why = "it is revoked" if one is not None else "its signatures do not hold"
                if version == served:
                    self.withdraw(home, why)
                    return
                self.take_away(f"{home}/{version}")
                self.result.done.append(f"{home}/{version}: taken away: {why}")
            elif version != served:
                if kept >= self.target.keep or not served or int(version) > int(served):
                    self.take_away(f"{home}/{version}")
                else:
                    kept += 1

    def withdraw(self, home: str, why: str) -> None:
        """Remove what leads to a home, then the home."""
        self.remove(self.shelf.pointer(home))
        failpoint("export.bucket.withdrawn")
        self.take_away(home)
        self.result.done.append(f"{home}: withdrawn: {why}")

    def take_away(self, place: str) -> None:
        """Remove all below a place, the proofs first: what is left of a number is none."""
        for key in sorted(self.shelf.below(place), key=lambda key: f"/{PROOFS}/" not in key):
            self.remove(key)

    def remove(self, key: str) -> None:
        """Remove one object."""
        self.remote.remove(key)
        self.shelf.keys.pop(key, None)

    def revoked(self) -> set[str]:
        """Return every revoked digest, of the ledger and of the signed list."""
        listed = channels.read_revocations(self.origin.state, self.origin.keys)
        return {*read_book(self.origin.ledger).revoked, *listed.revoked}

    def signed(self, place: str) -> Signed | None:
        """Return what a number's proofs say, or None where they do not hold by the keys that count now."""
        with contextlib.suppress(LoaderError):
            return self.shelf.signed(place, self.origin.keys.at(MAX_INT))
        return None

    def intact(self, one: Signed) -> bool:
        """Say whether every file of a number is the one that was exported."""
        try:
            self.shelf.whole(one)
        except LoaderError as error:
            self.result.done.append(f"{one.said.place}: was damaged: {error}")
            return False
        return True

    def notes(self) -> None:
        """Put the revocation list and the rotations of keys beside the export, as they are now."""
        for name, limit in ((REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES), (ROTATIONS_FILE, rotated.MAX_BYTES)):
            root = objects.open_root(self.origin.state)
            try:
                data = objects.read_if_there(root, name, limit)
            finally:
                os.close(root)
            there = self.shelf.keys.get(name)
            if data is None or (there is not None and self.remote.read(name, limit)[0] == data):
                continue
            if not self.remote.replace(name, data, there.tag if there is not None else ""):
                raise _another(self.remote.where, name)
            self._know(name)


_ALONE: Final = "see who else writes below that prefix: an export needs one of its own"


def _another(where: str, key: str) -> ExportError:
    return ExportError(f"{where}: another one wrote {key[:300]} meanwhile", remedy=_ALONE)
