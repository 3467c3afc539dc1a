"""Connections to the ledger's database on PostgreSQL: snapshots, serialised writes, and a server that went away.

A read is one REPEATABLE READ snapshot, read only. A write takes one advisory lock for its transaction, so that the
database itself lets one append at a time, from whichever machine; it then reads what is committed (READ COMMITTED:
a snapshot from before the lock would not see what its last holder appended). Connections that broke are made anew
before a transaction begins; one that breaks during the commit is asked about: it stands, or it does not.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from acceptd.errors import LedgerError, LedgerLostError, LedgerStorageError, StateError
from acceptd.record.database import Database
from acceptd.record.postgres.errors import driver_error, is_lost, translated, words

LOCK: Final = 0x61636365707464
"""The advisory lock of every write ("acceptd" in ASCII). Locks are the database's own: one record in each."""
IDLE_SECONDS: Final = 45
"""A write transaction whose process says nothing for so long is ended by the server: before others give up."""
_BEGIN: Final = "acceptd_begin"
_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_LOCKED: Final = f"SELECT pg_advisory_xact_lock({LOCK})"
_RELAXED: Final = "SET LOCAL synchronous_commit = off"
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)


class PostgresDatabase(Database):
    """Connections to one database. Safe from threads; a forked child gets connections of its own."""

    def __init__(self, url: str, place: str, *, busy_seconds: float = 60.0, read_only: bool = False) -> None:
        super().__init__(place)
        self._busy_seconds = busy_seconds
        self._read_only = read_only
        self._engine = _engine(url, busy_seconds, read_only=read_only)
        self._writer = threading.Lock()
        self._here = threading.local()
        self._pid = os.getpid()
        self._closed = False
        self._reached = False
        """Whether it ever answered: only then a server that does not answer is waited for."""

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection in a read-only transaction: one snapshot from beginning to end."""
        self._enter()
        with translated(self.place), self._begun(_READ) as connection, self._not_lost():
            yield connection

    @contextlib.contextmanager
    def write(
        self, *, durable: bool = True, stands: Callable[[Connection], bool | None] = lambda _connection: None
    ) -> Iterator[Connection]:
        """Give a connection in a transaction that holds the lock; commit at the end, roll back on any exception.

        Not ``durable``: the commit does not wait for the disk (``synchronous_commit`` off), and a crash of the
        server may lose the last of them, whole transactions at a time. Raises LedgerStorageError where the server
        does not answer, the lock is not to be had, or nobody can say what became of a commit without an answer,
        and LedgerLostError where nothing was written.
        """
        self._enter()
        if self._read_only:
            raise LedgerError(f"{self.place}: opened for reading alone")
        if self.failed:
            raise LedgerStorageError(f"{self.place}: nothing more is written: {self.failed}")
        if getattr(self._here, "writing", False):
            raise LedgerError("a write transaction inside another one of the same thread")
        begin = "; ".join([_WRITE, *([] if durable else [_RELAXED]), _LOCKED])
        with self._writer, translated(self.place):
            self._here.writing = True
            try:
                with self._begun(begin) as connection:
                    with self._not_lost():
                        yield connection
                    self._commit(connection, stands)
            finally:
                self._here.writing = False

    def settle(self) -> None:
        """Have the server flush its log: what an earlier process committed without waiting for the disk, too."""
        self._enter()
        with translated(self.place), self._begun(_WRITE) as connection:
            # A transaction with an id and synchronous_commit on: its commit flushes everything before it.
            connection.exec_driver_sql("SELECT pg_current_xact_id()")
            connection.commit()

    def there(self) -> bool:
        """Say whether the database has the first table of a ledger."""
        with self.read() as connection:
            return connection.exec_driver_sql("SELECT to_regclass('public.meta')").scalar() is not None

    def doubts(self) -> list[str]:
        """Say what the server's settings, or this role's powers, take from the promises."""
        with self.read() as connection:
            settings = {
                name: str(connection.exec_driver_sql(f"SHOW {name}").scalar())
                for name in ("fsync", "full_page_writes", "session_replication_role")
            }
            query = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
            above = connection.exec_driver_sql(query).scalar()
        found = []
        if settings["fsync"] != "on" or settings["full_page_writes"] != "on":
            found.append("fsync or full_page_writes is off: a power cut may lose or damage what was acknowledged")
        if settings["session_replication_role"] != "origin":
            found.append("session_replication_role is not origin: triggers do not hold")
        if above:
            found.append("opened by a superuser: neither rights nor triggers bind one")
        return found

    def require_owner(self) -> None:
        """Raise StateError where this role does not own the tables."""
        query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'public.meta'::regclass"
        with self.read() as connection:
            if not connection.exec_driver_sql(query).scalar():
                raise StateError(
                    f"{self.place}: its tables are another role's, who alone may change them",
                    remedy="run `acceptd ledger migrate` as their owner, then start the nodes",
                )

    def size(self) -> int:
        """Return the bytes of the whole database, what others keep in it included."""
        with self.read() as connection:
            found = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar()
        return int(found or 0)

    def close(self) -> None:
        """Close all idle connections. Calling anything afterwards raises LedgerError; closing twice is fine."""
        self._closed = True
        self._engine.dispose(close=self._pid == os.getpid())

    @contextlib.contextmanager
    def _begun(self, begin: str) -> Iterator[Connection]:
        """Give a connection on which ``begin`` was run; whatever is not committed is rolled back."""
        with self._connected(begin) as connection:
            try:
                yield connection
            finally:
                if connection.in_transaction():
                    with contextlib.suppress(DBAPIError, psycopg.Error):
                        connection.rollback()

    def _connected(self, begin: str) -> Connection:
        """Connect and begin, anew where the connection, or the server, is gone: for as long as a writer waits."""
        deadline = time.monotonic() + (self._busy_seconds if self._reached else 0.0)
        for attempt in range(1 << 30):
            try:
                connection = self._engine.connect().execution_options(**{_BEGIN: begin})
                try:
                    connection.begin()
                except BaseException as error:
                    if is_lost(error):
                        connection.invalidate()
                        self._engine.dispose()  # the others of the pool were the same server's
                    connection.close()
                    raise
                self._reached = True
                return connection
            except (DBAPIError, psycopg.Error) as error:
                # The first failure may be that of a connection that had waited in the pool.
                if not is_lost(error) or (time.monotonic() >= deadline and attempt):
                    raise
                if attempt:
                    time.sleep(_PAUSES[min(attempt, len(_PAUSES)) - 1])
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _not_lost(self) -> Iterator[None]:
        """Tell a connection that was lost before any commit from other errors."""
        try:
            yield
        except (DBAPIError, psycopg.Error) as error:
            found = driver_error(error)
            if found is None or not is_lost(error):
                raise
            raise LedgerLostError(f"{self.place}: {words(found)}") from None

    def _commit(self, connection: Connection, stands: Callable[[Connection], bool | None]) -> None:
        try:
            connection.commit()
        except DBAPIError as error:
            if not is_lost(error):
                raise
            found = self._asked(stands)
            text = f"{self.place}: the connection was lost during a commit"
            if found is None:
                raise LedgerStorageError(f"{text}, and whether it stands is not known") from None
            if not found:
                raise LedgerLostError(f"{text}, which did not happen") from None

    def _asked(self, stands: Callable[[Connection], bool | None]) -> bool | None:
        """Ask what became of a transaction whose commit had no answer.

        Under the lock: that transaction held it, so it has ended one way or the other. By what it wrote: a
        transaction's number may be given anew after a crash of the server, and says nothing then.
        """
        with self._begun(f"{_WRITE}; {_LOCKED}") as connection:
            return stands(connection)

    def _enter(self) -> None:
        if self._closed:
            raise LedgerError(f"{self.place}: the ledger is closed")
        if self._pid != os.getpid():
            # A connection that a parent and a child both speak on is nobody's; its sockets are left to the parent.
            self._engine.dispose(close=False)
            self._writer = threading.Lock()
            self._here = threading.local()
            self._pid = os.getpid()


def connect(
    url: str, *, busy_seconds: float = 60.0, read_only: bool = False, **more: Any
) -> psycopg.Connection[Any]:
    """Return a connection in autocommit, with what every connection of ours has; raise psycopg.Error."""
    settings = {
        "search_path": "public",
        "lock_timeout": f"{round(busy_seconds * 1000)}ms",
        "idle_in_transaction_session_timeout": "0" if read_only else f"{IDLE_SECONDS}s",
        "default_transaction_read_only": "on" if read_only else "off",
        "client_min_messages": "warning",
        "timezone": "UTC",
        # A peer that is gone is noticed by the server too, and its lock given back.
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "60000",
    }
    connection: psycopg.Connection[Any] = psycopg.connect(
        url,
        autocommit=True,
        options=" ".join(f"-c {key}={value}" for key, value in settings.items()),
        fallback_application_name="acceptd",
        client_encoding="UTF8",
        connect_timeout=10,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        tcp_user_timeout=60000,
        **more,
    )
    try:
        # Whatever the server's default is: a durable commit waits for the disk.
        if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
            connection.execute("SET synchronous_commit = on")
    except BaseException:
        connection.close()
        raise
    return connection


def _engine(url: str, busy_seconds: float, *, read_only: bool = False) -> Engine:
    make: Callable[[], Any] = lambda: connect(url, busy_seconds=busy_seconds, read_only=read_only)  # noqa: E731
    engine = create_engine(
        "postgresql+psycopg://",
        creator=make,
        use_native_hstore=False,
        # A connection is used by one thread at a time; unbounded, so that no thread waits for another's.
        poolclass=QueuePool,
        pool_size=4,
        max_overflow=-1,
    )
    event.listen(engine, "begin", _on_begin)
    return engine


@contextlib.contextmanager
def engine_over(raw: psycopg.Connection[Any]) -> Iterator[Connection]:
    """Give a connection of SQLAlchemy over one of the driver's, in a transaction committed at the end."""
    engine = _over(raw)
    event.listen(engine, "begin", _on_begin)
    with engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def joined(raw: psycopg.Connection[Any]) -> Iterator[Connection]:
    """Give a connection of SQLAlchemy over one of the driver's, in the transaction that is begun and stays so."""
    engine = _over(raw)
    dialect: Any = engine.dialect
    dialect.do_begin = dialect.do_commit = dialect.do_rollback = lambda _connection: None
    with engine.connect() as connection:
        yield connection


def _over(raw: psycopg.Connection[Any]) -> Engine:
    return create_engine(
        "postgresql+psycopg://", creator=lambda: raw, use_native_hstore=False, poolclass=StaticPool
    )


def _on_begin(connection: Connection) -> None:
    """Begin as the caller wants it, in one round trip: the driver is in autocommit and begins nothing itself."""
    raw = connection.connection.driver_connection
    assert raw is not None
    try:
        raw.execute(connection.get_execution_options().get(_BEGIN, "BEGIN"))
    except BaseException:
        if not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                raw.rollback()
        raise
