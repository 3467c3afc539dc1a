"""The trusted side's way into the task queue: what is to be done next, by whom, and in what order of teams.

**Truth is the record.** A task only says that something stands to be done. Every handler looks into the record
first and does nothing where it is done already: tasks come at least once, and after an accident again.

**Places.** Only so many tasks of one team are in a queue at once (:data:`TEAM_PLACES`), and so many of all
(:data:`ALL_PLACES`); what finds no place stands in the record until :mod:`acceptd.fleet.refill` offers it again,
as the embedded queue keeps in the database what does not fit into memory. What a call costs depends on the places
then, and not on how much anybody has dropped.

**Turns.** Within the places, teams take turns: start-time fair queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996,
section 2) with every task of weight one. A task's tag is one more than its team's last, and at least the queue's
virtual time: that of what was started last. Procrastinate takes the lowest tag first, as its highest priority.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from acceptd.errors import FleetAwayError, NoThreadError
from acceptd.fleet.connection import RECONNECT_SECONDS, plain_url, steady, translated
from acceptd.fleet.task import KINDS, PREFIX, PROMOTER, FleetTask, Kind, intake_queue
from acceptd.threads import started

if TYPE_CHECKING:
    from sqlalchemy import Connection

TEAM_PLACES: Final = 64
"""Tasks of one team in one queue. Turns do not depend on it, only how much workers find of one team alone."""
ALL_PLACES: Final = 4096
"""Tasks in one queue; a team that has none there finds a place all the same."""
Offered = Literal["queued", "known", "full"]
"""What became of a task: in the queue now, in it before, or without a place: then the record keeps it."""

_UNBOUNDED: Final = frozenset({"decide", "given-up"})
"""Kinds that come from tasks that had places themselves."""
_LOOK: Final = """
    SELECT
      EXISTS (SELECT 1 FROM procrastinate_jobs WHERE args->>'submission' = %(submission)s
              AND queueing_lock = %(key)s AND status IN ('todo', 'doing')
              AND (status = 'todo' OR NOT %(decides)s)) AS known,
      (SELECT count(*) FROM (SELECT 1 FROM procrastinate_jobs WHERE queue_name = %(queue)s
              AND status IN ('todo', 'doing') LIMIT %(all)s) AS a) AS total,
      (SELECT count(*) FROM (SELECT 1 FROM procrastinate_jobs WHERE queue_name = %(queue)s
              AND args->>'team' = %(team)s AND status IN ('todo', 'doing') LIMIT %(places)s) AS t) AS held,
      (SELECT priority FROM procrastinate_jobs WHERE queue_name = %(queue)s AND args->>'team' = %(team)s
              AND status IN ('todo', 'doing') ORDER BY priority LIMIT 1) AS last,
      (SELECT priority FROM procrastinate_jobs WHERE queue_name = %(queue)s AND status = 'doing'
              ORDER BY priority LIMIT 1) AS started,
      (SELECT priority FROM procrastinate_jobs WHERE queue_name = %(queue)s AND status = 'todo'
              ORDER BY priority DESC LIMIT 1) AS next
