"""Brings an older database to this version's schema: backup, revisions, comparison, one commit.

All of it happens under the write lock, so that the backup is exactly what was migrated and nobody writes in
between; a kill anywhere leaves the database as it was, or as it is to be. On PostgreSQL no backup is made here:
its server has ways of its own, and data definition is part of the transaction there as it is in SQLite. Alembic is
imported here alone, and only where the version differs: it costs 90 ms.
"""

from __future__ import annotations

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
from acceptd.record.place import Place
from acceptd.record.truth import truth

SCRIPTS: Final = Path(__file__).with_name("migrations")


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done: the versions, and where the backup lies; of PostgreSQL there is none."""

    before: int
    after: int
    backup: Path | None


def migrate(state: Path, *, clock: Callable[[], str] = utc_now, scripts: Path = SCRIPTS) -> Migrated | None:
    """Bring the database of ``state`` to this version's schema; return None where it is there already.

    A database from before alembic is stamped with its revision. The caller keeps other daemons out (the daemon's
    lock); other writers wait, or are told that it is busy. Raises StateError for no ledger, a newer one, no room
    for the backup, or who does not own the tables, and LedgerError where the log is damaged or a revision touches
    it; then nothing changed.
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
        store.require_owner()
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
    before = truth(connection, defined=True)
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
    if truth(connection, defined=True) != before:
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
