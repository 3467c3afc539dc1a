"""Makes a fleet's database ready: the record's tables, who may do what there, the task queue's. Idempotent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.errors import UsageError
from acceptd.fleet.nodes import nodes_of
from acceptd.record import database, tables
from acceptd.record.log import Ledger
from acceptd.record.migrate import migrate
from acceptd.record.place import Place, require_driver

_LOCK: Final = 0x61636365_70746964
"""Of the advisory lock that one holds who makes a database ready."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What was done. ``schema``: the record's versions before and after, before 0 where there was none."""

    place: str
    schema: tuple[int, int]
    roles: tuple[str, ...]
    """Roles that were made; their rights and those of the others are as they must be."""
    queue: tuple[str, ...]
    """Migrations of the task queue that were run."""
    waits: tuple[str, ...]
    """Migrations that wait for ``finish``."""

    def words(self) -> list[tuple[str, str]]:
        """Return what is said of it: names and sentences."""
        before, after = self.schema
        record = f"schema {after}, as it was" if before == after else f"schema {before} brought to {after}"
        if not before:
            record = f"tables of schema {after} made, with the first entry"
        made = f"{', '.join(self.roles)} made; " if self.roles else ""
        queue = f"{len(self.queue)} migrations run, the last {self.queue[-1]}" if self.queue else "as it was"
        if self.waits:
            queue += f"; {len(self.waits)} wait until no older node runs: acceptd fleet init --finish"
        return [
            ("place", self.place),
            ("record", record),
            ("roles", f"{made}rights are as they must be"),
            ("queue", queue),
        ]


def make_ready(state: Path, *, finish: bool = False) -> Ready:
    """Make, or bring to this version, everything that the record of ``state`` has in its database.

    ``finish`` runs what must wait until no node of the version before runs any more. Raises UsageError where the
    record is a file, StateError and LedgerError where the database is not reached or this role may not do it.
    """
    place = Place.of(state)
    if not place.url:
        raise UsageError(
            f"{place}: this record is a file, and a fleet has a database",
            remedy='set url = "postgresql://…" in [record] of acceptd.toml, or ACCEPTD_RECORD_URL',
        )
    require_driver()
    from acceptd.fleet.schema import apply_schema, waiting
    from acceptd.record.postgres.roles import grant

    with _alone(place):
        before = _version(place)
        if before:
            _leave_nobody_behind(place, before)
            migrate(state)
        else:
            Ledger.open(state, place=place).close()
        roles = grant(place)
        queue = apply_schema(place.url, finish=finish)
    return Ready(
        str(place), (before, tables.SCHEMA_VERSION), tuple(roles), tuple(queue), tuple(waiting(place.url))
    )


@contextlib.contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Wait for whoever else makes this database ready: PostgreSQL refuses two grants on one table at once."""
    from acceptd.record.postgres.engine import connect
    from acceptd.record.postgres.errors import translated

    with translated(str(place)), contextlib.closing(connect(place.url)) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        yield


def _leave_nobody_behind(place: Place, version: int) -> None:
    """Raise UsageError where a node is up that could not go on after the migration."""
    if version >= tables.SCHEMA_VERSION:
        return
    store = place.open()
    try:
        with store.read() as connection:
            found = [one for one in nodes_of(connection) if one.status != "gone"]
    finally:
        store.close()
    if late := [one.name for one in found if one.schema < tables.READABLE_FROM]:
        raise UsageError(
            f"{', '.join(late)[:200]} could not work on schema {tables.SCHEMA_VERSION}: versions that know schema "
            f"{tables.READABLE_FROM} can",
            remedy="this upgrade is none of node after node: drain and stop them first (docs/fleet.md)",
        )


def _version(place: Place) -> int:
    """Return the schema's version, 0 where there is none yet."""
    from acceptd.record.postgres.schema import has_ledger, making

    with making(place.url) as connection:
        return database.read_version(str(place), connection)[1] if has_ledger(connection) else 0
