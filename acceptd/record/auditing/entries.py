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
from acceptd.record.entry import Entry, check_body, decode, moment_of, unique_key, valid_time
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
    came: dict[str, Any] = {"verdicts": 0, "findings": 0, "releases": [], "first": "", "last": ""}
    for values in raw.execute(_ENTRIES, (first, end)):
        row = Stored._make(values[:_COLUMNS])
        if whole and row.seq != first + len(leaves):
            report.add("entry", f"entry {first + len(leaves)}", f"is missing: entry {row.seq} follows")
            whole = False  # what comes after a gap has another tree; one difference says it
        leaf = row.leaf if isinstance(row.leaf, bytes) else b""
        leaf_hash = merkle.leaf_hash(leaf)
        if whole:
            leaves.append(leaf_hash)
        entry = check_entry(row, leaf, leaf_hash, origin, keys, report)
        if entry is not None:
            rules.look(entry)
            _follow(raw, row, entry, values[_COLUMNS:], came, report)
            if came["last"]:
                check_clock(came["last"], entry.seq, entry.at, report)
            came["first"], came["last"] = came["first"] or entry.at, entry.at
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


def _follow(
    raw: sqlite3.Connection,
    row: Stored,
    entry: Entry,
    joined: tuple[Any, ...],
    came: dict[str, Any],
    report: Report,
) -> None:
    """What follows from one entry: projected rows, and evidence that must be there."""
    if entry.type == "verdict":
        # Joined by the row's columns: they may lie, and then the rows are asked for by what the leaf says.
        honest = row.type == entry.type and row.submission == entry.submission
        verdicts, findings = projected.check_verdict(raw, entry, joined if honest else None, report)
        came["verdicts"] += verdicts
        came["findings"] += findings
        bound = entry.body.get("evidence_digest")
        if bound and raw.execute("SELECT 1 FROM evidence WHERE digest = ?", (str(bound),)).fetchone() is None:
            report.add("evidence", str(bound), f"is missing, and entry {entry.seq} rests on it")
    elif entry.type in projected.EVENTS:
        came["releases"].append(projected.event(entry))


def check_clock(before: str, seq: int, at: str, report: Report) -> None:
    """Report an entry recorded before the one it follows, by more than a running clock is corrected."""
    if at < before:
        with contextlib.suppress(LedgerError):
            seconds = moment_of(valid_time(before)) - moment_of(valid_time(at))
            if seconds > CLOCK_SECONDS:
                report.add("entry", f"entry {seq}", f"is of {at}, the one before it of {before}: a clock set back")


def check_entry(
    row: Stored, leaf: bytes, leaf_hash: bytes, origin: str, keys: History | None, report: Report
) -> Entry | None:
    """Compare one entry with its columns; return what its leaf holds, or None where that cannot be read."""
    where = f"entry {row.seq}"
    if leaf_hash != row.leaf_hash:
        report.add("entry", where, "its bytes are not those of its leaf hash")
    try:
        entry = decode(leaf, leaf_hash, quick.parse)
        check_body(entry.type, entry.submission, entry.body)
        due = Stored(
            entry.seq,
            entry.type,
            entry.submission,
            unique_key(entry.type, entry.submission, entry.body),
            leaf,
            leaf_hash,
            entry.at,
        )
    except LedgerError as error:
        report.add("entry", where, error)
        return None
    if due != row:
        for column in ("seq", "type", "submission", "recorded_at", "unique_key"):
            said, value = getattr(row, column), getattr(due, column)
            if said != value:
                report.add("entry", where, f"column {column} is {said!r:.80}, its leaf says {value!r:.80}")
    if row.seq == 0 and (entry.type != "log" or entry.body.get("origin") != origin):
        report.add("entry", where, f"is not the beginning of the log {origin}")
    if entry.type == "verdict" and keys is not None:
        _statement(entry, origin, keys, report)
    return entry


def _statement(entry: Entry, origin: str, keys: History, report: Report) -> None:
    where = f"entry {entry.seq}"
    envelope = entry.body.get("statement")
    if envelope is None:
        report.add("statement", where, "the verdict has no signed statement")
        return
    try:
        value = verify_statement(envelope, quick.keyring(keys.at(entry.seq)), read=quick.parse)
    except LoaderError as error:
        report.add("statement", where, _out_of_time(envelope, entry.seq, keys) or error)
        return
    for difference in statement_differences(value, entry.submission, entry.body, origin, entry.seq, quick.digest):
        report.add("statement", where, difference)


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
        stored = dict(raw.execute(_NODES, (level, base, base + len(computed))).fetchall())
        for index, value in enumerate(computed, base):
            if stored.get(index) != value:
                word = "differs from its entries" if index in stored else "is missing"
                report.add("tree", f"node {index} of level {level}", word)
