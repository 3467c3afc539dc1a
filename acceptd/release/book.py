"""What the ledger says about releases, folded from its entries: the truth that files are compared with.

Folded from entries, not read from projections: an edited projection must not move a release. The fold is
kept beside its ledger object and brought up to date with the entries that came since.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from acceptd.policy.channels import NO_RULE, Rule
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release import holds

KINDS: Final = ("intent", "activated", "abandoned", "revoked", *holds.KINDS)
State = Literal["intent", "active", "superseded", "abandoned"]


@dataclass(frozen=True, slots=True)
class Row:
    """One release number of one channel."""

    model_id: str
    channel: str
    number: int
    digest: str
    kind: str
    reason: str
    verdict_seq: int
    intent_seq: int
    intent_at: str
    state: State = "intent"
    release_digest: str = ""
    """SHA-256 of ``release.json``; empty until it is activated."""
    activated_at: str = ""
    activated_seq: int = -1
    """Entry that made it current; -1 until then."""
    by: str = ""
    """Who had it done; empty in entries that do not say."""
    rule: Rule = NO_RULE
    """What its channel asked then: approvals, and time in another channel."""
    glass: bool = False
    """Whether somebody broke the glass for it."""


@dataclass(frozen=True, slots=True)
class RevokedEntry:
    """One revocation as it was entered. ``rollback`` says that channels on this digest are to be rolled back."""

    digest: str
    reason: str
    at: str
    seq: int
    rollback: bool
    by: str = ""


@dataclass(slots=True)
class Book:
    """All channels and revocations up to one size of the log."""

    size: int = 0
    channels: dict[tuple[str, str], dict[int, Row]] = field(default_factory=dict)
    revoked: dict[str, RevokedEntry] = field(default_factory=dict)
    holds: holds.Holds = field(default_factory=holds.Holds)

    def rows(self, model_id: str, channel: str) -> list[Row]:
        """Return a channel's rows by rising number."""
        # Copied first: another thread may be adding rows of this ledger.
        return [row for _, row in sorted(dict(self.channels.get((model_id, channel), {})).items())]

    def current(self, model_id: str, channel: str) -> Row | None:
        """Return the active row of a channel."""
        return next((row for row in reversed(self.rows(model_id, channel)) if row.state == "active"), None)

    def pending(self, model_id: str, channel: str) -> list[Row]:
        """Return the rows whose promotion began and neither ended nor was burnt."""
        return [row for row in self.rows(model_id, channel) if row.state == "intent"]

    def fallback(self, model_id: str, channel: str) -> Row | None:
        """Return the newest release before the current one that has another digest and is not revoked."""
        current = self.current(model_id, channel)
        for row in reversed(self.rows(model_id, channel)):
            older = current is None or (row.number < current.number and row.digest != current.digest)
            if row.state == "superseded" and older and row.digest not in self.revoked:
                return row
        return None

    def refuge(self, model_id: str, channel: str) -> Row | None:
        """Return the newest earlier release that is not revoked and that nobody rolled back from, if there is one.

        For whoever chooses by himself, a revocation or a canary's evaluation. What was promoted again since counts
        as any other.
        """
        rows = self._in_turn(model_id, channel)
        left = self.rolled_back_from(model_id, channel)
        shunned = left | self.revoked.keys() | {row.digest for row in rows if row.state == "active"}
        return next((row for row in reversed(rows) if row.digest not in shunned), None)

    def rolled_back_from(self, model_id: str, channel: str) -> set[str]:
        """Return the digests that somebody rolled back from when they were current last."""
        rows = self._in_turn(model_id, channel)
        last = {row.digest: at for at, row in enumerate(rows)}
        return {digest for digest, at in last.items() if at + 1 < len(rows) and rows[at + 1].kind == "rollback"}

    def _in_turn(self, model_id: str, channel: str) -> list[Row]:
        earlier = [row for row in self.rows(model_id, channel) if row.activated_seq >= 0]
        return sorted(earlier, key=lambda row: row.activated_seq)

    def add(self, entry: Entry) -> None:
        """Take up one entry. Entries must come in order; other types pass."""
        body = entry.body
        if entry.type == "revoked":
            self._revoke(entry, body)
        elif entry.type in holds.KINDS:
            self.holds.add(entry)
        elif entry.type in KINDS:
            rows = self.channels.setdefault((body["model"], _once(body["channel"])), {})
            number = body["number"]
            if entry.type == "intent":
                rows[number] = _row(entry, body)
            elif number in rows and rows[number].state == "intent":
                if entry.type == "abandoned":
                    rows[number] = replace(rows[number], state="abandoned")
                else:
                    self._activate(rows, number, str(body.get("release_digest", "")), entry)

    def _activate(self, rows: dict[int, Row], number: int, release_digest: str, entry: Entry) -> None:
        for other, row in rows.items():
            if row.state == "active":
                rows[other] = replace(row, state="superseded")
        rows[number] = replace(
            rows[number],
            state="active",
            release_digest=release_digest,
            activated_at=entry.at,
            activated_seq=entry.seq,
        )

    def _revoke(self, entry: Entry, body: dict[str, Any]) -> None:
        known = self.revoked.get(body["digest"])
        rollback = body.get("rollback") is True or (known is not None and known.rollback)
        if known is None:
            self.revoked[body["digest"]] = RevokedEntry(
                body["digest"], body["reason"], entry.at, entry.seq, rollback, str(body.get("by") or "")
            )
        else:
            self.revoked[body["digest"]] = replace(known, rollback=rollback)


def _row(entry: Entry, body: dict[str, Any]) -> Row:
    # A daemon keeps one for each release that there ever was: what they have alike is kept once.
    return Row(
        model_id=body["model"],
        channel=_once(body["channel"]),
        number=body["number"],
        digest=body["digest"],
        kind=_once(str(body.get("kind", "promote"))),
        reason=str(body.get("reason", "")),
        verdict_seq=int(body.get("verdict_seq", 0)),
        intent_seq=entry.seq,
        intent_at=entry.at,
        by=_once(str(body.get("by") or "")),
        rule=_shared(Rule.recorded(_once(body["channel"]), body.get("rule"))),
        glass=body.get("glass") is True,
    )


def _once(text: Any) -> Any:
    """Return the one text that stands for all that are equal to it; what is none (in an edited log) as it is."""
    return sys.intern(text) if type(text) is str else text


@functools.lru_cache(maxsize=256)
def _shared(rule: Rule) -> Rule:
    """Return the one that stands for all that are equal to it."""
    return rule


_books: weakref.WeakKeyDictionary[Ledger, Book] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def read_book(ledger: Ledger) -> Book:
    """Return the book of a ledger as it stands now. Callers must not change it; it lives on in this process."""
    with _lock:
        book = _books.setdefault(ledger, Book())
        size = ledger.tree().size
        if book.size == 0:
            for entry in entries_of(ledger, size):
                book.add(entry)
        elif size > book.size:
            for entry in ledger.entries(after=book.size - 1, before=size):
                book.add(entry)
        book.size = size
        return book


def entries_of(ledger: Ledger, size: int) -> Iterable[Entry]:
    """Return all entries about releases below ``size``, in order; by type: most entries of a log are verdicts."""
    found = [entry for kind in KINDS for entry in ledger.entries(before=size, kind=kind)]
    return sorted(found, key=lambda entry: entry.seq)
