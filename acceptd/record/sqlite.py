"""The ledger's database as one file: creation, pragmas, transactions, and errors in our own words.

WAL; a durable write commits with ``synchronous=FULL`` (1.0 ms), one that only has to survive a killed
process, not a power cut, with ``NORMAL`` (0.02 ms). Writers queue on a lock inside the process and on
SQLite's busy timeout between processes. Each thread works on a connection of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from acceptd.errors import DuplicateEntryError, LedgerError, LedgerStorageError, StateError
from acceptd.intake.files import fsync_dir
from acceptd.record import reserve, tables
from acceptd.record.database import Database, about_rows, stamp_of

_BEGIN: Final = "acceptd_begin"
_SYNCHRONOUS: Final = "acceptd_synchronous"
_STORAGE: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Kinds of errors that are the machine's. What is damaged (SQLITE_CORRUPT, SQLITE_NOTADB) is none of them."""
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "make room on that disk",
    sqlite3.SQLITE_READONLY: "let it be written: its mount, its owner, its mode",
    sqlite3.SQLITE_CANTOPEN: "see to the file and its directory, and to how many files may be open",
    sqlite3.SQLITE_NOMEM: "give this process more memory",
}
"""What whoever runs acceptd can do about it, in the same line."""


class SqliteDatabase(Database):
    """Connections to one database file. Safe from threads; a forked child gets connections of its own."""

    def __init__(self, path: Path, *, busy_seconds: float = 60.0, read_only: bool = False) -> None:
        super().__init__(str(path))
        self.path = path
        self._busy_seconds = busy_seconds
        self._engine = _engine(path, busy_seconds, read_only=read_only)
        self._read_only = read_only
        self._writer = threading.Lock()
        self._here = threading.local()
        self._pid = os.getpid()
        self._closed = False

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection in a read transaction: one snapshot from beginning to end."""
        self._enter()
        with translated(self.path), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(
        self,
        *,
        durable: bool = True,
        stands: Callable[[Connection], bool | None] = lambda _connection: None,  # noqa: ARG002 - no answer is lost
    ) -> Iterator[Connection]:
        """Give a connection in BEGIN IMMEDIATE; commit at the end, roll back on any exception.

        After an input or output error of the disk every further write is refused: pages whose synchronisation
        failed count as clean to the kernel, so that a later fsync that succeeds says nothing about them
        (fsync(2), NOTES). A full disk is no such error.
        """
        self._enter()
        if self._read_only:
            raise LedgerError(f"{self.path}: opened for reading alone")
        if self.failed:
            raise LedgerStorageError(f"{self.path}: nothing more is written: {self.failed}")
        if getattr(self._here, "writing", False):
            raise LedgerError("a write transaction inside another one of the same thread")
        if durable:
            reserve.give_way(self.path.parent)
        with self._writer, translated(self.path):
            self._here.writing = True
            try:
                options = {_BEGIN: "BEGIN IMMEDIATE", _SYNCHRONOUS: "FULL" if durable else "NORMAL"}
                with self._engine.connect().execution_options(**options) as connection, connection.begin():
                    yield connection
            except DBAPIError as error:
                if _kind(error.orig) == sqlite3.SQLITE_READONLY:
                    # SQLite opens for reading what it could not open for writing (too many open files, a disk
                    # error), and says so at the first write only: none of these connections is used again.
                    self._engine.dispose()
                self._failed_by(error.orig)
                raise
            finally:
                self._here.writing = False

    def there(self) -> bool:
        """Say whether there is a file."""
        return self.path.exists()

    def settle(self) -> None:
        """Move the write-ahead log into the database, durably: what an earlier process failed to synchronise too.

        That process is gone, and what it could not write with it; what stands is read, and written anew.
        """
        self._enter()
        with translated(self.path), contextlib.closing(self._engine.raw_connection()) as connection:
            # A driver's own connection: a checkpoint runs outside of any transaction.
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                self._failed_by(error)
                raise

    def size(self) -> int:
        """Return the bytes of the database and of its write-ahead log."""
        return sum(one.stat().st_size for one in (self.path, Path(f"{self.path}-wal")) if one.exists())

    def _failed_by(self, error: object) -> None:
        if _kind(error) == sqlite3.SQLITE_IOERR and not self.failed:
            self.failed = f"the disk refused a write ({error}); see to the disk, then start acceptd anew"
            self.on_failed(f"{self.path}: {self.failed}")

    def close(self) -> None:
        """Close all idle connections. Calling anything afterwards raises LedgerError; closing twice is fine."""
        self._closed = True
        self._engine.dispose(close=self._pid == os.getpid())

    def _enter(self) -> None:
        if self._closed:
            raise LedgerError(f"{self.path}: the ledger is closed")
        if self._pid != os.getpid():
            # SQLite connections must not be carried across a fork (sqlite.org/howtocorrupt, 2.6), nor
            # closed there; the lock may have been held by a thread that the child does not have.
            self._engine.dispose(close=False)
            self._writer = threading.Lock()
            self._here = threading.local()
            self._pid = os.getpid()


def create_database(path: Path, about: dict[str, str], first_entry: dict[str, Any]) -> bool:
    """Create the database with all tables and triggers; return False if it exists already.

    It is built under a temporary name and linked into place, so nobody ever opens half of one and of
    two creators one wins. ``about`` goes into ``meta`` beside the schema version, ``first_entry`` into
    ``entries``: a log is never empty.
    """
    if os.path.lexists(path):
        return False
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}")
    try:
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        engine = _engine(temporary, 5.0)
        try:
            with translated(path), engine.begin() as connection:
                tables.metadata.create_all(connection, checkfirst=False)
                for trigger in tables.TRIGGERS:
                    connection.exec_driver_sql(trigger)
                connection.execute(insert(tables.meta), about_rows(about))
                connection.execute(insert(tables.alembic_version), stamp_of(tables.SCHEMA_VERSION))
                connection.execute(insert(tables.entries), first_entry)
        finally:
            engine.dispose()
        # The last connection's close has moved the whole WAL into the file; make it durable before it is seen.
        fd = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True
    except OSError as error:
        raise StateError(f"{path}: cannot be created: {error.strerror}") from error
    finally:
        for name in (temporary, Path(f"{temporary}-wal"), Path(f"{temporary}-shm")):
            name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            fsync_dir(path.parent)


def check_file(path: Path) -> None:
    """Refuse, with StateError, a database that is missing, no regular file, or writable by group or others."""
    try:
        status = path.lstat()
    except FileNotFoundError as error:
        raise StateError(f"{path}: there is no ledger", remedy="run `acceptd init`") from error
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"{path}: not a regular file")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise StateError(f"{path}: writable by group or others", remedy=f"chmod 600 {path}")


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLAlchemy and sqlite3 raise into DuplicateEntryError or LedgerError, in one line."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig)
        if "unique_key" in said:
            raise DuplicateEntryError(f"{path}: the ledger has this entry already") from error
        if "locked" in said or "busy" in said:
            raise LedgerStorageError(f"{path}: another process kept it busy for too long") from error
        if _kind(error.orig) in _STORAGE:
            raise LedgerStorageError(f"{path}: {said}{_remedy(error.orig)}") from error
        raise LedgerError(f"{path}: {said}{_remedy(error.orig)}") from error
    except UnicodeEncodeError as error:  # a lone surrogate, as in a file name that is no UTF-8
        raise LedgerError(f"{path}: text that is not valid Unicode") from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        kind = LedgerStorageError if _kind(error) in _STORAGE else LedgerError
        raise kind(f"{path}: {error}{_remedy(error)}") from error


def _remedy(error: object) -> str:
    return next((f"; {words}" for kind, words in _REMEDIES.items() if _kind(error) == kind), "")


def _kind(error: object) -> int:
    """Return the primary result code of an error of sqlite3: the low byte; above it is which call it was."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _engine(path: Path, busy_seconds: float, *, read_only: bool = False) -> Engine:
    url = URL.create("sqlite+pysqlite", database=str(path))
    if read_only:
        # SQLite itself opens the file for reading (sqlite.org/uri.html); `query_only` refuses what is left.
        url = URL.create("sqlite+pysqlite", database=path.absolute().as_uri(), query={"mode": "ro", "uri": "true"})
    engine = create_engine(
        url,
        # isolation_level None: sqlite3 begins nothing by itself, we say BEGIN IMMEDIATE where it is meant.
        connect_args={"timeout": busy_seconds, "isolation_level": None, "check_same_thread": False},
        # A connection is used by one thread at a time; unbounded, so that no thread waits for another's.
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=-1,
    )
    if read_only:
        event.listen(engine, "connect", _on_connect_reading)
    else:
        event.listen(engine, "connect", functools.partial(_on_connect, path.parent))
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(state: Path, raw: Any, record: Any) -> None:
    cursor = raw.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
        try:
            cursor.execute(f"PRAGMA {pragma}")
        except sqlite3.OperationalError:
            # The first to open the database makes the index of its log (32 KiB), and needs room to read at all.
            if not reserve.give_way(state):
                raise
            cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    record.info[_SYNCHRONOUS] = "FULL"


def _on_connect_reading(raw: Any, record: Any) -> None:
    cursor = raw.cursor()
    for pragma in ("query_only=ON", "trusted_schema=OFF"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    record.info[_SYNCHRONOUS] = "FULL"


def _on_begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    wanted = options.get(_SYNCHRONOUS)
    if wanted is not None and connection.info[_SYNCHRONOUS] != wanted:
        connection.exec_driver_sql(f"PRAGMA synchronous={wanted}")  # outside any transaction, as it must be
        connection.info[_SYNCHRONOUS] = wanted
    connection.exec_driver_sql(options.get(_BEGIN, "BEGIN"))
