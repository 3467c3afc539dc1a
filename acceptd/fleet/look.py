"""Reads how a fleet stands: its nodes, the queues' depths and ages, and the submissions by state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, func, inspect, select, text

from acceptd import __version__
from acceptd.fleet.nodes import Nodes, record_now, seconds_between
from acceptd.fleet.standing import Depth, Facts
from acceptd.record import tables
from acceptd.record.log import Ledger

STALLED_SECONDS: Final = 60
"""A worker of the task queue that was not heard of for so long has stalled."""
MOST_QUEUES: Final = 200
"""Queues that are shown: whoever may defer may invent names."""
_DEPTHS: Final = """
    SELECT substr(queue_name, 1, 120) AS queue, status::text AS status, count(*) AS number, min(id) AS first
    FROM procrastinate_jobs WHERE status IN ('todo', 'doing') GROUP BY 1, 2 ORDER BY 1, 2 LIMIT :most
"""
_AGE: Final = """
    SELECT extract(epoch FROM clock_timestamp() - min(at)) FROM procrastinate_events WHERE job_id = :job
"""
_STALLED: Final = """
    SELECT substr(queue_name, 1, 120) AS queue, count(*) AS number FROM procrastinate_jobs AS job
    WHERE status = 'doing' AND NOT EXISTS (SELECT 1 FROM procrastinate_workers AS worker
      WHERE worker.id = job.worker_id
      AND worker.last_heartbeat > clock_timestamp() - :seconds * interval '1 second')
    GROUP BY 1 LIMIT :most
"""


def look(ledger: Ledger) -> Facts:
    """Return how the fleet of a record stands now. Raises LedgerStorageError while the record is away."""
    nodes = Nodes(ledger).all()
    with ledger.reading() as connection:
        return Facts(
            nodes=nodes,
            queues=depths(connection),
            states=_states(connection),
            schema=_schema(connection),
            version=__version__,
        )


def depths(connection: Connection) -> Mapping[str, Depth]:
    """Return what each queue holds; none where the record's database has no task queue."""
    if connection.dialect.name != "postgresql" or not inspect(connection).has_table("procrastinate_jobs"):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for row in connection.execute(text(_DEPTHS), {"most": 2 * MOST_QUEUES}):
        one = found.setdefault(row.queue, {"waiting": 0, "running": 0, "oldest": None, "stalled": 0})
        if row.status == "doing":
            one["running"] = row.number
        else:
            age = connection.execute(text(_AGE), {"job": row.first}).scalar()
            one |= {"waiting": row.number, "oldest": None if age is None else max(0.0, float(age))}
    for row in connection.execute(text(_STALLED), {"seconds": STALLED_SECONDS, "most": MOST_QUEUES}):
        if row.queue in found:
            found[row.queue]["stalled"] = row.number
    return {name: Depth(**one) for name, one in found.items()}


def _states(connection: Connection) -> dict[str, tuple[int, float]]:
    table = tables.submissions.c
    query = select(table.state, func.count(), func.substr(func.min(table.updated_at), 1, 40)).group_by(table.state)
    now = record_now(connection)
    return {state: (count, seconds_between(oldest, now)) for state, count, oldest in connection.execute(query)}


def _schema(connection: Connection) -> int:
    said = connection.execute(select(tables.meta.c.value).where(tables.meta.c.key == "schema_version")).scalar()
    return int(said) if said is not None and str(said).isdecimal() else 0
