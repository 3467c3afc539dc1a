"""What PostgreSQL and its driver raise, in one line of ours: without the connection string, by kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from acceptd.errors import DuplicateEntryError, LedgerError, LedgerRightsError, LedgerStorageError

_MACHINE: Final = ("08", "25006", "25P03", "40", "53", "55P03", "57", "58")
"""SQLSTATE beginnings that say nothing about what is in the ledger: connection, standby, timeouts, deadlock,
resources, shutdown, system (PostgreSQL, appendix A). XX001 and XX002, damage, are none of them."""
_WAITED: Final = frozenset({"55P03", "57014"})
_DENIED: Final = "42501"
_RIGHTS: Final = 'see to the login that `[record] url` names (docs/postgresql.md, "Who may do what")'
UNIQUE: Final = "entries_unique_key"


def driver_error(error: BaseException | None) -> psycopg.Error | None:
    """Return the driver's error that SQLAlchemy wrapped, or the error itself where it is one."""
    inner = error.orig if isinstance(error, DBAPIError) else error
    return inner if isinstance(inner, psycopg.Error) else None


def is_lost(error: BaseException) -> bool:
    """Say whether the connection is gone, or the server is going: a new connection may do better."""
    found = driver_error(error)
    if found is None:
        return False
    state = found.sqlstate
    return (isinstance(found, psycopg.OperationalError) and state is None) or (state or "")[:3] in {"57P", "080"}


def words(error: psycopg.Error) -> str:
    """Return what the server said, or why it was not reached, in one line. The driver's own text names the host,
    the port and the user of a connection that failed: only its last words are kept.
    """
    said = error.diag.message_primary
    if not said:
        said = str(error).partition("\n")[0]
        said = said.rpartition(" failed: ")[2].removeprefix("FATAL:").strip()
    return " ".join(said.split())[:300] or type(error).__name__


def as_ledger_error(place: str, error: psycopg.Error) -> LedgerError:
    """Return the error of ours that says the same."""
    state = error.sqlstate or ""
    if state == "23505" and error.diag.constraint_name == UNIQUE:
        return DuplicateEntryError(f"{place}: the ledger has this entry already")
    if state in _WAITED:
        return LedgerStorageError(f"{place}: another process kept it busy for too long")
    if state == _DENIED:
        return LedgerRightsError(f"{place}: {words(error)}; {_RIGHTS}")
    lost = isinstance(error, psycopg.OperationalError) and not state
    if lost and "no password supplied" in words(error):
        return LedgerStorageError(
            f"{place}: {words(error)}; put it into the file that PGPASSFILE names, of mode 0600"
        )
    if lost:
        return LedgerStorageError(f"{place}: {words(error)}; see to the server that `[record] url` names")
    if state.startswith(_MACHINE):
        return LedgerStorageError(f"{place}: {words(error)}")
    return LedgerError(f"{place}: {words(error)}")


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn what SQLAlchemy and psycopg raise into DuplicateEntryError or LedgerError, in one line."""
    try:
        yield
    except (SQLAlchemyError, psycopg.Error) as error:
        found = driver_error(error)
        if found is None:
            raise LedgerError(f"{place}: {' '.join(str(error).split())[:300]}") from error
        # The driver's error stays the cause of a traceback in no log: it may name host and user.
        raise as_ledger_error(place, found) from None
    except UnicodeEncodeError as error:  # a lone surrogate, as in a file name that is no UTF-8
        raise LedgerError(f"{place}: text that is not valid Unicode") from error
