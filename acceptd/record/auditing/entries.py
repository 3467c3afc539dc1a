"""One entry of the log against its columns, and its verdict against the signed statement."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from acceptd.errors import LedgerError, LoaderError
from acceptd.record import merkle
from acceptd.record.attest import statement_differences, verify_statement
from acceptd.record.auditing.report import Report
from acceptd.record.entry import Entry, check_body, decode, unique_key
from acceptd.record.keys import Keyring


def check_entry(row: Row[Any], leaf: bytes, origin: str, keyring: Keyring | None, report: Report) -> str:
    """Compare one entry with its columns; return the digest of the evidence that it binds, or nothing."""
    where = f"entry {row.seq}"
    if merkle.leaf_hash(leaf) != row.leaf_hash:
        report.add("entry", where, "its bytes are not those of its leaf hash")
    try:
        entry = decode(leaf, row.leaf_hash)
        check_body(entry.type, entry.submission, entry.body)
    except LedgerError as error:
        report.add("entry", where, error)
        return ""
    due = {
        "seq": entry.seq,
        "type": entry.type,
        "submission": entry.submission,
        "recorded_at": entry.at,
        "unique_key": unique_key(entry.type, entry.submission, entry.body),
    }
    for column, value in due.items():
        if row._mapping[column] != value:
            report.add(
                "entry", where, f"column {column} is {row._mapping[column]!r:.80}, its leaf says {value!r:.80}"
            )
    if row.seq == 0 and (entry.type != "log" or entry.body.get("origin") != origin):
        report.add("entry", where, f"is not the beginning of the log {origin}")
    if entry.type == "verdict" and keyring is not None:
        _statement(entry, origin, keyring, report)
    return str(entry.body.get("evidence_digest") or "") if entry.type == "verdict" else ""


def _statement(entry: Entry, origin: str, keyring: Keyring, report: Report) -> None:
    where = f"entry {entry.seq}"
    envelope = entry.body.get("statement")
    if envelope is None:
        report.add("statement", where, "the verdict has no signed statement")
        return
    try:
        value = verify_statement(envelope, keyring)
    except LoaderError as error:
        report.add("statement", where, error)
        return
    for difference in statement_differences(value, entry.submission, entry.body, origin, entry.seq):
        report.add("statement", where, difference)
