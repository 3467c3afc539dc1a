"""All of a ledger that nobody may change, as one digest: the same for the same ledger on either engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from acceptd.record import merkle

_DEFINED: Final = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name IN ('entries', 'nodes', 'evidence')",
)
_TRUTH: Final = (
    "SELECT seq, type, submission, unique_key, leaf, leaf_hash, recorded_at FROM entries ORDER BY seq",
    "SELECT level, idx, hash FROM nodes ORDER BY level, idx",
    "SELECT digest, size, length(data), stored_at FROM evidence ORDER BY digest",
)
"""Of evidence the lengths; its bytes have a trigger, and a digest."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Size and root over the leaves' bytes, and a digest of every row."""

    size: int
    root: bytes
    digest: str


def truth(connection: Connection, *, defined: bool = False) -> Truth:
    """Read all that must stay as it is, in constant memory; with ``defined`` the tables' definitions too."""
    digest, frontier = hashlib.sha256(), merkle.Frontier()
    for query in (*(_definitions(connection) if defined else ()), *_TRUTH):
        for row in _rows(connection, query):
            for value in row:
                data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")
                digest.update(b"%s %d:" % (type(value).__name__.encode(), len(data)) + data)
            if "FROM entries" in query:
                frontier, _ = frontier.append(merkle.leaf_hash(row[4] if isinstance(row[4], bytes) else b""))
    return Truth(frontier.size, frontier.root(), digest.hexdigest())


def _rows(connection: Connection, query: str) -> Iterable[Any]:
    """Run a query in constant memory: SQLite's driver is faster alone, PostgreSQL's streams by a cursor."""
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.driver_connection
        return raw.execute(query)  # type: ignore[no-any-return]
    return connection.exec_driver_sql(query, execution_options={"stream_results": True, "max_row_buffer": 1000})


def _definitions(connection: Connection) -> Sequence[str]:
    if connection.dialect.name == "sqlite":
        return _DEFINED
    from acceptd.record.postgres.structure import DEFINED

    return DEFINED
