"""One promoter of one record: a lock of PostgreSQL that a session holds; it ends with that, however it ends."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Final, Self

import structlog

from acceptd.errors import FleetAwayError, StateError
from acceptd.fleet.connection import STEADY, plain_url
from acceptd.report.escape import line

KEY: Final = (0x61636370, 1)
"""Of the advisory lock: "accp", and the number of the office."""
PATIENCE: Final = 15.0
"""Seconds that a start waits: the session of a promoter that was just killed may stand a little longer."""
log = structlog.get_logger("acceptd.fleet")


class Alone:
    """Holds the lock while it is entered. Raises StateError where another promoter works."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self._url, self._patience = plain_url(url), patience
        self._connection: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Take the lock."""
        import psycopg

        try:
            self._connection = psycopg.connect(self._url, autocommit=True, **STEADY)
            due = time.monotonic() + self._patience
            while not self._try():
                if time.monotonic() >= due:
                    raise StateError(
                        f"another promoter works on this record{self._who()}",
                        remedy="stop it first: `acceptd fleet status` names it; there is one promoter at a time "
                        "(a login that is no promoter's is in strange hands: take it away)",
                    )
                time.sleep(0.2)
        except psycopg.Error as error:
            self._close()
            raise _away(error) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self._close()

    def held(self) -> bool:
        """Whether the lock is still ours; taken again where only the connection was lost and nobody came first.

        Raises FleetAwayError where nobody can be asked: then nothing is decided either.
        """
        import psycopg

        with self._lock:
            try:
                self._connection.execute("SELECT 1")
            except psycopg.Error:
                log.warning("the session of the one promoter was lost")
                self._close()
            else:
                return True
            try:
                self._connection = psycopg.connect(self._url, autocommit=True, **STEADY)
                return self._try()
            except psycopg.Error as error:
                raise _away(error) from error

    def _try(self) -> bool:
        row = self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", KEY).fetchone()
        return bool(row[0])

    def _who(self) -> str:
        row = self._connection.execute(
            "SELECT host(a.client_addr), a.backend_start, a.usename "
            "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
            "WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.granted "
            "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            KEY,
        ).fetchone()
        if row is None:
            return ""
        # Any login of the database can hold the lock, and PostgreSQL hides of another's session all but its name.
        login = f": login {line(str(row[2]), 64)!r}"
        if not row[1]:
            return login
        where = f"from {row[0]}" if row[0] else "on the database's own host"
        return f"{login} {where}, since {row[1]:%Y-%m-%dT%H:%M:%SZ}"

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _away(error: Exception) -> FleetAwayError:
    return FleetAwayError(f"the record cannot be reached: {' '.join(str(error).split())[:300]}")
