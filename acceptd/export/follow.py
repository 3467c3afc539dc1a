"""Brings one export in line with what is current, by the same steps after a promotion, a revocation or a crash.

What is wanted follows from the ledger alone, so nothing has to be remembered. Order for one number: staged and
durable → the ledger looked at again, under the lock that revocations take alone: what was revoked meanwhile is
never served → put: consumers are led to it → older numbers taken away. A kill between any two leaves the number of
before served, whole, or the new one; the next run goes on. How a place does each step is its own: a directory
(:mod:`acceptd.export.directory`), a bucket (:mod:`acceptd.export.bucket`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from acceptd.errors import (
    ExportError,
    LoaderError,
    ObjectStoreError,
    ReleaseError,
    SigningError,
    StateError,
)
from acceptd.export import build, plan
from acceptd.export.document import REVOCATIONS_FILE, ROTATIONS_FILE, ExportDocument, Signed
from acceptd.export.settings import Kind
from acceptd.record.canonical import MAX_INT
from acceptd.record.keys import Keyring
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import objects, rotated, trust
from acceptd.release.book import Row, read_book
from acceptd.release.layout import revocation_lock, store_lock
from acceptd.release.signers import ReleaseKeys

TRIES: Final = 3
"""Of one model in one run, where promotions come while it is copied."""
_TROUBLES: Final = (ExportError, ReleaseError, SigningError, StateError, LoaderError, ObjectStoreError, OSError)
_NOTES: Final = ((REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES), (ROTATIONS_FILE, rotated.MAX_BYTES))


class Place(Protocol):
    """Where an export goes, open for one run. Every method may raise one of the errors of its kind of place."""

    @property
    def where(self) -> str:
        """For people."""

    def homes(self) -> list[str]:
        """Return every home that bears a name of ours."""

    def versions(self, home: str) -> list[str]:
        """Return the numbers in a home, rising."""

    def served(self, home: str) -> str:
        """Return the number that consumers are led to, empty for none."""

    def proofs_in(self, home: str) -> bool:
        """Say whether a number in a home has a place for our proofs, whatever they say."""

    def astray(self, begin: str) -> Path | None:
        """Return a link on the way to homes that begin so: nothing is done where it leads."""

    def signed(self, place: str, keyring: Keyring) -> Signed:
        """Return what a number's proofs say; raise LoaderError where they do not hold by that keyring."""

    def whole(self, found: Signed) -> None:
        """Hash every file of a number; raise LoaderError where one is not what was exported."""

    def stage(self, unit: plan.Unit, said: ExportDocument, source: build.Source) -> str:
        """Write a number whole and durably, where nobody is led to it; return its name for :meth:`put`."""

    def put(self, unit: plan.Unit, staged: str) -> None:
        """Bring what was staged into its place, if anything (empty), and lead consumers to the number."""

    def discard(self, staged: str) -> None:
        """Give up what was staged: it is not current any more."""

    def take_away(self, place: str) -> None:
        """Remove one number that nobody is led to."""

    def withdraw(self, home: str) -> None:
        """Remove a whole home: at no moment is anybody led to a part of it."""

    def note(self, name: str, data: bytes) -> None:
        """Give a small file beside the homes this content, if it has another."""


class Target(Protocol):
    """Where to export, in which form, which models on which channels, and how many numbers stay."""

    @property
    def kind(self) -> Kind:
        """The form."""

    @property
    def selects(self) -> Callable[[str, str], bool]:
        """Say whether a model, on a channel, is exported."""

    @property
    def keep(self) -> int:
        """Numbers of one home that stay."""

    def opened(self, state: Path) -> AbstractContextManager[Place]:
        """Open the place for one run; raise ExportError or ObjectStoreError where it cannot be used at all."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The instance that is exported from."""

    state: Path
    ledger: Ledger
    keys: ReleaseKeys
    clock: channels.Clock


