"""One write transaction of the ledger: entries with their place in the tree, projections and evidence.

What it appends stands when the transaction commits: all of it, or nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select

from acceptd.record import merkle, projections, tables
from acceptd.record.entry import Appended, Entry, NewEntry, encode, unique_key
from acceptd.record.failpoint import failpoint

# Statements of the hot path, built once: building one costs more than SQLite's work on it.
_APPEND: Final = insert(tables.entries)
_ADD_NODES: Final = insert(tables.nodes)


class Transaction:
    """One write transaction: several entries, the queue and projections change together."""

    def __init__(
        self, connection: Connection, find: Callable[[Connection], merkle.Frontier], clock: Callable[[], str]
    ) -> None:
        self.connection = connection
        self._find = find
        self._frontier: merkle.Frontier | None = None
        self.last_leaf_hash: bytes | None = None
        """Of the newest entry of this transaction; None as long as it has none."""
        self.torn = False
        """True while an entry stands without its nodes and projections; then nothing may be committed."""
        self._clock = clock

    @property
    def frontier(self) -> merkle.Frontier:
        """The tree's state, entries of this transaction included; looked up when first needed."""
        if self._frontier is None:
            self._frontier = self._find(self.connection)
        return self._frontier

    @property
    def next_seq(self) -> int:
        """The number that the next appended entry will have; nobody else can take it."""
        return self.frontier.size

    def now(self) -> str:
        """Return the ledger's time: UTC, RFC 3339, to the second."""
        return self._clock()

    def append(self, kind: str, body: Mapping[str, Any], *, submission: str | None = None) -> Appended:
        """Append one entry; it stands when the transaction commits.

        Raises LedgerError where the body is not canonical or lacks what its type promises, and
        DuplicateEntryError for a second verdict of a submission or a release number already taken.
        """
        seq, at = self.next_seq, self._clock()
        row = entry_row(seq, NewEntry(kind, body, submission), at)
        leaf, leaf_hash = row["leaf"], row["leaf_hash"]
        self.connection.execute(_APPEND, row)
        self.torn = True
        frontier, completed = self.frontier.append(leaf_hash)
        if completed:
            self.connection.execute(
                _ADD_NODES,
                [{"level": node.level, "idx": node.index, "hash": node.hash} for node in completed],
            )
        if kind in projections.TYPES:
            stored = Entry(seq, kind, at, submission, json.loads(leaf)["body"], leaf, leaf_hash)
            projections.apply(self.connection, tables.STORED, stored)
        failpoint("record.append.after-insert")
        self._frontier, self.last_leaf_hash, self.torn = frontier, leaf_hash, False
        return Appended(seq, leaf_hash, at)

    def next_release_number(self, model: str, channel: str) -> int:
        """Return the lowest number above all that an intent ever took in this channel, burnt ones included."""
        releases = tables.releases.c
        highest = self.connection.execute(
            select(func.max(releases.number)).where(releases.model == model, releases.channel == channel)
        ).scalar()
        return int(highest or 0) + 1

    def put_evidence(self, data: bytes) -> str:
        """Keep ``data`` under its SHA-256 and return that; the same bytes twice are kept once."""
        digest = hashlib.sha256(data).hexdigest()
        known = select(tables.evidence.c.digest).where(tables.evidence.c.digest == digest)
        if self.connection.execute(known).first() is None:
            row = {"digest": digest, "size": len(data), "data": data, "stored_at": self._clock()}
            self.connection.execute(insert(tables.evidence), row)
        return digest


def entry_row(seq: int, new: NewEntry, at: str) -> dict[str, Any]:
    """Return the row of ``entries`` that the entry ``seq`` of the time ``at`` is stored in."""
    leaf = encode(seq, new, at)
    return {
        "seq": seq,
        "type": new.type,
        "submission": new.submission,
        "unique_key": unique_key(new.type, new.submission, new.body),
        "leaf": leaf,
        "leaf_hash": merkle.leaf_hash(leaf),
        "recorded_at": at,
    }
