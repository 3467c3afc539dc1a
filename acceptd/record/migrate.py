"""Brings an older database to this version's schema: backup, revisions, comparison, one commit.

All of it happens under SQLite's write lock, so that the backup is exactly what was migrated and nobody writes in
between; a kill anywhere leaves the database as it was, or as it is to be. Alembic is imported here alone, and
only where the version differs: it costs 90 ms.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from acceptd.errors import LedgerError
from acceptd.record import database, merkle, tables
from acceptd.record.backup import FOLDER, online_backup
from acceptd.record.entry import utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.log import stored_hashes

SCRIPTS: Final = Path(__file__).with_name("migrations")
_TRUTH: Final = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name IN ('entries', 'nodes', 'evidence')",
    "SELECT seq, type, submission, unique_key, leaf, leaf_hash, recorded_at FROM entries ORDER BY seq",
    "SELECT level, idx, hash FROM nodes ORDER BY level, idx",
    "SELECT digest, size, length(data), stored_at FROM evidence ORDER BY digest",
)
"""What no revision may change: definitions and rows. Of evidence the lengths; its bytes have a trigger."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done: the versions, and where the backup lies."""

    before: int
    after: int
    backup: Path


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
    path = state / database.FILE_NAME
    database.check_file(path)
    store = database.Database(path)
    try:
        with store.read() as connection:
            _, version = database.read_version(path, connection)
            stamped = database.is_stamped(connection)
        database.refuse_newer(path, version)
        if version == tables.SCHEMA_VERSION and stamped:
            return None
        with store.write() as connection:
            _, version = database.read_version(path, connection)  # another may have been here first
            if not database.is_stamped(connection):
                database.stamp(connection, version)
            if version >= tables.SCHEMA_VERSION:
                return None
            made = _migrated(state, connection, version, clock(), scripts)
            failpoint("record.migrate.before-commit")
        failpoint("record.migrate.after-commit")
        return made
    finally:
        store.close()


def _migrated(state: Path, connection: Connection, version: int, at: str, scripts: Path) -> Migrated:
    before = _truth(connection)
    if before.root != merkle.frontier_at(before.size, stored_hashes(connection)).root():
        raise LedgerError("the tree is not that of the entries; nothing was migrated: run `acceptd ledger verify`")
    name = _free_name(state / FOLDER, f"ledger-v{version}-{at.replace('-', '').replace(':', '')}")
    # On a connection of its own: it sees what is committed, and under our lock nobody commits.
    backup = online_backup(state / database.FILE_NAME, state / FOLDER, name)
    failpoint("record.migrate.backed-up")
    _run(connection, scripts)
    if _truth(connection) != before:
        raise LedgerError("a migration changed entries, tree or evidence: it was rolled back")
    _, after = database.read_version(state / database.FILE_NAME, connection)
    if after != tables.SCHEMA_VERSION:
        raise LedgerError(f"the migrations end at version {after}, not {tables.SCHEMA_VERSION}: rolled back")
    return Migrated(version, after, backup.path)


def _free_name(folder: Path, stem: str) -> str:
    """Return a name that is not taken: a migration that failed leaves a backup, perhaps of this second."""
    names = (f"{stem}{number or ''}.sqlite3" for number in range(1000))
    return next(name for name in names if not os.path.lexists(folder / name))


def _run(connection: Connection, scripts: Path) -> None:
    """Run the revisions that are due, in the transaction of ``connection``."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    try:
        command.upgrade(config, tables.revision_of(tables.SCHEMA_VERSION))
    except CommandError as error:
        raise LedgerError(f"the migrations cannot be run: {error}") from error


def _truth(connection: Connection) -> _Truth:
    """Read all that must stay as it is, in constant memory: size and root over the leaves, digest of every row."""
    digest, frontier = hashlib.sha256(), merkle.Frontier()
    raw = connection.connection.driver_connection
    assert raw is not None
    for query in _TRUTH:
        for row in raw.execute(query):
            for value in row:
                data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")
                digest.update(b"%s %d:" % (type(value).__name__.encode(), len(data)) + data)
            if "FROM entries" in query:
                frontier, _ = frontier.append(merkle.leaf_hash(row[4] if isinstance(row[4], bytes) else b""))
    return _Truth(frontier.size, frontier.root(), digest.hexdigest())
