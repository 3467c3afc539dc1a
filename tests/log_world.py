"""Entries as the tests of the ledger append them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from acceptd.record.database import FILE_NAME
from acceptd.record.log import Ledger

AT = "2026-11-29T15:17:00Z"


def as_version_1(state: Path) -> None:
    """Make a new ledger one of the first acceptd: no revision, none of what later versions added."""
    with contextlib.closing(sqlite3.connect(state / FILE_NAME, isolation_level=None)) as raw:
        for table in ("alembic_version", "fleet_evidence", "fleet_nodes"):
            raw.execute(f"DROP TABLE {table}")
        raw.execute("DROP INDEX submissions_node")
        raw.execute("ALTER TABLE submissions DROP COLUMN node")
        raw.execute("DELETE FROM meta WHERE key = 'readable_from'")
        raw.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")


def opened(state: Path, **options: Any) -> Ledger:
    return Ledger.open(state, clock=lambda: AT, **options)
