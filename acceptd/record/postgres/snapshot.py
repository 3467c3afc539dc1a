"""One snapshot of a ledger on PostgreSQL as a file of SQLite: for the audit, for a backup, for a move.

Rows are streamed by a server-side cursor, from the tables themselves and past their indexes, which may hide some.
They are hostile: what breaks a table's own rules is told, and left out.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from sqlalchemy import Column, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from acceptd.errors import LedgerError, StateError
from acceptd.intake.files import create_exclusive
from acceptd.record import tables
from acceptd.record.auditing.report import Report
from acceptd.record.database import FILE_NAME
from acceptd.record.dialects import PlainText, given_text
from acceptd.record.leases import given_up
from acceptd.record.place import Place
from acceptd.record.postgres.engine import connect
from acceptd.record.postgres.errors import translated
from acceptd.record.postgres.structure import check_structure

AUDITED: Final = tuple(table for table in tables.metadata.sorted_tables if not table.name.startswith("fleet_"))
"""What the audit looks at. The rest is no truth, and a reviewer's role may not read all of it."""
_BATCH: Final = 2000
_LARGE: Final = frozenset({"evidence", "submissions", "fleet_evidence"})
_PAST_INDEXES: Final = "; ".join(
    f"SET LOCAL enable_{way} = off" for way in ("indexscan", "indexonlyscan", "bitmapscan")
)

Row = list[Any]
Fetch = Callable[[Table], Iterable[list[Row]]]
Tell = Callable[[str, str], None]
Told = Callable[[str], None]


@contextlib.contextmanager
def audited(place: Place, report: Report, told: Told) -> Iterator[Place]:
    """Give a private file with one snapshot of the record; it goes with the context.

    What PostgreSQL's structure lacks, and rows that break a table's rules, are added to ``report``.
    """
    with tempfile.TemporaryDirectory(prefix="acceptd-audit-") as folder:
        file = Path(folder) / FILE_NAME

        def tell(where: str, words: str) -> None:
            report.add("database", where, words)

        with reading(place) as connection:
            newer = _version(connection) > tables.SCHEMA_VERSION
            check_structure(connection.execute, tell, newer=newer)
            write_file(lambda table: batches(connection, table), file, AUDITED, tell, told)
        yield Place(place.state, file=file)


@contextlib.contextmanager
def reading(place: Place) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection of the driver's in one read-only snapshot."""
    with translated(str(place)), contextlib.closing(connect(place.url, read_only=True)) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(_PAST_INDEXES)
        yield connection


def batches(connection: psycopg.Connection[Any], table: Table) -> Iterator[list[Row]]:
    """Yield the rows of a table as they were given, some at a time, by a cursor of the server's."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    texts = [is_text(column) for column in table.columns]
    with connection.cursor(name=f"acceptd_{table.name}", binary=True) as cursor:
        size = 16 if table.name in _LARGE else _BATCH
        cursor.itersize = size
        cursor.execute(f"SELECT {names} FROM ONLY public.{table.name}")  # noqa: S608 - names of ours
        while rows := cursor.fetchmany(size):
            yield [_given(row, texts) for row in rows]


def is_text(column: Column[Any]) -> bool:
    """Say whether a column's text is kept with NUL escaped."""
    return isinstance(column.type.dialect_impl(_POSTGRES), PlainText)


def write_file(fetch: Fetch, file: Path, wanted: Sequence[Table], tell: Tell, told: Told) -> dict[str, int]:
    """Make ``file`` (0600), a ledger of SQLite with the rows of the tables ``wanted``; return how many came.

    The other tables of a ledger are there and empty. Not durable: whoever keeps the file synchronises it.
    """
    os.close(create_exclusive(file.parent, file.name))
    counts: dict[str, int] = {}
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        target.execute("BEGIN")
        for table in (*tables.metadata.sorted_tables, *([given_up] if given_up in wanted else [])):
            target.execute(str(CreateTable(table).compile(dialect=_SQLITE)))
            if table in wanted:
                told(f"reading {table.name}")
                counts[table.name] = _fill(target, table, fetch(table), tell)
            for index in sorted(table.indexes, key=lambda one: str(one.name)):
                target.execute(str(CreateIndex(index).compile(dialect=_SQLITE)))
        for trigger in tables.TRIGGERS:
            target.execute(trigger)
        target.execute("COMMIT")
    return counts


def _fill(target: sqlite3.Connection, table: Table, came: Iterable[list[Row]], tell: Tell) -> int:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    insert = f"INSERT INTO {table.name} ({names}) VALUES ({', '.join('?' * len(table.columns))})"  # noqa: S608 - names of ours
    count = 0
    for rows in came:
        count += len(rows)
        target.execute("SAVEPOINT batch")
        try:
            target.executemany(insert, rows)
        except sqlite3.Error:
            target.execute("ROLLBACK TO batch")
            _one_by_one(target, insert, table, rows, tell)
        target.execute("RELEASE batch")
    return count


def _given(row: Row, texts: Sequence[bool]) -> Row:
    return [
        given_text(value) if text and isinstance(value, str) else value
        for value, text in zip(row, texts, strict=True)
    ]


def _one_by_one(target: sqlite3.Connection, insert: str, table: Table, rows: Sequence[Row], tell: Tell) -> None:
    keys = [position for position, column in enumerate(table.columns) if column.primary_key]
    names = [column.name for column in table.columns]
    for row in rows:
        try:
            target.execute(insert, row)
        except sqlite3.Error as error:
            place = ", ".join(f"{names[key]}={row[key]!r:.80}" for key in keys)
            tell(f"{table.name}: {place}", f"breaks the table's own rules: {error}")


def _version(connection: psycopg.Connection[Any]) -> int:
    if connection.execute("SELECT to_regclass('public.meta')").fetchone() == (None,):
        raise StateError("the PostgreSQL database has no ledger", remedy="run `acceptd init`")
    row = connection.execute("SELECT value FROM public.meta WHERE key = 'schema_version'").fetchone()
    said = str(row[0]) if row else ""
    if not (said.isascii() and said.isdecimal() and len(said) <= 4):
        raise LedgerError("the database has no schema version: it is not a ledger of acceptd")
    return int(said)


_SQLITE: Final = sqlite.dialect()
_POSTGRES: Final = postgresql.dialect()  # type: ignore[no-untyped-call]
