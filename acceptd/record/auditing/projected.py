"""The projections against a rebuild beside them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import func, select

from acceptd.errors import LedgerError
from acceptd.record import projections, tables
from acceptd.record.auditing.report import Report
from acceptd.record.entry import Entry, check_body
from acceptd.record.log import Ledger


def check_projections(ledger: Ledger, report: Report) -> None:
    """Report the rows that are not what the entries say."""
    try:
        with ledger.reading() as connection:
            size = connection.execute(select(func.max(tables.entries.c.seq))).scalar() or 0
            entries = _checked(ledger.entries(before=size + 1))
            for row in projections.differences(connection, entries):
                word = "is not what the entries say" if row.kind == "stale" else "is due and not there, or not so"
                report.add("projection", f"{row.table}: {row.key}", word)
    except LedgerError as error:
        report.add("projection", "", f"cannot be rebuilt to compare: {error}")


def _checked(entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        check_body(entry.type, entry.submission, entry.body)
        yield entry
