"""A copy of the database while others use it: SQLite's online backup, made durable and verified before it counts.

The copy is one snapshot, whatever is written meanwhile (sqlite.org/backup.html). It has no name until it is
whole: a kill leaves a temporary file, which the next backup removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.errors import LedgerError, StateError
from acceptd.intake.files import create_exclusive, fsync_dir, opened, remove_temporaries, temporary_name
from acceptd.record.failpoint import failpoint
from acceptd.record.reserve import free_bytes

FOLDER: Final = "backups"
"""Below the state directory, 0700; made when it is first needed."""
_MARGIN: Final = 16 << 20
"""Bytes that stay free beside a backup."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A verified copy: its file, size in bytes, and the rows of each table."""

    path: Path
    size: int
    rows: dict[str, int]


def online_backup(database: Path, folder: Path, name: str) -> Backup:
    """Copy ``database`` into ``folder`` as ``name`` (0600); return when the copy is durable and verified.

    ``folder`` is made (0700) where it is missing. Verified: SQLite's integrity check, and as many rows in each
    table as the snapshot had. Raises StateError where the copy has no room, its name is taken, or the storage
    fails, and LedgerError where the database, or the copy, is damaged.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with opened(folder) as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # one at a time: what else lies here under a temporary name is dead
            remove_temporaries(folder)
            _require_room(database, folder)
            rows = _made(database, folder, name)
        fsync_dir(folder.parent)
        return Backup(folder / name, (folder / name).stat().st_size, rows)
    except sqlite3.Error as error:
        raise LedgerError(f"{database}: cannot be backed up: {error}") from error
    except OSError as error:
        raise StateError(
            f"{folder / name}: the backup cannot be written: {error.strerror}",
            remedy="make room, or look at the disk",
        ) from error


def _made(database: Path, folder: Path, name: str) -> dict[str, int]:
    temporary = folder / temporary_name()
    try:
        os.close(create_exclusive(folder, temporary.name))
        rows = _copy(database, temporary)
        _verify(temporary, rows)
        _synchronise(temporary)
        failpoint("record.backup.copied")
        os.link(temporary, folder / name)  # a name that is taken is never replaced
    finally:
        for left in (temporary, Path(f"{temporary}-journal"), Path(f"{temporary}-wal"), Path(f"{temporary}-shm")):
            left.unlink(missing_ok=True)
    fsync_dir(folder)
    return rows


def _require_room(database: Path, folder: Path) -> None:
    needed = _MARGIN
    for part in (database, Path(f"{database}-wal")):
        with contextlib.suppress(FileNotFoundError):
            needed += part.stat().st_size
    free = free_bytes(folder)
    if free < needed:
        raise StateError(
            f"{folder}: a backup of {database.name} needs {needed} bytes, {free} are free",
            remedy="make room, or run `acceptd gc`",
        )


def _copy(database: Path, target: Path) -> dict[str, int]:
    """Copy one snapshot; return how many rows each of its tables has."""
    # mode=rw: a file that is missing is an error, not an empty database.
    with (
        contextlib.closing(
            sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as source,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        source.execute("PRAGMA busy_timeout = 60000")
        source.execute("BEGIN")
        rows = _rows(source)  # the first read fixes the snapshot, which the copy then is of
        copy.execute("PRAGMA synchronous = OFF")  # synchronised as a whole, once it is verified
        source.backup(copy)
        source.execute("ROLLBACK")
    return rows


def _verify(copy: Path, due: dict[str, int]) -> None:
    # immutable: no lock and no -wal beside it; nobody else knows the file yet.
    with contextlib.closing(sqlite3.connect(f"{copy.as_uri()}?mode=ro&immutable=1", uri=True)) as whole:
        found = [str(row[0]) for row in whole.execute("PRAGMA integrity_check(5)")]
        if found != ["ok"]:
            raise LedgerError(f"the copy of the database is damaged: {' '.join(found[0].split()):.200}")
        if (rows := _rows(whole)) != due:
            name = next(one for one in sorted(due | rows) if due.get(one) != rows.get(one))
            raise LedgerError(f"the copy of the database has {rows.get(name)} rows in {name}, not {due.get(name)}")


def _rows(connection: sqlite3.Connection) -> dict[str, int]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    names = sorted(str(row[0]) for row in connection.execute(query))
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    return {name: int(connection.execute(f"SELECT count(*) FROM {quoted[name]}").fetchone()[0]) for name in names}  # noqa: S608 - an identifier, quoted


def _synchronise(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
