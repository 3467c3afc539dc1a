"""Entries of the log against their columns, statements, projected rows and the tree over them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from acceptd.errors import LedgerError, LoaderError
from acceptd.record import merkle
from acceptd.record.attest import statement_differences, unverified, verify_statement
from acceptd.record.auditing import projected, quick
from acceptd.record.auditing.report import Report
from acceptd.record.auditing.rules import InPart
from acceptd.record.entry import LEAF_VERSION, check_body, decode, moment_of, unique_key, valid_time
from acceptd.record.keys import Keyring
from acceptd.record.succession import History

LEVEL: Final = 12
"""Entries are gone through in subtrees of this height."""

CLOCK_SECONDS: Final = 60
"""A clock that is stepped back by so little was corrected, not set."""

_ENTRIES: Final = " ".join(
    (
        "SELECT e.seq, e.type, e.submission, e.unique_key, e.leaf, e.leaf_hash, e.recorded_at,",
        projected.BESIDE,
        "FROM entries e",
        projected.JOIN,
        "WHERE e.seq >= ? AND e.seq < ? ORDER BY e.seq",
    )
)
_NODES: Final = "SELECT idx, hash FROM nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx"


_COLUMNS: Final = 7
"""Those of ``entries``, in a row of that query; what is joined to them follows."""


class Stored(NamedTuple):
    """A row of ``entries``, in the order of its columns."""

    seq: int
    type: str
    submission: str | None
    unique_key: str | None
    leaf: bytes
    leaf_hash: bytes
    recorded_at: str


class Known(NamedTuple):
    """What the leaf of an entry says."""

    type: str
    seq: int
    at: str
    submission: str | None
    body: dict[str, Any]


def check_entries(
    raw: sqlite3.Connection,
    first: int,
    end: int,
    marks: Sequence[int],
    origin: str,
    keys: History | None,
    report: Report,
) -> dict[str, Any]:
    """Check the entries [first, end), ``first`` a multiple of 2^LEVEL; return what the tree above needs.

    ``hashes`` are those of the perfect subtrees of the ``size`` leaves that stand before a gap, ``marks`` the
    same at each wanted size (in hex), ``releases`` the entries that releases follow from, ``verdicts`` and
    ``findings`` the projected rows that belong to these entries, ``first`` and ``last`` when they were recorded,
    ``rules_named`` and ``rules_used`` what :mod:`acceptd.record.auditing.rules` holds against each other.
    """
    leaves: list[bytes] = []
    whole = True
    rules = InPart()
    statements = Statements(origin, keys)
    came: dict[str, Any] = {"verdicts": 0, "findings": 0, "releases": [], "first": "", "last": ""}
    for row in raw.execute(_ENTRIES, (first, end)):
        seq, leaf = row[0], row[4]
        if whole and seq != first + len(leaves):
            report.add("entry", f"entry {first + len(leaves)}", f"is missing: entry {seq} follows")
            whole = False  # what comes after a gap has another tree; one difference says it
        leaf_hash = merkle.leaf_hash(leaf if isinstance(leaf, bytes) else b"")
        if whole:
            leaves.append(leaf_hash)
        entry = ordinary(row, leaf_hash) or check_entry(Stored._make(row[:_COLUMNS]), leaf_hash, report)
        if entry is not None:
            _follow(raw, row, entry, came, report)
            kind, seq, at, _, body = entry
            if row[0] == 0 and (kind != "log" or body.get("origin") != origin):
                report.add("entry", "entry 0", f"is not the beginning of the log {origin}")
            if kind == "verdict":
                statements.check(entry, report)
            rules.look(kind, seq, body)
            if at < came["last"]:
                check_clock(came["last"], seq, at, report)
            came["first"], came["last"] = came["first"] or at, at
    if whole and first + len(leaves) < end:
        report.add("entry", f"entry {first + len(leaves)}", "is missing")
        whole = False
    levels = merkle.levels(leaves)

    def fetch(level: int, index: int) -> bytes:
        return levels[level][index - (first >> level)]

    def hashes(size: int) -> list[str]:
        return [fetch(*place).hex() for place in merkle.perfect_subtrees(first, size)]

    size = first + len(leaves)
    if whole:
        _nodes(raw, first, levels, report)
    came |= rules.came()
    came |= {"size": len(leaves), "whole": whole, "hashes": hashes(size)}
    return came | {"marks": {str(mark): hashes(mark) for mark in marks if mark <= size}}


def ordinary(row: tuple[Any, ...], leaf_hash: bytes) -> Known | None:
    """Return what the leaf of a row says, or None where :func:`check_entry` must look: it has the words.

    The quick way of that function: it takes nothing in which that one finds a difference.
    """
    seq, kind, submission, key, leaf, stored_hash, at = row[:_COLUMNS]
    if type(leaf) is not bytes or stored_hash != leaf_hash or type(kind) is not str or type(at) is not str:
        return None
    due = {"v": LEAF_VERSION, "seq": seq, "type": kind, "at": at}
    if submission is not None:
        due["submission"] = submission
    try:
        value = quick.parse(leaf)
        body = due["body"] = value["body"]
        if value != due or type(value["seq"]) is not int or type(body) is not dict:
            return None
        if submission is not None and type(submission) is not str:
            return None
        check_body(kind, submission, body)
        if unique_key(kind, submission, body) != key:
            return None
    except (LedgerError, TypeError, KeyError):
        return None
    return Known(kind, value["seq"], at, submission, body)


def check_entry(row: Stored, leaf_hash: bytes, report: Report) -> Known | None:
    """Compare one entry with its columns; return what its leaf holds, or None where that cannot be read."""
    where = f"entry {row.seq}"
    if leaf_hash != row.leaf_hash:
        report.add("entry", where, "its bytes are not those of its leaf hash")
    leaf = row.leaf if isinstance(row.leaf, bytes) else b""
    try:
        entry = decode(leaf, leaf_hash, quick.parse)
        check_body(entry.type, entry.submission, entry.body)
        key = unique_key(entry.type, entry.submission, entry.body)
    except LedgerError as error:
        report.add("entry", where, error)
        return None
    due = Stored(entry.seq, entry.type, entry.submission, key, leaf, leaf_hash, entry.at)
    for column in ("seq", "type", "submission", "recorded_at", "unique_key"):
        said, value = getattr(row, column), getattr(due, column)
        if said != value:
            report.add("entry", where, f"column {column} is {said!r:.80}, its leaf says {value!r:.80}")
    return Known(entry.type, entry.seq, entry.at, entry.submission, entry.body)


def _follow(
    raw: sqlite3.Connection, row: tuple[Any, ...], entry: Known, came: dict[str, Any], report: Report
) -> None:
    """What follows from one entry: projected rows, and evidence that must be there."""
    kind, seq, at, submission, body = entry
    if kind == "verdict":
        # Joined by the row's columns: they may lie, and then the rows are asked for by what the leaf says.
        joined = row[_COLUMNS:] if row[1] == kind and row[2] == submission else None
        verdicts, findings = projected.check_verdict(raw, seq, submission, body, joined, report)
        came["verdicts"] += verdicts
        came["findings"] += findings
        bound = body.get("evidence_digest")
        if bound and raw.execute("SELECT 1 FROM evidence WHERE digest = ?", (str(bound),)).fetchone() is None:
            report.add("evidence", str(bound), f"is missing, and entry {seq} rests on it")
    elif kind in projected.EVENTS:
        came["releases"].append(projected.event(kind, seq, at, body))


def check_clock(before: str, seq: int, at: str, report: Report) -> None:
    """Report an entry recorded before the one it follows, by more than a running clock is corrected."""
    if at < before:
        with contextlib.suppress(LedgerError):
            seconds = moment_of(valid_time(before)) - moment_of(valid_time(at))
            if seconds > CLOCK_SECONDS:
                report.add("entry", f"entry {seq}", f"is of {at}, the one before it of {before}: a clock set back")


class Statements:
    """Holds the signed statements of verdicts against their entries; without keys none is looked at."""

    def __init__(self, origin: str, keys: History | None) -> None:
        self._origin = origin
        self._keys = keys
        self._ring: Keyring | None = None
        self._quick = quick.keyring(Keyring(()))

    def check(self, entry: Known, report: Report) -> None:
        """Report what is wrong with the statement of a verdict."""
        if self._keys is None:
            return
        _, seq, _, submission, body = entry
        envelope = body.get("statement")
        if envelope is None:
            report.add("statement", f"entry {seq}", "the verdict has no signed statement")
            return
        ring = self._keys.at(seq)
        if ring is not self._ring:  # once in a part, as a rule
            self._ring, self._quick = ring, quick.keyring(ring)
        try:
            value = verify_statement(envelope, self._quick, read=quick.parse)
        except LoaderError as error:
            report.add("statement", f"entry {seq}", _out_of_time(envelope, seq, self._keys) or error)
            return
        for difference in statement_differences(value, submission, body, self._origin, seq, quick.digest):
            report.add("statement", f"entry {seq}", difference)


def _out_of_time(envelope: object, seq: int, keys: History) -> str:
    """Return in words that a key of this log signed where it does not count; empty where that is not it."""
    try:
        return keys.why("ledger", unverified(envelope)[1], seq)
    except LoaderError:
        return ""


def _nodes(raw: sqlite3.Connection, first: int, levels: list[list[bytes]], report: Report) -> None:
    """Compare the stored nodes above the leaves from ``first`` with the computed ones."""
    for level, computed in enumerate(levels[1:], 1):
        base = first >> level
        rows = raw.execute(_NODES, (level, base, base + len(computed))).fetchall()
        if rows == list(enumerate(computed, base)):
            continue
        stored = dict(rows)
        for index, value in enumerate(computed, base):
            if stored.get(index) != value:
                word = "differs from its entries" if index in stored else "is missing"
                report.add("tree", f"node {index} of level {level}", word)
