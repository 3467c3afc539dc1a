"""Brings one export in line with what is current, by the same steps after a promotion, a revocation or a crash.

What is wanted follows from the ledger alone, so nothing has to be remembered. Order for one number: staged and
durable → renamed into its home → the switch (the link ``current``, or ``config.pbtxt``) → older numbers taken
away. A kill between any two leaves the number of before served, whole, or the new one; the next run goes on.
Before the switch the ledger is looked at again under the lock that revocations take alone: what was revoked
meanwhile is never served.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptd.errors import ExportError, LoaderError, ReleaseError, SigningError, StateError
from acceptd.export import build, plan, verify
from acceptd.export.document import CONFIG_FILE, CURRENT, REVOCATIONS_FILE, ROTATIONS_FILE, ExportDocument, Signed
from acceptd.export.place import Place, opened
from acceptd.export.settings import Kind
from acceptd.intake.files import fsync_dir, temporary_name
from acceptd.record.canonical import MAX_INT
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import objects, rotated, trust
from acceptd.release.book import Row, read_book
from acceptd.release.layout import revocation_lock, store_lock
from acceptd.release.signers import ReleaseKeys

TRIES: Final = 3
"""Of one model in one run, where promotions come while it is copied."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to export, in which form, and which models on which channels."""

    directory: Path
    kind: Kind
    selects: Callable[[str, str], bool]
    keep: int = 2


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

    Raises ExportError where the directory cannot be used at all. One model's trouble is a line in ``problems``,
    and does not keep the others.
    """
    result = Followed()
    with opened(target.directory, target.kind, origin.state) as place:
        try:
            _notes(origin, place)
        except OSError as error:  # on a full disk what is revoked is withdrawn all the same
            result.problems.append(
                f"{target.directory}: {error.strerror}: its revocation list may be an older one"
            )
        seen: set[str] = set()
        pairs = sorted(read_book(origin.ledger).channels)
        for model_id, channel in pairs:
            if target.selects(model_id, channel):
                run = _Run(origin, target, place, whole, result)
                seen |= run.bring(model_id, channel)
        begun = [plan.homes(target.kind, *pair) for pair in pairs]
        for home in place.homes():
            # Somebody's own models or files may have names as ours have: those are his.
            named = home in begun if target.kind == "plain" else home.startswith(tuple(begun))
            ours = named or place.proofs_in(home)
            if home not in seen and ours:
                _Run(origin, target, place, whole, result).purge(home)
    return result


@dataclass(frozen=True, slots=True)
class _Run:
    origin: Origin
    target: Target
    place: Place
    whole: bool
    result: Followed

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
        except (ExportError, ReleaseError, SigningError, StateError, LoaderError, OSError) as error:
            self.result.problems.append(f"{model_id} {channel}: {error}")
            for home in sorted(mine):
                self.purge(home)
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
            right = there is not None and same(there, said) and (not self.whole or self.intact(there))
            staged = ""
            if not right:
                with store_lock(state, shared=True):  # what is copied is not removed meanwhile
                    staged = build.build(self.place.staging, said, unit, source)
            if not self.put(row, unit, staged):
                return None
            self.purge(unit.home)
        return {unit.home for unit in units}

    def put(self, row: Row, unit: plan.Unit, staged: str) -> bool:
        """Rename what was staged into its home and switch to it; False where the ledger has moved on meanwhile."""
        with revocation_lock(self.origin.state, shared=True):
            now = read_book(self.origin.ledger).current(row.model_id, row.channel)
            if now is None or now.number != row.number or row.digest in self.revoked():
                if staged:
                    self.place.take_away(f".staging/{staged}")
                return False
            if staged and not (self.place.root / unit.home).exists():
                self._whole_home(unit, staged)
            else:
                self._into(unit, staged)
            if staged:
                self.result.done.append(f"{unit.place}: exported")
            return True

    def _whole_home(self, unit: plan.Unit, staged: str) -> None:
        """Bring a first number into its place with its switch, by one rename: no consumer sees an empty home."""
        staging, name = self.place.staging, temporary_name()
        os.mkdir(staging / name, 0o755)
        (staging / name).chmod(0o755)
        os.rename(staging / staged, staging / name / unit.version)
        self._switch(unit, staging / name)
        parent, _, last = unit.home.rpartition("/")
        folder = self.place.make(parent)
        failpoint("export.put.home-built")
        os.rename(staging / name, folder / last)
        fsync_dir(folder)
        failpoint("export.put.switched")

    def _into(self, unit: plan.Unit, staged: str) -> None:
        """Bring a further number into a home, and then switch to it."""
        home = self.place.make(unit.home)
        if staged:
            self.place.take_away(unit.place)  # one that does not verify, if any
            os.rename(self.place.staging / staged, home / unit.version)
            fsync_dir(home)
            failpoint("export.put.renamed")
        self._switch(unit, home)
        failpoint("export.put.switched")

    def _switch(self, unit: plan.Unit, home: Path) -> None:
        if unit.config is None:
            if self.place.served(unit.home) != unit.version:
                self.place.put_link(home / CURRENT, unit.version)
        elif _content(home / CONFIG_FILE) != unit.config:
            self.place.put_file(home / CONFIG_FILE, unit.config)

    def purge(self, home: str) -> None:
        """Take away numbers that are revoked, damaged, no longer signed by a key that counts, or too many.

        Where the number that is served is among them, the whole home goes, by one rename.
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
        """Take a whole home away, by one rename."""
        self.place.take_away(home)
        failpoint("export.withdrawn")
        self.result.done.append(f"{home}: withdrawn: {why}")

    def revoked(self) -> set[str]:
        """Return every revoked digest, of the ledger and of the signed list."""
        listed = channels.read_revocations(self.origin.state, self.origin.keys)
        return {*read_book(self.origin.ledger).revoked, *listed.revoked}

    def signed(self, place: str) -> Signed | None:
        """Return what a number's proofs say, or None where they do not hold by the keys that count now."""
        with _root(self.place.root) as fd, contextlib.suppress(LoaderError, OSError):
            return verify.signed(fd, place, self.origin.keys.at(MAX_INT))
        return None

    def intact(self, one: Signed) -> bool:
        """Say whether every file of a number is the one that was exported."""
        with _root(self.place.root) as fd:
            try:
                verify.whole(fd, one)
            except (LoaderError, OSError) as error:
                self.result.done.append(f"{one.said.place}: was damaged: {error}")
                return False
        return True


def same(there: Signed, said: ExportDocument) -> bool:
    """Say whether what is there is what would be exported, whenever that was."""
    since = {"least_revocations": said.least_revocations, "exported_at": said.exported_at}
    return bool(there.said.model_copy(update=since) == said)


@contextlib.contextmanager
def _root(path: Path) -> Iterator[int]:
    fd = objects.open_root(path)
    try:
        yield fd
    finally:
        os.close(fd)


def _notes(origin: Origin, place: Place) -> None:
    """Put the revocation list and the rotations of keys beside the export, as they are now."""
    for name, limit in ((REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES), (ROTATIONS_FILE, rotated.MAX_BYTES)):
        with _root(origin.state) as fd:
            data = objects.read_if_there(fd, name, limit)
        if data is not None and _content(place.root / name) != data:
            place.put_file(place.root / name, data)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def selecting(pairs: Sequence[tuple[str, str]]) -> Callable[[str, str], bool]:
    """Return the choice of exactly these (model id, channel)."""
    return lambda model_id, channel: (model_id, channel) in pairs