"""


def quiet() -> None:
    """Let the libraries' own log lines go nowhere: what matters of them is told in our words."""
    for name in ("procrastinate", "psycopg.pool"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False


class Tasks:
    """Defers and cancels tasks. Safe from threads; each call is one transaction, or part of the caller's.

    ``within`` is a connection in a transaction of the record, where that is in the same database: then the task is
    deferred with what was written there, or neither is. ``patience``: how many seconds a call waits for one of its
    ``connections``. Every method raises FleetAwayError where the database cannot be used now, and StateError where
    it refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        team_places: int = TEAM_PLACES,
        all_places: int = ALL_PLACES,
        connections: int = 4,
        patience: float = 5.0,
    ) -> None:
        import procrastinate
        import psycopg_pool

        quiet()
        self.team_places, self.all_places = team_places, all_places
        self._pool = psycopg_pool.ConnectionPool(
            plain_url(url),
            min_size=1,
            max_size=connections,
            open=False,
            kwargs=steady(url),
            check=psycopg_pool.ConnectionPool.check_connection,
            timeout=patience,
            reconnect_timeout=RECONNECT_SECONDS,
        )
        connector = procrastinate.SyncPsycopgConnector()
        connector.open(self._pool)
        self._jobs = procrastinate.App(connector=connector).job_manager
        try:
            started(partial(self._pool.open, wait=False), "the pool of the task queue")
        except NoThreadError as error:
            raise FleetAwayError(error.message, remedy=error.remedy) from error

    def close(self) -> None:
        """Close the connections; closing twice is fine."""
        self._pool.close()

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what is to be done -------------------------------------------------------------------------------

    def order(self, submission: str, model: str, *, team: str = "", within: Connection | None = None) -> Offered:
        """Let the promoter order the examination of a sealed submission. ``team`` where there is no model yet."""
        return self._named("order", PROMOTER, submission, model, team, within)

    def examine(
        self,
        submission: str,
        round: int,  # noqa: A002 - the record's own word
        profile: str,
        queue: str,
        lock: str,
        *,
        team: str = "",
        within: Connection | None = None,
    ) -> Offered:
        """Let a worker examine a submission under one profile. ``lock`` is its model: one at a time."""
        team = team or lock.partition("/")[0]
        task = FleetTask(
            kind="examine", queue=queue, submission=submission, team=team, model=lock, round=round, profile=profile
        )
        return self.defer(task, within=within)

    def decide(self, submission: str, model: str, *, team: str = "", within: Connection | None = None) -> Offered:
        """Let the promoter look whether all evidence is there, and decide."""
        return self._named("decide", PROMOTER, submission, model, team, within)

    def finish(self, submission: str, node: str, *, team: str = "", within: Connection | None = None) -> Offered:
        """Let the intake node that claimed it write the outbox and clear the drop."""
        return self._named("finish", intake_queue(node), submission, "", team, within)

    def _named(
        self, kind: Kind, queue: str, submission: str, model: str, team: str, within: Connection | None
    ) -> Offered:
        team = team or model.partition("/")[0]
        return self.defer(
            FleetTask(kind=kind, queue=queue, submission=submission, team=team, model=model), within=within
        )

    def defer(self, task: FleetTask, *, within: Connection | None = None) -> Offered:
        """Queue a task at its team's turn; ``full`` where there is no place: then the record keeps it."""
        import procrastinate.exceptions
        from procrastinate.jobs import Job

        with translated(), self._connection(within) as connection:
            look = self._look(connection, task)
            if look["known"]:
                return "known"
            if task.kind not in _UNBOUNDED and (
                look["held"] >= self.team_places or (look["held"] and look["total"] >= self.all_places)
            ):
                return "full"
            job = Job(
                id=None,
                queue=task.queue,
                lock=task.lock,
                queueing_lock=task.key,
                task_name=PREFIX + task.kind,
                priority=-_tag(look),
                task_kwargs=task.args(),
            )
            try:
                with connection.transaction():  # a savepoint: who comes second leaves the record's change alone
                    self._jobs.defer_job(job, connection=connection)
            except procrastinate.exceptions.AlreadyEnqueued:
                return "known"
            return "queued"

    def _look(self, connection: Any, task: FleetTask) -> dict[str, Any]:
        from psycopg.rows import dict_row

        asked = {
            "submission": task.submission,
            "key": task.key,
            # A decision under way may have looked before that evidence came which is the reason for this one.
            "decides": task.kind == "decide",
            "queue": task.queue,
            "team": task.team,
            "all": self.all_places,
            "places": self.team_places,
        }
        with connection.cursor(row_factory=dict_row) as cursor:
            found: dict[str, Any] = cursor.execute(_LOOK, asked).fetchone()
        return found

    # -- what is not to be done any more --------------------------------------------------------------------

    def cancel(self, submission: str, *, within: Connection | None = None) -> int:
        """Take a submission's orders and examinations out of the queue, and tell running ones to end.

        Returns how many that were. What becomes of the submission is for the record to say first: housekeeping
        defers again what the record still wants examined.
        """
        with translated(), self._connection(within) as connection:
            rows = connection.execute(
                "SELECT id FROM procrastinate_jobs WHERE args->>'submission' = %s AND status IN ('todo', 'doing') "
                "AND task_name IN ('acceptd.order', 'acceptd.examine') ORDER BY id",
                (submission,),
            ).fetchall()
            return sum(self._jobs.cancel_job_by_id(row[0], abort=True, connection=connection) for row in rows)

    def forget(self, hours: int) -> int:
        """Delete what did not end well, so many hours ago; what did goes at once. Return how many."""
        with translated(), self._connection(None) as connection:
            done = connection.execute(
                "DELETE FROM procrastinate_jobs AS job WHERE status NOT IN ('todo', 'doing') AND NOT EXISTS ("
                "SELECT 1 FROM procrastinate_events WHERE job_id = job.id "
                "AND at >= now() - %s * interval '1 hour')",
                (hours,),
            )
            return int(done.rowcount)

    # -- what there is --------------------------------------------------------------------------------------

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many tasks are in each queue, by Procrastinate's states: ``todo``, ``doing``, …"""
        with translated(), self._connection(None) as connection:
            rows = connection.execute(
                "SELECT queue_name, status::text, count(*) FROM procrastinate_jobs GROUP BY 1, 2 ORDER BY 1, 2"
            ).fetchall()
        found: dict[str, dict[str, int]] = {}
        for queue, status, count in rows:
            found.setdefault(queue, {})[status] = count
        return found

    def running(self) -> list[FleetTask]:
        """Return what is being worked, oldest first. A row that is none of ours is left out."""
        from acceptd.fleet.task import read

        with translated(), self._connection(None) as connection:
            rows = connection.execute(
                "SELECT task_name, queue_name, args, id FROM procrastinate_jobs WHERE status = 'doing' "
                "AND task_name = ANY(%s) ORDER BY id LIMIT %s",
                ([PREFIX + kind for kind in KINDS], self.all_places),
            ).fetchall()
        return [task for row in rows if (task := read(*row)) is not None]

    @contextlib.contextmanager
    def _connection(self, within: Connection | None) -> Iterator[Any]:
        """Give a psycopg connection in a transaction: the record's, or one of the pool's."""
        if within is None:
            with self._pool.connection() as connection, connection.transaction():
                # What a crash of the database loses of these, the record brings again: nobody waits for its disk.
                connection.execute("SET LOCAL synchronous_commit TO off")
                yield connection
            return
        from sqlalchemy import text

        within.execute(text("SELECT 1"))  # begun: else the savepoint would be a transaction of its own
        yield within.connection.driver_connection


def _tag(look: dict[str, Any]) -> int:
    """Return the start tag: a priority is a tag's negative."""
    tags = [-look[name] for name in ("started", "next") if look[name] is not None]
    virtual = max(tags, default=0)
    return virtual if look["last"] is None else max(virtual, -look["last"] + 1)
