"""The object store's part of retention: inventories whose time is over, then contents that no inventory names.

A sealed bundle goes by the same days as one in ``sealed`` or ``quarantine``, an approved one as one in the store;
its removal is an entry first. Contents are shared by bundles, so they go in two steps: what nothing names is noted
with the time, and removed ``objects.unused_days`` after that, if still nothing names it and nobody has written or
found it since (both make it young). What is being uploaded is therefore never old, and is named before it is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from acceptd.config import RetentionTable
from acceptd.errors import LedgerError, ObjectMissingError, ObjectStoreError
from acceptd.objectstore import inventory
from acceptd.objectstore.inventory import AREAS, BLOBS, Area, inventory_key
from acceptd.objectstore.objects import Objects
from acceptd.objectstore.remote import Found
from acceptd.policy.names import valid_moment
from acceptd.record.failpoint import failpoint
from acceptd.release import trust
from acceptd.release.layout import model_lock, revocation_lock, store_lock
from acceptd.retention.look import Look
from acceptd.retention.rules import Decided, Thing, after, decide

MARKS: Final = "collect/unused.json"
_MOST_MARKS: Final = 64 << 20
_BATCH: Final = 256
_UNDER_WAY: Final = 86_400.0
"""Seconds after which what was begun and never finished is swept; what is younger may be in somebody's hands."""
PLACE: Final = "objects"
"""Folder of these things: ``objects/sealed/<digest>``, told apart from directories of the state."""


