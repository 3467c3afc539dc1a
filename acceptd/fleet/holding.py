"""What workers hold of the queue: rows given to a new try when their worker died or cannot end them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from acceptd.fleet.task import MAX_DEATHS, PREFIX, FleetTask, read

log = structlog.get_logger("acceptd.fleet")

_BEATS = (
    "SELECT id, last_heartbeat FROM procrastinate_workers WHERE id IN "
    "(SELECT worker_id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id IS NOT NULL) "
    "OR last_heartbeat < now() - interval '1 hour' ORDER BY last_heartbeat LIMIT 10000"
)
"""Of who holds something, or is to be forgotten."""
_HELD = "SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id = %s ORDER BY id"
_NOBODYS = "SELECT id FROM procrastinate_jobs WHERE status = 'doing' AND worker_id IS NULL ORDER BY id"
_ROW = (
    "SELECT task_name, queue_name, args, id, priority, abort_requested FROM procrastinate_jobs "
    "WHERE id = %s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %s FOR UPDATE"
)
_INSERT = (
    "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(%s, %s, %s, %s, %s, %s, "
    "now() + %s * interval '1 second')::procrastinate_job_to_defer_v1])"
)
_INSERT_NOW = (
    "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(%s, %s, %s, %s, %s, %s, NULL)::procrastinate_job_to_defer_v1])"
)


async def defer(connection: Any, task: FleetTask, priority: int, seconds: float = 0.0) -> bool:
    """Insert a task's next try as a row of its own; False where one waits already.

    Never the same row again: whoever held that one, and wakes up later, ends nothing but it.
    """
    import psycopg
    from psycopg.types.json import Jsonb

    values: list[Any] = [task.queue, PREFIX + task.kind, priority, task.lock, task.key, Jsonb(task.args())]
    try:
        async with connection.transaction():
            if seconds > 0:
                await connection.execute(_INSERT, [*values, seconds])
            else:
                await connection.execute(_INSERT_NOW, values)
    except psycopg.errors.UniqueViolation:
        return False
    return True


async def held(connection: Any, worker: int) -> set[int] | None:
    """Return the rows that a worker holds, or None where it is not registered any more."""
    known = await (
        await connection.execute("SELECT 1 FROM procrastinate_workers WHERE id = %s", (worker,))
    ).fetchone()
    if known is None:
        return None
    return {row[0] for row in await (await connection.execute(_HELD, (worker,))).fetchall()}


def after_death(task: FleetTask) -> FleetTask:
    """Return what follows when a worker died with ``task``: the next try, or that it is given up."""
    died = task.again(deaths=task.deaths + 1)
    if died.deaths < MAX_DEATHS or task.kind == "given-up":
        return died
    return died.given_up("deaths")


async def take_back(connection: Any, number: int, worker: int | None, *, death: bool) -> FleetTask | None:
    """End the row ``number`` that ``worker`` holds, and defer its next try; return what follows it.

    In one transaction with ``connection``'s; two who do it at once do it once. None: it is held no more.
    """
    row = await (await connection.execute(_ROW, (number, worker))).fetchone()
    if row is None:
        return None
    name, queue, args, _, priority, aborted = row
    task = read(name, queue, args, number)
    end = "aborted" if aborted else "failed"
    follows = task
    if task is not None and not aborted:
        follows = after_death(task) if death else task.again()
        await defer(connection, follows, priority)  # while it is held: what follows is refused to whoever does not
    await connection.execute("SELECT procrastinate_finish_job_v1(%s, %s, false)", (number, end))
    return follows


async def bury(connection: Any, worker: int | None, died: Callable[[FleetTask], object]) -> None:
    """Take back all that a dead worker holds; None: what nobody does."""
    query, values = (_NOBODYS, ()) if worker is None else (_HELD, (worker,))
    for (number,) in await (await connection.execute(query, values)).fetchall():
        async with connection.transaction():
            follows = await take_back(connection, number, worker, death=True)
        if follows is None:
            continue
        log.warning(
            "taken back from a dead worker",
            submission=follows.submission,
            task=follows.kind,
            deaths=follows.deaths,
        )
        died(follows)
    if worker is not None:
        await connection.execute("SELECT procrastinate_unregister_worker_v1(%s)", (worker,))


class Former:
    """Remembers in a file which worker this process is, so that its successor knows that one for dead."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def bury(self, connection: Any, worker: int) -> None:
        """Take back what the former worker held, in ``connection``'s transaction. ``worker`` is this one."""
        before = self._read()
        if before is not None and before < worker:
            await bury(connection, before, lambda _: None)

    def remember(self, worker: int) -> None:
        """Write down ``worker`` for the next start."""
        temporary = self._path.with_name(f".{self._path.name}.new")
        temporary.write_text(f"{worker}\n")
        temporary.replace(self._path)

    def _read(self) -> int | None:
        try:
            return int(self._path.read_text()[:20])
        except (OSError, ValueError):
            return None  # the watch finds what it held


@dataclass(slots=True)
class Watch:
    """Finds workers that are dead: whose heartbeat has not moved for ``seconds`` while this observer could see it.

    By the observer's own monotonic clock, and anew after each time in which it could not look: neither a clock
    that is set nor a database that was away makes anybody dead. ``died`` is told of each task taken back.
    """

    seconds: float
    died: Callable[[FleetTask], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _seen: dict[int, tuple[Any, float]] = field(default_factory=dict)
    _looked: float = float("-inf")

    @property
    def interval(self) -> float:
        """How often to look, in seconds."""
        return max(0.05, self.seconds / 5)

    async def look(self, connection: Any) -> None:
        """Look once, and take back what dead workers hold."""
        rows = await (await connection.execute(_BEATS)).fetchall()
        now = self.clock()
        blind = now - self._looked > max(3 * self.interval, 1.0)
        self._looked = now
        before = {} if blind else self._seen
        self._seen = {}
        for worker, beat in rows:
            known = before.get(worker)
            self._seen[worker] = known if known is not None and known[0] == beat else (beat, now)
        dead = [worker for worker, (_, since) in self._seen.items() if now - since >= self.seconds]
        for worker in dead:
            await self._bury(connection, worker)
        await bury(connection, None, self.died)

    async def _bury(self, connection: Any, worker: int) -> None:
        log.warning("a worker is dead", worker=worker, silent_s=round(self.seconds, 1))
        await bury(connection, worker, self.died)
        del self._seen[worker]