@dataclass(slots=True)
class Followed:
    """A line for each thing that was done, and for each that could not be."""

    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def follow(origin: Origin, target: Target, *, whole: bool = False) -> Followed:
    """Export what is current and is not there, withdraw what is revoked; with ``whole`` hash all that is there.

    Raises ExportError, of a bucket ObjectStoreError too, where the place cannot be used at all. One model's
    trouble is a line in ``problems``, and does not keep the others.
    """
    result = Followed()
    with target.opened(origin.state) as place:
        run = _Run(origin, target, place, whole, result)
        try:
            run.notes()
        except _TROUBLES as error:  # on a full disk what is revoked is withdrawn all the same
            result.problems.append(f"{place.where}: its revocation list may be an older one: {_words(error)}")
        seen: set[str] = set()
        pairs = sorted(read_book(origin.ledger).channels)
        for model_id, channel in pairs:
            if target.selects(model_id, channel):
                seen |= run.bring(model_id, channel)
        begun = [plan.homes(target.kind, *pair) for pair in pairs]
        for home in place.homes():
            # Somebody's own models or files may have names as ours have: those are his.
            named = home in begun if target.kind == "plain" else home.startswith(tuple(begun))
            if home not in seen and (named or place.proofs_in(home)):
                run.purge(home)
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    origin: Origin
    target: Target
    place: Place
    whole: bool
    result: Followed

    def notes(self) -> None:
        """Put the revocation list and the rotations of keys beside the export, as they are now."""
        for name, limit in _NOTES:
            root = objects.open_root(self.origin.state)
            try:
                data = objects.read_if_there(root, name, limit)
            finally:
                os.close(root)
            if data is not None:
                self.place.note(name, data)

    def bring(self, model_id: str, channel: str, tries: int = TRIES) -> set[str]:
        """Bring the homes of one model on one channel in line; return them.

        Where the ledger moves on while a number is copied, with what is current then: ``tries`` times in one run.
        """
        row = read_book(self.origin.ledger).current(model_id, channel)
        begin = plan.homes(self.target.kind, model_id, channel)
        plain = self.target.kind == "plain"
        mine = {home for home in self.place.homes() if (home == begin if plain else home.startswith(begin))}
        try:
            if row is None or row.digest in self.revoked():
                for home in sorted(mine):
                    self.withdraw(home, "its release is revoked" if row else "nothing is current")
                if link := self.place.astray(begin):
                    raise ExportError(f"{link} is a link: what it leads to is not withdrawn", remedy="remove it")
                return mine
            units = self.publish(row)
            if units is None and tries > 1:
                return self.bring(model_id, channel, tries - 1)
            if units is None:
                raise ExportError(f"number {row.number} is not current any more", remedy="the next run follows")
            for home in sorted(mine - units):
                self.withdraw(home, "the release has no such model any more")
        except _TROUBLES as error:
            self.result.problems.append(f"{model_id} {channel}: {error}")
            for home in sorted(mine):
                self.purge(home)
            return mine
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
            right = there is not None and same(there, said) and (not self.whole or self.intact(there))
            staged = ""
            if not right:
                with store_lock(state, shared=True):  # what is copied is not removed meanwhile
                    staged = self.place.stage(unit, said, source)
            if not self.put(row, unit, staged):
                return None
            self.purge(unit.home)
        return {unit.home for unit in units}

    def put(self, row: Row, unit: plan.Unit, staged: str) -> bool:
        """Lead consumers to a number; False where the ledger has moved on meanwhile."""
        with revocation_lock(self.origin.state, shared=True):
            now = read_book(self.origin.ledger).current(row.model_id, row.channel)
            if now is None or now.number != row.number or row.digest in self.revoked():
                if staged:
                    self.place.discard(staged)
                return False
            self.place.put(unit, staged)
            if staged:
                self.result.done.append(f"{unit.place}: exported")
            return True

    def purge(self, home: str) -> None:
        """Take away what must not stay in a home; what cannot go is a line in ``problems``, and keeps nothing."""
        try:
            self._purge(home)
        except _TROUBLES as error:
            self.result.problems.append(f"{home}: {error}")

    def _purge(self, home: str) -> None:
        """Take away numbers that are revoked, damaged, no longer signed by a key that counts, or too many.

        Where the number that is served is among them, the whole home goes.
        """
        served, revoked = self.place.served(home), self.revoked()
        kept = 1
        for version in reversed(self.place.versions(home)):
            one = self.signed(f"{home}/{version}")
            if one is None or one.said.bundle_digest in revoked:
                why = "it is revoked" if one is not None else "its signatures do not hold"
                if version == served:
                    self.withdraw(home, why)
                    return
                self.place.take_away(f"{home}/{version}")
                self.result.done.append(f"{home}/{version}: taken away: {why}")
            elif version != served:
                if kept >= self.target.keep or not served or int(version) > int(served):
                    self.place.take_away(f"{home}/{version}")
                else:
                    kept += 1

    def withdraw(self, home: str, why: str) -> None:
        """Remove a whole home."""
        self.place.withdraw(home)
        self.result.done.append(f"{home}: withdrawn: {why}")

    def revoked(self) -> set[str]:
        """Return every revoked digest, of the ledger and of the signed list."""
        listed = channels.read_revocations(self.origin.state, self.origin.keys)
        return {*read_book(self.origin.ledger).revoked, *listed.revoked}

    def signed(self, place: str) -> Signed | None:
        """Return what a number's proofs say, or None where they do not hold by the keys that count now."""
        with contextlib.suppress(LoaderError, OSError):
            return self.place.signed(place, self.origin.keys.at(MAX_INT))
        return None

    def intact(self, one: Signed) -> bool:
        """Say whether every file of a number is the one that was exported."""
        try:
            self.place.whole(one)
        except (LoaderError, OSError) as error:
            self.result.done.append(f"{one.said.place}: was damaged: {error}")
            return False
        return True


def same(there: Signed, said: ExportDocument) -> bool:
    """Say whether what is there is what would be exported, whenever that was."""
    since = {"least_revocations": said.least_revocations, "exported_at": said.exported_at}
    return bool(there.said.model_copy(update=since) == said)


def selecting(pairs: Sequence[tuple[str, str]]) -> Callable[[str, str], bool]:
    """Return the choice of exactly these (model id, channel)."""
    return lambda model_id, channel: (model_id, channel) in pairs


def _words(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)
