"""A whole ledger written into an empty database of PostgreSQL, in one transaction: for a move, for a restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Boolean, Connection, Table

from acceptd.errors import StateError
from acceptd.record.dialects import stored_text
from acceptd.record.leases import given_up
from acceptd.record.postgres.schema import TABLES, has_ledger, make_tables, make_triggers, making
from acceptd.record.postgres.snapshot import Fetch, Told, is_text

_NUMBERS: Final = f"""
    SELECT setval('public.{given_up.name}_number_seq', coalesce(max(number), 0) + 1, false)
    FROM public.{given_up.name}
"""  # noqa: S608 - names of ours


def fill(url: str, fetch: Fetch, verify: Callable[[Connection, dict[str, int]], None], told: Told) -> None:
    """Make tables, rows and triggers, have ``verify`` look at them with their counts, and commit.

    ``fetch`` gives the rows of a table, entries by number. Whatever ``verify`` raises leaves nothing behind.
    Raises StateError where the database has a ledger.
    """
    with making(url) as connection:
        if has_ledger(connection):
            raise StateError("the PostgreSQL database has a ledger already", remedy="name an empty database")
        make_tables(connection)
        raw: Any = connection.connection.driver_connection
        counts = {}
        for table in TABLES:
            told(f"writing {table.name}")
            counts[table.name] = _copy(raw, table, fetch)
        connection.exec_driver_sql(_NUMBERS)
        make_triggers(connection)
        verify(connection, counts)


def _copy(raw: Any, table: Table, fetch: Fetch) -> int:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    texts = [is_text(column) for column in table.columns]
    flags = [isinstance(column.type, Boolean) for column in table.columns]
    count = 0
    with raw.cursor() as cursor, cursor.copy(f"COPY public.{table.name} ({names}) FROM STDIN") as copy:
        for rows in fetch(table):
            count += len(rows)
            for row in rows:
                copy.write_row(_stored(row, texts, flags))
    return count


def _stored(row: Sequence[Any], texts: Sequence[bool], flags: Sequence[bool]) -> list[Any]:
    return [
        stored_text(value) if text and isinstance(value, str) else (bool(value) if flag else value)
        for value, text, flag in zip(row, texts, flags, strict=True)
    ]
