"""Databases that are opened often, as crash tests do: what SQLAlchemy has compiled for one serves for the next.

Compiling the statements of a fresh engine costs twice what a promotion does. A running daemon has one engine, and
pays once; a test that restarts it for each kill would measure little else. A forked child inherits what is warm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from acceptd.record import sqlite


@contextlib.contextmanager
def warm_database() -> Iterator[None]:
    """Let every engine that this process and its children make share one dialect and what was compiled for it."""
    given = sqlite._engine
    first: list[Engine] = []

    def engine(path: Path, busy_seconds: float, *, read_only: bool = False) -> Engine:
        made = given(path, busy_seconds, read_only=read_only)
        first.append(made)
        shared: Any = first[0]
        made.dialect = shared.dialect
        made.pool._dialect = shared.dialect
        made._compiled_cache = shared._compiled_cache
        del first[1:]
        return made

    sqlite._engine = engine
    try:
        yield
    finally:
        sqlite._engine = given
