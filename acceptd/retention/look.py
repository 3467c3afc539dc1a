"""Looks at what could go: bundles in quarantine and store, outputs, backups; and at what they are needed for."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select

from acceptd.errors import LedgerError
from acceptd.intake.files import opened
from acceptd.record import tables
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.release.book import Book, Row, read_book
from acceptd.retention.rules import Thing, What
from acceptd.retention.usage import tree_bytes
from acceptd.review.desk import Desk
from acceptd.review.standing import Given

FOLDERS: Final[dict[str, What]] = {
    "quarantine": "held",
    "sealed": "rejected",
    "store/sha256": "store",
    "outputs": "outputs",
    "backups": "backup",
}
"""Below the state directory: all that is ever looked at, with what lies there first of all."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SUBMISSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_BACKUP: Final = re.compile(r"ledger-v[0-9]{1,4}-[0-9TZ]{8,20}\.sqlite3", re.ASCII)


@dataclass(frozen=True)
class Look:
    """One look at one state directory. ``desk`` is None where the reviewers are refused; ``now`` is UTC, RFC 3339.

    What people have decided is then not known, and every bundle that they could decide about stays.
    """

    state: Path
    ledger: Ledger
    desk: Desk | None
    now: str
    refused: str = ""
    """Why there is no desk."""
    _seen: dict[str, Any] = field(default_factory=dict, init=False, compare=False)

    def everything(self) -> Iterator[Thing]:
        """Yield all that may go some day, kind by kind."""
        for folder, kind in FOLDERS.items():
            try:
                with opened(self.state / folder) as fd:
                    names = sorted(name for name in os.listdir(fd) if not name.startswith("."))
            except FileNotFoundError:
                continue
            except OSError as error:  # a link in its place, above all
                parent, _, name = folder.rpartition("/")
                yield Thing(kind, parent, name, 0, "", keeps=f"nothing in it is touched: {error.strerror}")
                continue
            for name in names:
                if (thing := self.thing(folder, name)) is not None:
                    yield thing

    def thing(self, folder: str, name: str) -> Thing | None:
        """Return what lies there as it stands now; None where it is gone, or in use."""
        if not os.path.lexists(self.state / folder / name):
            return None
        if folder == "store/sha256":
            return self.stored(name) if _SHA256.fullmatch(name) else None
        return self._submission(folder, name) if folder in {"quarantine", "sealed"} else self._file(folder, name)

    def _submission(self, folder: str, name: str) -> Thing | None:
        """Return the bundle of one submission in ``quarantine`` or ``sealed``; None while it is worked on."""
        thing = Thing("quarantined", folder, name, tree_bytes(self.state / folder / name), "")
        row = self._queue.get(name) if _SUBMISSION.fullmatch(name) else None
        if row is None:
            return replace(thing, keeps="no submission of that name is known: look at it")
        if not row.final:
            return None
        thing = replace(thing, digest=row.bundle_digest or "", team=row.team, model=row.model or "")
        try:
            entry = next(self.ledger.entries(kind="verdict", submission=row.id), None)
            return self.judged(thing, row, entry)
        except LedgerError as error:
            return replace(thing, keeps=f"its record cannot be read: {error}")

    def of_bundle(self, digest: str) -> list[Submission]:
        """Return every submission of one bundle."""
        queue = tables.submissions.c
        with self.ledger.reading() as connection:
            names = list(connection.execute(select(queue.id).where(queue.bundle_digest == digest)).scalars())
        return [row for name in names if (row := self._queue.get(name)) is not None]

    def judged(self, thing: Thing, row: Submission, entry: Entry | None) -> Thing:
        """Return a submission's bundle with since when it waits, by its verdict and what people decided."""
        word = entry.body.get("verdict") if entry is not None else ""
        if entry is None or word not in {"held", "accepted"}:
            what: What = "quarantined" if row.state == "quarantined" else "rejected"
            return replace(thing, what=what, since=row.updated_at)
        thing = replace(thing, what="held", since=entry.at)
        rejection, keeps = self._decisions(entry)
        if rejection is not None:
            return replace(thing, what="rejected", since=self.ledger.entry(rejection.seq).at)
        return replace(thing, keeps=keeps)

    def _decisions(self, entry: Entry) -> tuple[Given | None, str]:
        """Return the newest rejection that stands against a verdict, or why its bundle has to wait."""
        if self.desk is None:
            return None, self.refused or "who may decide is not known"
        given = [one for one in self.desk.given(entry) if one.decision.expires_at > self.now]
        weighed = self.desk.weigh(entry, self.desk.policy.release.channel, self.now)
        rejections = [one for one in given if one.decision.decision == "reject" and one.seq in weighed.by]
        if weighed.rejected and rejections:
            return rejections[-1], ""
        open_ = [one.decision.expires_at for one in given if one.decision.decision != "reject"]
        return None, f"a decision about it is open until {max(open_)[:10]}" if open_ else ""

    def stored(self, digest: str) -> Thing:
        """Return a bundle of the store, whether its bytes lie there or not."""
        size = tree_bytes(self.state / "store" / "sha256" / digest)
        thing = Thing("store", "store/sha256", digest, size, "", digest=digest)
        rows = self._rows(digest)
        if rows:
            model = rows[-1][0][0]
            thing = replace(thing, model=model, team=model.partition("/")[0])
        if user := self._in_flight(digest):
            return replace(thing, keeps=f"submission {user} is being worked on")
        for pin in self._book.holds.all_pinned():
            if pin.digest == digest:
                return replace(thing, keeps=f"pinned on {pin.model_id} {pin.channel} (entry {pin.seq})")
        for (model, channel), row in rows:
            if why := _needed(self._book, model, channel, row):
                return replace(thing, keeps=f"{why} of {model} {channel}")
        return self._unused(thing, [_ended(self._book, model, channel, row) for (model, channel), row in rows])

    def _unused(self, thing: Thing, ended: list[str]) -> Thing:
        """Return a bundle that no channel needs, with the time since when: also not before its newest verdict."""
        judged = tables.verdicts.c
        query = select(judged.seq).where(judged.bundle_digest == thing.digest).order_by(judged.seq)
        with self.ledger.reading() as connection:
            seqs = list(connection.execute(query).scalars())
        keeps = "no verdict is known for it: see `acceptd ledger verify`" if not seqs and not ended else ""
        for seq in seqs:
            try:
                entry = self.ledger.entry(seq)
            except LedgerError as error:
                return replace(thing, keeps=f"its record cannot be read: {error}")
            thing = replace(thing, model=thing.model or str(entry.body.get("model") or ""))
            ended.append(entry.at)
            if entry.body.get("verdict") in {"accepted", "held"}:
                keeps = keeps or self._decisions(entry)[1]
        return replace(thing, since=max(ended, default=""), keeps=keeps)

    def _file(self, folder: str, name: str) -> Thing | None:
        try:
            status = (self.state / folder / name).lstat()
        except FileNotFoundError:
            return None
        form = _SHA256 if folder == "outputs" else _BACKUP
        ours = form.fullmatch(name) is not None and stat.S_ISREG(status.st_mode)
        keeps = "" if ours else "nothing that acceptd puts there: look at it"
        return Thing(FOLDERS[folder], folder, name, status.st_blocks * 512, since(status), keeps=keeps)

    def _in_flight(self, digest: str) -> str:
        queue = tables.submissions.c
        unfinished = [state for state in tables.STATES if state not in tables.FINAL_STATES]
        query = select(queue.id).where(queue.state.in_(unfinished), queue.bundle_digest == digest).limit(1)
        with self.ledger.reading() as connection:
            return str(connection.execute(query).scalar() or "")

    def _rows(self, digest: str) -> list[tuple[tuple[str, str], Row]]:
        """Return the releases that name a bundle, with model and channel, as the ledger stands now."""
        book = self._book
        if self._seen.get("size") != book.size:
            named: dict[str, list[tuple[tuple[str, str], Row]]] = {}
            for place in sorted(book.channels):
                for row in book.rows(*place):
                    named.setdefault(row.digest, []).append((place, row))
            self._seen.update(size=book.size, rows=named)
        found: list[tuple[tuple[str, str], Row]] = self._seen["rows"].get(digest, [])
        return found

    @cached_property
    def _queue(self) -> Queue:
        return Queue(self.ledger)

    @property
    def _book(self) -> Book:
        return read_book(self.ledger)


