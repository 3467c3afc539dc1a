"""Brings an older database to this version's schema: backup, revisions, comparison, one commit.

All of it happens under the write lock, so that the backup is exactly what was migrated and nobody writes in
between; a kill anywhere leaves the database as it was, or as it is to be. On PostgreSQL no backup is made here:
its server has ways of its own, and data definition is part of the transaction there as it is in SQLite. Alembic is
imported here alone, and only where the version differs: it costs 90 ms.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from acceptd.errors import LedgerError
from acceptd.record import database, merkle, tables
from acceptd.record.backup import FOLDER, online_backup
from acceptd.record.entry import utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.log import stored_hashes
from acceptd.record.place import Place

SCRIPTS: Final = Path(__file__).with_name("migrations")
_DEFINED: Final = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name IN ('entries', 'nodes', 'evidence')",
)
_TRUTH: Final = (
    "SELECT seq, type, submission, unique_key, leaf, leaf_hash, recorded_at FROM entries ORDER BY seq",
    "SELECT level, idx, hash FROM nodes ORDER BY level, idx",
    "SELECT digest, size, length(data), stored_at FROM evidence ORDER BY digest",
)
"""What no revision may change: definitions and rows. Of evidence the lengths; its bytes have a trigger."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done: the versions, and where the backup lies; of PostgreSQL there is none."""

    before: int
    after: int
    backup: Path | None


@dataclass(frozen=True, slots=True)
class _Truth:
    size: int
    root: bytes
    digest: str


def migrate(state: Path, *, clock: Callable[[], str] = utc_now, scripts: Path = SCRIPTS) -> Migrated | None:
    """Bring the database of ``state`` to this version's schema; return None where it is there already.

    A database from before alembic is stamped with its revision. The caller keeps other daemons out (the daemon's
    lock); other writers wait, or are told that it is busy. Raises StateError for no ledger, a newer one, or no
    room for the backup, and LedgerError where the log is damaged or a revision touches it; then nothing changed.
    """
    place = Place.of(state)
    store = place.open()
    try:
        with store.read() as connection:
            rows, version = database.read_version(store.place, connection)
            stamped = database.is_stamped(connection)
        database.refuse_newer(store.place, version, rows)
        if version >= tables.SCHEMA_VERSION and stamped:
            return None
        with store.write() as connection:
            _, version = database.read_version(store.place, connection)  # another may have been here first
            if not database.is_stamped(connection):
                database.stamp(connection, version)
            if version >= tables.SCHEMA_VERSION:
                return None
            made = _migrated(place, connection, version, clock(), scripts)
            failpoint("record.migrate.before-commit")
        failpoint("record.migrate.after-commit")
        return made
    finally:
        store.close()


def _migrated(place: Place, connection: Connection, version: int, at: str, scripts: Path) -> Migrated:
    before = _truth(connection)
    if before.root != merkle.frontier_at(before.size, stored_hashes(connection)).root():
        raise LedgerError("the tree is not that of the entries; nothing was migrated: run `acceptd ledger verify`")
    backup = None
    if not place.url:
        folder = place.state / FOLDER
        name = _free_name(folder, f"ledger-v{version}-{at.replace('-', '').replace(':', '')}")
        # On a connection of its own: it sees what is committed, and under our lock nobody commits.
        backup = online_backup(place.path, folder, name).path
    failpoint("record.migrate.backed-up")
    _run(connection, scripts)
    if _truth(connection) != before:
        raise LedgerError("a migration changed entries, tree or evidence: it was rolled back")
    _, after = database.read_version(str(place), connection)
    if after != tables.SCHEMA_VERSION:
        raise LedgerError(f"the migrations end at version {after}, not {tables.SCHEMA_VERSION}: rolled back")
    return Migrated(version, after, backup)


def _free_name(folder: Path, stem: str) -> str:
    """Return a name that is not taken: a migration that failed leaves a backup, perhaps of this second."""
    names = (f"{stem}{number or ''}.sqlite3" for number in range(1000))
    return next(name for name in names if not os.path.lexists(folder / name))


def _run(connection: Connection, scripts: Path, to: str = "") -> None:
    """Run the revisions that are due, ``to`` one or to ours, in the transaction of ``connection``."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    try:
        command.upgrade(config, to or tables.revision_of(tables.SCHEMA_VERSION))
    except CommandError as error:
        raise LedgerError(f"the migrations cannot be run: {error}") from error


def _truth(connection: Connection) -> _Truth:
    """Read all that must stay as it is, in constant memory: size and root over the leaves, digest of every row."""
    digest, frontier = hashlib.sha256(), merkle.Frontier()
    for query in (*(_DEFINED if connection.dialect.name == "sqlite" else _defined()), *_TRUTH):
        for row in _rows(connection, query):
            for value in row:
                data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")
                digest.update(b"%s %d:" % (type(value).__name__.encode(), len(data)) + data)
            if "FROM entries" in query:
                frontier, _ = frontier.append(merkle.leaf_hash(row[4] if isinstance(row[4], bytes) else b""))
    return _Truth(frontier.size, frontier.root(), digest.hexdigest())


def _rows(connection: Connection, query: str) -> Iterable[Any]:
    """Run a query in constant memory: SQLite's driver is faster alone, PostgreSQL's streams by a cursor."""
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.driver_connection
        return raw.execute(query)  # type: ignore[no-any-return]
    return connection.execution_options(stream_results=True, max_row_buffer=1000).exec_driver_sql(query)


def _defined() -> tuple[str, ...]:
    from acceptd.record.postgres.structure import DEFINED

    return DEFINED
