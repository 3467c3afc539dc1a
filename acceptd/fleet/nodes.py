"""The nodes of a fleet in the record: what each says of itself at a heartbeat, and what the operator asks of it.

A heartbeat counts for nothing in a verdict: whose evidence counts the policy says, by keys. Rows are what other
machines wrote, and hostile: they are cut where they are read, and escaped where they are shown. All times are the
database's own, so no host's clock decides who is late.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from sqlalchemy import Connection, func, insert, literal_column, select, text, update

from acceptd import __version__
from acceptd.errors import StateError, UsageError
from acceptd.record import tables
from acceptd.record.database import MOVED, refuse_moved, refuse_newer
from acceptd.record.log import Ledger

BEAT_SECONDS: Final = 10.0
LATE_SECONDS: Final = 3 * BEAT_SECONDS
"""A node that was not seen for so long is late: three beats."""
GONE_SECONDS: Final = 12 * BEAT_SECONDS
"""And after so long, gone: its work was given to others long ago, or waits for it."""
CHANNEL: Final = "acceptd_nodes"
"""PostgreSQL's channel for what concerns the nodes: the payload is a node's name."""
MOST: Final = 1000
"""Rows that are read at most: whoever may beat may invent names."""

Status = Literal["up", "draining", "drained", "late", "gone"]
_TEXT: Final = 400
_JSON: Final = 16_384
_MANY: Final = 64
"""Queues and profiles of one node that are told."""
_NOW: Final[Mapping[str, str]] = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    "postgresql": """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')""",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What a node says of itself. ``profiles`` are digests by name; ``taking``: whether it takes new work."""

    name: str
    role: str
    host: str
    key_id: str = ""
    queues: tuple[str, ...] = ()
    slots: int = 0
    running: int = 0
    taking: bool = True
    policy: str = ""
    profiles: Mapping[str, str] = field(default_factory=dict)
    standing: str = ""
    """Why it does nothing, in a line: the object store is away, the disk is nearly full."""


@dataclass(frozen=True, slots=True)
class Node:
    """One row: what a node said, when the database heard it, and whether it is to drain. Times are RFC 3339."""

    told: Told
    version: str
    schema: int
    started_at: str
    seen_at: str
    draining: bool
    boot: str
    stopped: bool
    """It said itself that it stops."""
    age: float
    """Seconds since it was seen, by the database's clock."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.told.name

    @property
    def status(self) -> Status:
        """How it stands; see :func:`status_of`."""
        return status_of(self)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the record told a node at its beat."""

    draining: bool
    rival: bool
    """Another process beats under this name."""
    outdated: str = ""
    """Why this version of acceptd may not work on the record any more: it was migrated meanwhile."""


def status_of(node: Node) -> Status:
    """Return how a node stands. Pure.

    ``drained`` is the node's own word: it was told to drain, takes nothing any more, and nothing runs there.
    """
    if node.stopped or node.age >= GONE_SECONDS:
        return "gone"
    if node.age >= LATE_SECONDS:
        return "late"
    if not node.draining:
        return "up"
    return "drained" if not node.told.taking and node.told.running == 0 else "draining"


class Nodes:
    """The rows of one record. Safe from threads. Every method raises LedgerStorageError while it is away."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def beat(self, told: Told, boot: str, *, first: bool = False, stopped: bool = False) -> Heard:
        """Write what a node says of itself, and return what it is asked. ``boot`` is unlike any other process's.

        ``first`` takes the name over from whoever had it; later on another process's boot is a rival.
        """
        table = tables.fleet_nodes
        values: dict[str, Any] = {
            "role": told.role,
            "host": told.host[:255],
            "version": __version__,
            "schema": tables.SCHEMA_VERSION,
            "key_id": told.key_id,
            "queues": json.dumps(list(told.queues[:_MANY])),
            "slots": told.slots,
            "running": told.running,
            "told": _told_json(told, boot, stopped=stopped),
        }
        with self._ledger.transaction(durable=False) as change:
            connection = change.connection
            now = record_now(connection)
            asked = select(table.c.draining, table.c.told).where(table.c.name == told.name)
            row = connection.execute(asked).first()
            if row is None:
                begun = {"name": told.name, "started_at": now, "seen_at": now}
                connection.execute(insert(table).values(values | begun))
                return Heard(draining=False, rival=False)
            outdated = _outdated(connection)
            before = _object(row.told)
            rival = not first and before.get("boot") != boot and not before.get("stopped")
            values |= {"seen_at": now} | ({"started_at": now} if first else {})
            connection.execute(update(table).where(table.c.name == told.name).values(values))
            if stopped or row.draining:  # whoever waits for the end of a drain
                _notify(connection, told.name)
            return Heard(draining=bool(row.draining), rival=rival, outdated=outdated)

    def all(self) -> list[Node]:
        """Return the nodes by name; at most :data:`MOST` of them, each text cut to a length that can be shown."""
        with self._ledger.reading() as connection:
            return nodes_of(connection)

    def drain(self, name: str, *, on: bool = True) -> bool:
        """Ask a node to take no more work, or to take some again; return whether it is new to it.

        Raises UsageError for an unknown name, and where the database's role may not ask it: a worker's may not.
        """
        table = tables.fleet_nodes
        with self._ledger.transaction(durable=False) as change:
            connection = change.connection
            _require(connection, "has_column_privilege(current_user, 'fleet_nodes', 'draining', 'UPDATE')")
            was = connection.execute(select(table.c.draining).where(table.c.name == name)).scalar()
            if was is None:
                raise UsageError(f"no node is called {name!r:.80}", remedy="`acceptd fleet status` lists them")
            if bool(was) is not on:
                connection.execute(update(table).where(table.c.name == name).values(draining=on))
                _notify(connection, name)
            return bool(was) is not on

    def forget(self, name: str) -> None:
        """Take the row of a node away that is gone; raise UsageError for any other."""
        table = tables.fleet_nodes
        found = [node for node in self.all() if node.name == name]
        if not found or found[0].status != "gone":
            raise UsageError(
                f"no node that is gone is called {name!r:.80}",
                remedy="stop it first: `acceptd fleet status` says how it stands",
            )
        with self._ledger.transaction(durable=False) as change:
            _require(change.connection, "has_table_privilege(current_user, 'fleet_nodes', 'DELETE')")
            change.connection.execute(table.delete().where(table.c.name == name))


def nodes_of(connection: Connection) -> list[Node]:
    """Return the nodes that a record has, as :meth:`Nodes.all` does, whatever its schema's version."""
    table = tables.fleet_nodes
    short = ("name", "role", "host", "version", "key_id", "started_at", "seen_at")
    columns = [
        *(func.substr(table.c[name], 1, _TEXT).label(name) for name in short),
        *(func.substr(table.c[name], 1, _JSON).label(name) for name in ("queues", "told")),
        *(table.c[name] for name in ("schema", "slots", "running", "draining")),
    ]
    now = record_now(connection)
    rows = connection.execute(select(*columns).order_by(table.c.name).limit(MOST)).all()
    return [_node(row, now) for row in rows]


