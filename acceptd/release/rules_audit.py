"""Promotions that the ledger itself speaks against: a part of ``ledger verify``. Reads, and never mends.

Entries are looked at in their order, as they stood when each number was taken: was the channel frozen, was the
current release pinned, was the time in another channel over that the entry says its channel asked for. Approvals
are looked at where decisions are (:meth:`acceptd.review.desk.Desk.examine`).
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.record.audit import Difference
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release import gate
from acceptd.release.book import Book, entries_of


def examine(ledger: Ledger) -> list[Difference]:
    """Return a difference for each promotion that its channel did not allow when it took its number."""
    book = Book()
    found: list[Difference] = []
    for entry in entries_of(ledger, ledger.tree().size):
        if entry.type == "intent" and entry.body.get("kind") == "promote":
            found += _against(book, entry)
        book.add(entry)
    return found


def _against(before: Book, entry: Entry) -> Iterator[Difference]:
    after = Book()
    after.add(entry)
    [row] = after.rows(entry.body["model"], entry.body["channel"])
    given = gate.facts(before, row.model_id, row.channel, row.digest, row.rule)
    for reason in gate.reasons(given, row.rule, entry.at, glass=row.glass):
        where = f"{row.model_id} {row.channel} number {row.number}"
        text = f"took its number (entry {entry.seq}) although {reason.text}"
        yield Difference("release", where, text)