@dataclass(slots=True)
class Shelves:
    """One look at one object store, beside one at the state. Raises ObjectStoreError where it is not reached."""

    look: Look
    objects: Objects
    unused_days: int
    _read: dict[str, frozenset[str]] = field(default_factory=dict)
    """Inventories that were read, by key, with the contents that they name."""

    def bundles(self, table: RetentionTable) -> Iterator[Decided]:
        """Yield every bundle's inventory with what becomes of it now."""
        approved = {digest for digest, _ in self._listed("approved")}
        for area in AREAS:
            for digest, found in self._listed(area):
                if (one := self._decided(area, digest, found, table, approved)) is not None:
                    yield one

    def _listed(self, area: Area) -> Iterator[tuple[str, Found]]:
        for found in self.objects.remote.listed(f"{area}/"):
            digest = found.key.removeprefix(f"{area}/").removesuffix(".json")
            if trust.is_sha256(digest) and found.key == inventory_key(area, digest):
                yield digest, found

    def _decided(
        self, area: Area, digest: str, found: Found, table: RetentionTable, approved: set[str]
    ) -> Decided | None:
        """Return what becomes of one inventory; None while a submission of that bundle is worked on."""
        look = self.look
        if area == "approved":
            thing = look.stored(digest)
            return decide(replace(thing, folder=f"{PLACE}/approved", size=found.size), table, look.now)
        thing = Thing("rejected", f"{PLACE}/sealed", digest, found.size, "", digest=digest)
        rows = look.of_bundle(digest)
        if any(not row.final for row in rows):
            return None
        if not rows:
            return decide(replace(thing, keeps="no submission of it is known: look at it"), table, look.now)
        if look.now < _stamp(found.modified + _UNDER_WAY):  # intake may have it, and not yet have said so
            return Decided(thing, False, "it was written, or found again, within a day")
        if digest in approved:
            return Decided(thing, True, "it is approved, and lies there")
        told = []
        for row in rows:
            mine = replace(thing, team=row.team, model=row.model or "")
            try:
                entry = next(look.ledger.entries(kind="verdict", submission=row.id), None)
                told.append(decide(look.judged(mine, row, entry), table, look.now))
            except LedgerError as error:
                told.append(decide(replace(mine, keeps=f"its record cannot be read: {error}"), table, look.now))
        return next((one for one in told if not one.goes), told[-1])

    def all(self, table: RetentionTable) -> list[Decided]:
        """Return everything with what becomes of it now; change nothing."""
        return [*self.bundles(table), *self.outputs(table), *self.contents()]

    def outputs(self, table: RetentionTable) -> Iterator[Decided]:
        """Yield the kept outputs, which go as those in the state do: days after they were last kept."""
        for found in self.objects.remote.listed("outputs/"):
            sha256 = found.key.rpartition("/")[2]
            if trust.is_sha256(sha256) and found.key == inventory.evidence_key(sha256, "outputs"):
                thing = Thing("outputs", f"{PLACE}/outputs", sha256, found.size, _stamp(found.modified))
                yield decide(thing, table, self.look.now)

    # -- contents -------------------------------------------------------------------------------------

    def contents(self) -> list[Decided]:
        """Return every content that no inventory names, with what becomes of it now; remember nothing.

        Raises ObjectStoreError where one inventory cannot be read: then nobody knows what it names.
        """
        marks, _ = self._marks()
        named = self._named()
        return [self._content(found, sha256, marks) for sha256, found in self._blobs() if sha256 not in named]

    def _content(self, found: Found, sha256: str, marks: dict[str, str]) -> Decided:
        thing = Thing("object", f"{PLACE}/blobs", sha256, found.size, marks.get(sha256, ""))
        if not thing.since:
            return Decided(thing, False, "nothing names it: noted, and gone after objects.unused_days")
        due = after(max(thing.since, _stamp(found.modified)), self.unused_days)
        if self.look.now < due:
            return Decided(thing, False, f"until {due[:10]} (objects.unused_days = {self.unused_days})")
        return Decided(thing, True, f"nothing names it since {thing.since[:10]}")

    def _blobs(self) -> Iterator[tuple[str, Found]]:
        for found in self.objects.remote.listed(f"{BLOBS}/"):
            sha256 = found.key.rpartition("/")[2]
            if trust.is_sha256(sha256) and found.key == inventory.blob_key(sha256):
                yield sha256, found

    def _named(self) -> set[str]:
        """Return every content that an inventory names, of those that are there now."""
        named: set[str] = set()
        for area in AREAS:
            for digest, found in self._listed(area):
                if found.key not in self._read:
                    try:
                        files = self.objects.inventory(area, digest)
                    except ObjectMissingError:
                        continue  # forgotten meanwhile
                    self._read[found.key] = frozenset(file.sha256 for file in files)
                named |= self._read[found.key]
        return named

    def _marks(self) -> tuple[dict[str, str], str]:
        try:
            data, tag = self.objects.remote.read(MARKS, _MOST_MARKS)
        except ObjectMissingError:
            return {}, ""
        return marks_of(data), tag

    # -- removal --------------------------------------------------------------------------------------

    def collect(
        self, table: RetentionTable, enter: Callable[[list[Decided]], None], stopped: Callable[[], bool]
    ) -> Iterator[Decided]:
        """Remove what is due; yield each thing with what was done. ``enter`` puts a bundle's on record first."""
        self.objects.remote.sweep(_epoch(self.look.now) - _UNDER_WAY)
        for planned in list(self.bundles(table)):
            if stopped():
                return
            yield self._bundle(planned, table, enter) if planned.goes else planned
        yield from self._outputs(table, enter, stopped)
        marks, tag = self._marks()
        decided = self.contents()
        due = {one.thing.name for one in decided if one.goes} - self._named()  # an inventory came meanwhile
        noted = {one.thing.name: one.thing.since or self.look.now for one in decided}
        if not self.objects.remote.replace(MARKS, json.dumps(noted, sort_keys=True).encode(), tag):
            raise ObjectStoreError(f"{self.objects.remote.where}: another one collects here now")
        for one in decided:
            if stopped():
                return
            if one.thing.name not in due:
                yield replace(one, goes=False)
                continue
            key = inventory.blob_key(one.thing.name)
            found = self.objects.remote.look(key)
            if found is None:
                continue
            if not self._content(found, one.thing.name, marks).goes:  # somebody found it and made it young
                yield replace(one, goes=False, reason="it was found again meanwhile")
                continue
            self.objects.remote.remove(key)
            yield one

    def _outputs(
        self, table: RetentionTable, enter: Callable[[list[Decided]], None], stopped: Callable[[], bool]
    ) -> Iterator[Decided]:
        """Remove kept outputs, so many by one entry; one that was kept again meanwhile is young, and stays."""
        decided = list(self.outputs(table))
        yield from (one for one in decided if not one.goes)
        due = [one for one in decided if one.goes]
        for first in range(0, len(due), _BATCH):
            if stopped():
                return
            batch = due[first : first + _BATCH]
            enter(batch)
            for one in batch:
                key = inventory.evidence_key(one.thing.name, "outputs")
                found = self.objects.remote.look(key)
                if found is not None and _stamp(found.modified) == one.thing.since:
                    self.objects.remote.remove(key)
                    yield one

    def _bundle(self, planned: Decided, table: RetentionTable, enter: Callable[[list[Decided]], None]) -> Decided:
        look, thing = self.look, planned.thing
        area: Area = "approved" if thing.folder.endswith("/approved") else "sealed"
        with contextlib.ExitStack() as stack:
            stack.enter_context(store_lock(look.state, shared=False))
            stack.enter_context(revocation_lock(look.state, shared=True))
            if thing.model:
                stack.enter_context(model_lock(look.state, thing.model))
            approved = {thing.digest} if self.objects.has("approved", thing.digest) else set()
            found = self.objects.remote.look(inventory_key(area, thing.digest))
            if found is None:
                return replace(planned, goes=False, reason="it is gone already")
            again = self._decided(area, thing.digest, found, table, approved)
            if again is None or not again.goes or again.thing.model != thing.model:
                return again or replace(planned, goes=False, reason="it is worked on again")
            if not (area == "sealed" and approved):  # of what is approved no byte goes
                enter([again])
            failpoint("retention.object.entered")
            self.objects.forget(area, thing.digest)
        return again


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def marks_of(data: bytes) -> dict[str, str]:
    """Return since when which content was seen unnamed; what is no digest or no real moment is passed by."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    marks = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in marks if trust.is_sha256(key) and _moment(value)}


def _moment(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(valid_moment(value))
    except ValueError:
        return False


def _epoch(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