def _outdated(connection: Connection) -> str:
    """Return why nobody of this version may go on here: it is too new, or was moved; empty where one may."""
    asked = select(tables.meta).where(tables.meta.c.key.in_(["schema_version", "readable_from", MOVED]))
    rows = {row.key: row.value for row in connection.execute(asked)}
    said = str(rows.get("schema_version", ""))
    try:
        refuse_newer("the record", int(said) if said.isdecimal() else 0, rows)
        refuse_moved("the record", rows)
    except StateError as error:
        return error.message
    return ""


def new_boot() -> str:
    """Return a word that no other process has."""
    return secrets.token_hex(8)


def record_now(connection: Connection) -> str:
    """Return the time by the database's clock: RFC 3339, UTC, to the millisecond."""
    return str(connection.execute(select(literal_column(_NOW[connection.dialect.name]))).scalar())


def _notify(connection: Connection, name: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_notify(CHANNEL, name)))


def _require(connection: Connection, right: str) -> None:
    """Raise UsageError where the database's role may not do this: a worker's may not."""
    if connection.dialect.name == "postgresql" and not connection.execute(text(f"SELECT {right}")).scalar():
        raise UsageError(
            "this role of the database may not drain or forget nodes",
            remedy="use --state of the promoter, whose login may, or name the owner's in ACCEPTD_RECORD_URL",
        )


def _told_json(told: Told, boot: str, *, stopped: bool) -> str:
    return json.dumps(
        {
            "boot": boot,
            "taking": told.taking,
            "stopped": stopped,
            "policy": told.policy,
            "profiles": dict(list(told.profiles.items())[:_MANY]),
            "standing": told.standing[:_TEXT],
        },
        sort_keys=True,
    )


def _node(row: Any, now: str) -> Node:
    told = _object(row.told)
    profiles = told.get("profiles")
    return Node(
        Told(
            name=row.name,
            role=row.role,
            host=row.host,
            key_id=row.key_id,
            queues=tuple(str(one)[:64] for one in _list(row.queues)[:_MANY]),
            slots=row.slots,
            running=row.running,
            taking=told.get("taking") is not False,
            policy=str(told.get("policy", ""))[:64],
            profiles={
                str(name)[:64]: str(digest)[:64]
                for name, digest in list((profiles if isinstance(profiles, dict) else {}).items())[:_MANY]
            },
            standing=str(told.get("standing", ""))[:_TEXT],
        ),
        version=row.version,
        schema=row.schema,
        started_at=row.started_at,
        seen_at=row.seen_at,
        draining=bool(row.draining),
        boot=str(told.get("boot", ""))[:64],
        stopped=told.get("stopped") is True,
        age=seconds_between(row.seen_at, now),
    )


def seconds_between(seen: str, now: str) -> float:
    """Return the seconds; of a time that is none, infinitely many: nobody knows when that was."""
    try:
        first, last = (datetime.fromisoformat(one).astimezone(UTC) for one in (seen, now))
    except (ValueError, OverflowError):
        return float("inf")
    return max(0.0, (last - first).total_seconds())


def _object(said: str) -> dict[str, Any]:
    found = _json(said)
    return found if isinstance(found, dict) else {}


def _list(said: str) -> list[Any]:
    found = _json(said)
    return found if isinstance(found, list) else []


def _json(said: str) -> Any:
    try:
        return json.loads(said[:_JSON])
    except (ValueError, RecursionError):
        return None
