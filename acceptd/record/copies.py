"""A whole ledger from one place to another, whichever engines: a backup, a restore, a move.

Whatever is written is read again before it counts: entries, tree and evidence row by row, the rest by count.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, create_engine, insert

from acceptd.errors import LedgerError, StateError
from acceptd.intake.files import fsync_dir, temporary_name
from acceptd.record import database, merkle, tables
from acceptd.record.backup import FOLDER, online_backup
from acceptd.record.failpoint import failpoint
from acceptd.record.leases import given_up
from acceptd.record.log import stored_hashes
from acceptd.record.place import Place, require_driver
from acceptd.record.sqlite import check_file
from acceptd.record.truth import Truth, truth

Told = Callable[[str], None]
_TABLES: Final = (*tables.metadata.sorted_tables, given_up)
_BATCH: Final = 256


def copy_to_file(place: Place, folder: Path, name: str, told: Told = lambda _text: None) -> Path:
    """Make ``folder/name`` (0600), a file of SQLite with the whole record as it is now; durable and verified.

    Raises StateError where it is there already or the storage fails, LedgerError where the record is damaged.
    """
    if not place.url:
        return online_backup(place.path, folder, name).path
    require_driver()
    from acceptd.record.postgres.snapshot import batches, reading, write_file

    folder.mkdir(mode=0o700, exist_ok=True)
    aside = folder / temporary_name()

    def refuse(where: str, words: str) -> None:
        raise LedgerError(f"{place}: {where} {words}")

    try:
        with reading(place) as connection:
            counts = write_file(lambda table: batches(connection, table), aside, _TABLES, refuse, told)
            told("comparing")
            with _opened_file(aside) as copy, _opened_snapshot(connection) as given:
                _same(truth(given), truth(copy), _counted(copy), counts)
        _synchronise(aside)
        try:
            os.link(aside, folder / name)
        except FileExistsError as error:
            raise StateError(f"{folder / name} is there already", remedy="move it away") from error
        fsync_dir(folder)
    finally:
        for left in (aside, Path(f"{aside}-journal")):
            left.unlink(missing_ok=True)
    return folder / name


def copy_to_postgres(file: Path, url: str, told: Told = lambda _text: None) -> None:
    """Write the record in ``file``, which nobody changes meanwhile, into an empty database, in one commit.

    Verified before. Raises StateError where the database is not empty, LedgerError where what was written is not
    what was read.
    """
    require_driver()
    from acceptd.record.postgres.fill import fill

    check_file(file)
    with _opened_file(file) as given:
        due = truth(given)

        def verify(connection: Connection, counts: dict[str, int]) -> None:
            told("comparing")
            _same(due, truth(connection), _counted(connection), counts)

        fill(url, lambda table: _rows(given, table), verify, told)


def move(place: Place, to: Place, told: Told = lambda _text: None) -> Truth:
    """Bring the record from ``place`` to the empty ``to``; the one that was left is marked, and refuses to go on.

    The source's lock is held meanwhile: nobody appends. Done again after a kill it ends what it began. Raises
    StateError where ``to`` holds another ledger, LedgerError where the copy is not the same; then nothing moved.
    """
    if str(place) == str(to) and place.url == to.url:
        raise StateError(
            f"{place}: the record is there already", remedy="name another place: --to URL, or --to file"
        )
    store = place.open()
    try:
        rows = database.read_meta(store)
        database.refuse_moved(store.place, rows)
        with store.write() as held:
            whole = truth(held)
            if whole.root != merkle.frontier_at(whole.size, stored_hashes(held)).root():
                raise LedgerError(
                    "the tree is not that of the entries; nothing moved: run `acceptd ledger verify`"
                )
            if not _is_there(to, rows.get("origin"), whole):
                if to.url:
                    _through_a_file(place, to, told)
                else:
                    copy_to_file(place, to.path.parent, to.path.name, told)
            failpoint("record.move.before-mark")
            held.execute(insert(tables.meta), {"key": database.MOVED, "value": str(to)})
        return whole
    finally:
        store.close()


def is_empty(place: Place) -> bool:
    """Say whether a place holds no ledger."""
    if not place.url:
        return not os.path.lexists(place.path)
    store = place.open()
    try:
        return not store.there()
    finally:
        store.close()


def _is_there(to: Place, origin: str | None, whole: Truth) -> bool:
    """Say whether a move that was killed has written all of it; False where nothing is there."""
    if is_empty(to):
        return False
    store = to.open()
    try:
        rows = database.read_meta(store)
        if database.MOVED in rows:
            raise StateError(f"{to}: holds the ledger as it was before an earlier move", remedy="move that away")
        with store.read() as connection:
            if rows.get("origin") == origin and truth(connection) == whole:
                return True
    finally:
        store.close()
    raise StateError(f"{to}: holds a ledger already", remedy="name an empty database, or move that file away")


def _through_a_file(place: Place, to: Place, told: Told) -> None:
    aside = place.state / FOLDER / f"moving{temporary_name().removeprefix('.tmp')}.sqlite3"
    try:
        made = copy_to_file(place, aside.parent, aside.name, told)
        failpoint("record.move.written")
        copy_to_postgres(made, to.url, told)
    finally:
        for left in ("", "-wal", "-shm"):
            Path(f"{aside}{left}").unlink(missing_ok=True)


@contextlib.contextmanager
def _opened_file(file: Path) -> Iterator[Connection]:
    # immutable: no lock and no -wal beside it; nobody else knows the file, or changes it.
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)

    engine = create_engine("sqlite+pysqlite://", creator=connect)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


@contextlib.contextmanager
def _opened_snapshot(raw: Any) -> Iterator[Connection]:
    """The driver's connection, in its snapshot, as one of SQLAlchemy's; nothing is begun or ended."""
    from acceptd.record.postgres.engine import joined

    with joined(raw) as connection:
        yield connection


def _rows(connection: Connection, table: Table) -> Iterator[list[list[Any]]]:
    """Yield the rows of a table by its key, some at a time; none where an older file has no such table."""
    raw: Any = connection.connection.driver_connection
    there = raw.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table.name,)).fetchone()
    if there is None:
        return
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key)
    cursor = raw.execute(f"SELECT {names} FROM {table.name} ORDER BY {keys}")  # noqa: S608 - names of ours
    while rows := cursor.fetchmany(_BATCH):
        yield [list(row) for row in rows]


def _counted(connection: Connection) -> dict[str, int]:
    found = {}
    for table in _TABLES:
        query = f"SELECT count(*) FROM {table.name}"  # noqa: S608 - names of ours
        found[table.name] = int(connection.exec_driver_sql(query).scalar() or 0)
    return found


def _same(given: Truth, copy: Truth, counted: dict[str, int], counts: dict[str, int]) -> None:
    if given != copy:
        raise LedgerError("what was written is not what was read: run `acceptd ledger verify` on the original")
    if counted != counts:
        name = next(one for one in counts if counts[one] != counted.get(one))
        raise LedgerError(f"the copy has {counted.get(name)} rows in {name}, not {counts[name]}")


def _synchronise(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
