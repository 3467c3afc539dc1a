"""The database behind the ledger, whichever engine carries it: what each promises, its version, and where it is.

Two engines: SQLite, one file in the state directory (:mod:`acceptd.record.sqlite`), and PostgreSQL, where
``[record] url`` names one (:mod:`acceptd.record.postgres`, imported only then). Nothing above asks which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from sqlalchemy import Connection, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from acceptd.errors import LedgerError, LedgerRightsError, LedgerStorageError, StateError
from acceptd.record import tables

FILE_NAME: Final = "ledger.sqlite3"
"""Of the state directory, where the record is a file."""
MOVED: Final = "moved_to"
"""A row of ``meta``: this ledger goes on elsewhere, and nothing more may be written here."""


class Database(ABC):
    """Connections to one database. Safe from threads; a forked child gets connections of its own."""

    def __init__(self, place: str) -> None:
        self.place = place
        """What messages call it: a path, or a database's name. Never a URL."""
        self.failed = ""
        """Why nothing more is written: the disk refused a write or its synchronisation."""
        self.on_failed: Callable[[str], None] = lambda _reason: None
        """Hears of it, once, in the thread that met it."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Give a connection in a read transaction: one snapshot from beginning to end."""

    @abstractmethod
    def write(
        self, *, durable: bool = True, stands: Callable[[Connection], bool | None] = lambda _connection: None
    ) -> AbstractContextManager[Connection]:
        """Give a connection in a write transaction, one at a time; commit at the end, roll back on any exception.

        It is on disk when this returns; with ``durable`` false it survives a killed process, but perhaps no power
        cut. ``stands`` is asked where the answer to a commit was lost: whether what was written is there, or may
        be written again (false), or nobody can say (None). Raises LedgerLostError where nothing was written and
        may be tried again, and LedgerStorageError where the storage, or the server, does not take it.
        """

    @abstractmethod
    def there(self) -> bool:
        """Say whether there is a ledger in it at all."""

    def doubts(self) -> list[str]:
        """Say, in words, what in the engine's settings makes a promise weaker than it reads; usually nothing."""
        return []

    def require_owner(self) -> None:
        """Raise StateError where whoever is connected may not change tables; of a file the system says so."""
        return

    @abstractmethod
    def settle(self) -> None:
        """See that everything that was committed, by whomever, is on disk."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes that it takes."""

    @abstractmethod
    def close(self) -> None:
        """Close all idle connections. Calling anything afterwards raises LedgerError; closing twice is fine."""


def about_rows(about: dict[str, str]) -> list[dict[str, str]]:
    """Return the rows of ``meta`` of a new database: its version, who may work on it, and ``about``."""
    rows = {
        "schema_version": str(tables.SCHEMA_VERSION),
        "readable_from": str(tables.READABLE_FROM),
        **about,
    }
    return [{"key": key, "value": value} for key, value in rows.items()]


def read_meta(database: Database) -> dict[str, str]:
    """Return the rows of ``meta``; raise StateError for a stranger's database, or one of another version."""
    try:
        with database.read() as connection:
            rows, version = read_version(database.place, connection)
    except (LedgerStorageError, LedgerRightsError):
        raise
    except LedgerError as error:
        if not database.there():
            raise StateError(f"{database.place}: there is no ledger", remedy="run `acceptd init`") from None
        raise StateError(
            f"{database.place}: not a ledger of acceptd ({error})",
            remedy="`acceptd ledger verify` says what is damaged; restore it from a backup",
        ) from error
    refuse_newer(database.place, version, rows)
    if version < tables.SCHEMA_VERSION:
        raise StateError(
            f"{database.place}: schema version {version} is older than this acceptd's {tables.SCHEMA_VERSION}",
            remedy="run `acceptd ledger migrate`, or start `acceptd daemon`: both make a backup first",
        )
    return rows


def read_version(place: str, connection: Connection) -> tuple[dict[str, str], int]:
    """Return the rows of ``meta`` and the schema version; raise StateError where its two places disagree.

    A database from before alembic has no revision, and version 1.
    """
    rows = {row.key: row.value for row in connection.execute(select(tables.meta))}
    version = _number(rows, "schema_version")
    if version is None:
        raise StateError(f"{place}: not a ledger of acceptd: it has no schema version")
    if is_stamped(connection) or version > 1:
        try:
            stamps = list(connection.execute(select(tables.alembic_version.c.version_num)).scalars())
        except DBAPIError:
            stamps = []
        if stamps != [tables.revision_of(version)]:
            # Of a newer database another acceptd may know better, and its line says more.
            refuse_newer(place, version, {})
            raise StateError(
                f"{place}: `meta` says schema version {version}, `alembic_version` {stamps!r:.80}",
                remedy="one of them was changed by hand: restore the database from a backup",
            )
    return rows, version


def is_stamped(connection: Connection) -> bool:
    """Say whether the database has alembic's table."""
    return inspect(connection).has_table(tables.alembic_version.name)


def stamp(connection: Connection, version: int) -> None:
    """Write alembic's table with the revision of ``version``, inside a write transaction."""
    tables.alembic_version.create(connection, checkfirst=False)
    connection.execute(insert(tables.alembic_version), stamp_of(version))


def stamp_of(version: int) -> dict[str, str]:
    """Return the row of alembic's table for ``version``."""
    return {"version_num": tables.revision_of(version)}


def refuse_newer(place: str, version: int, rows: Mapping[str, object]) -> None:
    """Raise StateError where a schema version is above ours, unless ``meta`` says that ours may still work on it.

    So a fleet is brought to a new version node by node: the schema first, then each node in its turn.
    """
    least = _number(rows, "readable_from")
    if version > tables.SCHEMA_VERSION and (least is None or least > tables.SCHEMA_VERSION):
        raise StateError(
            f"{place}: schema version {version} is newer than this acceptd's {tables.SCHEMA_VERSION}",
            remedy="use the acceptd that wrote it, or a later one",
        )


def refuse_moved(place: str, rows: Mapping[str, object]) -> None:
    """Raise StateError where the ledger was moved: two that go on are a fork."""
    if MOVED in rows:
        raise StateError(
            f"{place}: this ledger was moved to {rows[MOVED]!r:.200}, and goes on there",
            remedy="name that place as `[record] url` in acceptd.toml, or none for the state's own file",
        )


def _number(rows: Mapping[str, object], key: str) -> int | None:
    """Return a version that ``meta`` tells, None where it tells none."""
    said = rows.get(key, "")
    whole = isinstance(said, str) and said.isascii() and said.isdecimal() and len(said) <= 4
    return int(str(said)) if whole else None