def _needed(book: Book, model: str, channel: str, row: Row) -> str:
    """Say what a channel needs a release's bundle for, or nothing."""
    current, fallback = book.current(model, channel), book.fallback(model, channel)
    refuge = book.refuge(model, channel)
    if row.state == "intent":
        return "a promotion under way"
    if current is not None and row.digest == current.digest:
        return "current release"
    prior = next(
        (
            one
            for one in reversed(book.rows(model, channel))
            if one.state == "superseded" and (current is None or one.digest != current.digest)
        ),
        None,
    )
    if row.digest in {one.digest for one in (prior, fallback, refuge) if one is not None}:
        return "prior release"
    return ""


def _ended(book: Book, model: str, channel: str, row: Row) -> str:
    """Return since when a channel has its bundle neither as current nor as prior release.

    That is when the second other bundle came: a new number for the same bytes (a key's exchange) moves nothing on.
    """
    rows = book.rows(model, channel)
    others = [one for one in rows if one.number > row.number and one.activated_at and one.digest != row.digest]
    second = next((one for one in others if one.digest != others[0].digest), None)
    ends = [one.activated_at for one in (*others[:1], second) if one is not None]
    return max([row.activated_at or row.intent_at, *ends])


def since(status: os.stat_result) -> str:
    """Return when a file was written last: UTC, RFC 3339."""
    return datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
