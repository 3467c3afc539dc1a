"""The ledger's tables on PostgreSQL, and the triggers that make its truth append-only.

What the triggers refuse, they refuse to everybody, the owner included, until somebody drops or disables one; that
the roles of a fleet cannot do (:mod:`acceptd.record.postgres.roles`), and the audit sees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, insert

from acceptd.errors import StateError
from acceptd.record import tables
from acceptd.record.database import about_rows, stamp_of
from acceptd.record.leases import given_up
from acceptd.record.place import database_name
from acceptd.record.postgres.engine import LOCK, connect, engine_over
from acceptd.record.postgres.errors import translated

_PINNED: Final = "LANGUAGE plpgsql SET search_path = pg_catalog, public"
FUNCTIONS: Final = {
    "acceptd_refused": "BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'restrict_violation'; END",
    "acceptd_next": (
        "BEGIN IF NEW.seq IS DISTINCT FROM (SELECT coalesce(max(seq) + 1, 0) FROM public.entries) THEN "
        "RAISE EXCEPTION 'entries are numbered without gaps' USING ERRCODE = 'restrict_violation'; END IF; "
        "RETURN NEW; END"
    ),
}
"""Bodies of the trigger functions, by name."""


def _frozen(table: str, word: str, *actions: str) -> dict[str, str]:
    return {
        f"{table}_no_{action.lower()}": (
            f"BEFORE {action} ON public.{table} FOR EACH "
            f"{'STATEMENT' if action == 'TRUNCATE' else 'ROW'} EXECUTE FUNCTION acceptd_refused('{word}')"
        )
        for action in actions
    }


TRIGGERS: Final = {
    **_frozen("entries", "entries are append-only", "UPDATE", "DELETE", "TRUNCATE"),
    **_frozen("nodes", "nodes are append-only", "UPDATE", "DELETE", "TRUNCATE"),
    **_frozen("evidence", "evidence is never edited", "UPDATE", "TRUNCATE"),
    "entries_next": "BEFORE INSERT ON public.entries FOR EACH ROW EXECUTE FUNCTION acceptd_next()",
}
"""Definitions by name, in the words of ``pg_get_triggerdef``: what the audit compares them with."""

TABLES: Final = (*tables.metadata.sorted_tables, given_up)
"""All tables of ours. A daemon that makes the last one at its start finds it here: it may make none."""


def create(url: str, about: dict[str, str], first_entry: dict[str, Any]) -> bool:
    """Make tables and triggers, in one transaction; return False where the database has a ledger already.

    Raises StateError where the database is not reached, or others' tables have the names of ours, and LedgerError
    where this role may not make tables.
    """
    with making(url) as connection:
        if has_ledger(connection):
            return False
        make_tables(connection)
        make_triggers(connection)
        connection.execute(insert(tables.meta), about_rows(about))
        connection.execute(insert(tables.alembic_version), stamp_of(tables.SCHEMA_VERSION))
        connection.execute(insert(tables.entries), first_entry)
        return True


@contextlib.contextmanager
def making(url: str) -> Iterator[Connection]:
    """Give a connection in a transaction that holds the writers' lock; committed at the end."""
    place = database_name(url)
    with translated(place), contextlib.closing(connect(url)) as raw, engine_over(raw) as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        yield connection


def has_ledger(connection: Connection) -> bool:
    """Say whether the database has a ledger; raise StateError where tables of ours are there without one."""
    query = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')"
    )
    there = {str(row[0]) for row in connection.exec_driver_sql(query)}
    if tables.meta.name in there:
        return True
    if strange := sorted(there & {table.name for table in TABLES}):
        raise StateError(
            f"the PostgreSQL database has a table {strange[0]!r} that is none of a ledger's",
            remedy="name a database of acceptd's own in `[record] url`",
        )
    return False


def make_tables(connection: Connection) -> None:
    """Make the tables; raise StateError where the database is not in UTF-8."""
    if (encoding := connection.exec_driver_sql("SHOW server_encoding").scalar()) != "UTF8":
        raise StateError(
            f"the PostgreSQL database is in {encoding}, the record in UTF-8",
            remedy="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )
    # Nobody else may put a table or a function into the schema that is looked through for ours.
    connection.exec_driver_sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    for table in TABLES:
        table.create(connection, checkfirst=False)


def make_triggers(connection: Connection) -> None:
    """Make the functions and the triggers."""
    for name, body in FUNCTIONS.items():
        connection.exec_driver_sql(
            f"CREATE FUNCTION public.{name}() RETURNS trigger {_PINNED} AS '{quoted(body)}'"
        )
    for name, definition in TRIGGERS.items():
        connection.exec_driver_sql(f"CREATE TRIGGER {name} {definition}".replace("%", "%%"))


def quoted(text: str) -> str:
    """Return a text for between quotes in SQL, and with the driver's percent signs doubled."""
    return text.replace("'", "''").replace("%", "%%")
