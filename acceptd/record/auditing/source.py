"""The audit's own connection to the database: plain sqlite3, read alone, text as it lies there."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BUSY_SECONDS: Final = 60.0


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection that begins nothing by itself. Text that is no UTF-8 is read with surrogates.

    A million rows through SQLAlchemy cost more than all the hashing of them.
    """
    raw = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    raw.text_factory = _text
    raw.execute("PRAGMA trusted_schema=OFF")
    return raw


@contextlib.contextmanager
def snapshot(raw: sqlite3.Connection) -> Iterator[None]:
    """One state of the database from beginning to end."""
    raw.execute("BEGIN")
    try:
        yield
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")


def count(raw: sqlite3.Connection, query: str) -> int:
    """Return the one number that ``query`` asks for, 0 where it is null."""
    (found,) = raw.execute(query).fetchone()
    return found if isinstance(found, int) else 0


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
