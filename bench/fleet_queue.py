"""The fleet's task queue with 10², 10⁴ and 10⁵ submissions that wait: what one costs on its way through it.

Usage: python -m bench.fleet_queue [--rounds N] [--places N] [--json FILE]

A PostgreSQL of its own (Debian's, on disk, with fsync and autovacuum). Each size has a database of its own, all
are measured in turn within each round, and the figures are medians. Two queues, each of them ``mixed`` (20 teams
of 10 models) or a ``flood`` (one team, one model, whose lock is held):

``acceptd``   as the product has it: all wait in the record, and in Procrastinate a window of each team
``plain``     all wait in Procrastinate, with its own schema and calls

The window is smaller than the product's, so that at 10² something waits for a place too (--places).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, text

from acceptd.fleet.refill import Refill
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.tasks import Offered, Tasks
from acceptd.record.tables import submissions
from tests.fleet.postgres import Server

SIZES = (100, 10_000, 100_000)
TEAMS, MODELS = 20, 10
PASSES = 20
"""Submissions that pass in one round of one queue."""

_FETCH = "SELECT id, args->>'submission', args->>'team' FROM procrastinate_fetch_job_v2(%s, %s)"
_FINISH = "SELECT procrastinate_finish_job_v1(%s, 'succeeded', true)"
_FILL = """
    INSERT INTO submissions (id, team, name, path, kind, state, received_at, updated_at, data)
    SELECT 's' || n, 't' || n %% %s, 'm', '/', 'directory', 'sealed', to_char(n, 'FM0000000000'), '', '{}'
    FROM generate_series(1, %s) AS n
"""
_FILL_PLAIN = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
    SELECT 'cpu', 'acceptd.examine', 't' || n %% %s || '/m' || n / %s %% %s, 's' || n,
           jsonb_build_object('submission', 's' || n, 'team', 't' || n %% %s) FROM generate_series(1, %s) AS n
"""


class Place:
    """One database with so many submissions that wait; times what it is asked for, in milliseconds."""

    def __init__(self, server: Server, size: int, *, flood: bool) -> None:
        self.teams, self.models = (1, 1) if flood else (TEAMS, MODELS)
        self.size, self.flood = size, flood
        self.name = server.fresh_database()
        self.url = server.url(self.name)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.numbers = itertools.count(size + 1)
        self.connection: psycopg.Connection[Any] | None = None

    def join(self) -> None:
        """Register as a worker; in a flood, hold the model's lock."""
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.worker = self.execute("SELECT worker_id FROM procrastinate_register_worker_v1()")[0]
        self.execute("ANALYZE")
        if self.flood:
            self.execute(_FETCH, (["cpu"], self.worker))

    def execute(self, query: str, values: Any = ()) -> Any:
        """Run a statement; return its first row."""
        assert self.connection is not None
        found = self.connection.execute(query, values or None)
        return found.fetchone() if found.description else None

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how long it took."""
        start = time.perf_counter()
        yield
        self.times[what].append((time.perf_counter() - start) * 1000)

    def of(self, number: int) -> tuple[str, str, str]:
        """Return a new submission, its team and its model."""
        team = f"t{number % self.teams}"
        return f"s{number}", team, f"{team}/m{number // self.teams % self.models}"

    def fetch(self) -> Any:
        """Fetch as a worker does."""
        with self.timed("fetch"):
            return self.execute(_FETCH, (["cpu"], self.worker))

    def finish(self, row: int) -> None:
        """End as a worker does."""
        with self.timed("finish"):
            self.execute(_FINISH, (row,))


class Ours(Place):
    """The product's queue: the record, and a window of it in Procrastinate."""

    def __init__(self, server: Server, size: int, *, flood: bool, places: int) -> None:
        super().__init__(server, size, flood=flood)
        self.engine = create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        submissions.create(self.engine)
        apply_schema(self.url)
        self.tasks = Tasks(self.url, team_places=places)
        with psycopg.connect(self.url) as connection:
            connection.execute(_FILL, (self.teams, size))
        self.refill = Refill(self.engine.connect, self._offer, most=places)
        with self.timed("refill all (once)"):
            self.refill.all()
        self.join()

    def _offer(self, submission: str) -> Offered:
        _, team, model = self.of(int(submission[1:]))
        return self.tasks.examine(submission, 1, "cpu", "cpu", model, team=team)

    def one(self) -> None:
        """Let one submission through, and another one come."""
        submission, team, model = self.of(next(self.numbers))
        with self.engine.begin() as change:
            change.execute(
                text(
                    "INSERT INTO submissions (id, team, name, path, kind, state, received_at, updated_at, data) "
                    "VALUES (:id, :team, 'm', '/', 'directory', 'sealed', :at, '', '{}')"
                ),
                {"id": submission, "team": team, "at": f"{int(submission[1:]):010d}"},
            )
            with self.timed("defer"):
                self.tasks.examine(submission, 1, "cpu", "cpu", model, team=team, within=change)
        found = self.fetch()
        if found[0] is None:
            return
        with self.engine.begin() as change:
            change.execute(text("UPDATE submissions SET state = 'judged' WHERE id = :id"), {"id": found[1]})
        self.finish(found[0])
        with self.timed("refill team"):
            self.refill.team(found[2])

    def rest(self) -> None:
        """What is asked now and then."""
        with self.timed("counts"):
            self.tasks.counts()
        with self.timed("refill all"):
            self.refill.all()
        with self.timed("cancel"):
            self.tasks.cancel("s0")

    def close(self) -> None:
        """Close its connections."""
        self.tasks.close()
        self.engine.dispose()
        if self.connection:
            self.connection.close()


class Plain(Place):
    """Procrastinate as it comes, with everything in it."""

    def __init__(self, server: Server, size: int, *, flood: bool) -> None:
        super().__init__(server, size, flood=flood)
        import procrastinate

        from acceptd.fleet.tasks import quiet

        quiet()
        self.app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=self.url))
        self.app.open()
        self.app.schema_manager.apply_schema()
        with psycopg.connect(self.url) as connection:
            connection.execute(_FILL_PLAIN, (self.teams, self.teams, self.models, self.teams, size))
        self.join()

    def one(self) -> None:
        """Let one submission through, and another one come."""
        submission, team, model = self.of(next(self.numbers))
        with self.timed("defer"):
            self.app.configure_task(
                "acceptd.examine", allow_unknown=True, queue="cpu", lock=model, queueing_lock=submission
            ).defer(submission=submission, team=team)
        found = self.fetch()
        if found[0] is not None:
            self.finish(found[0])

    def rest(self) -> None:
        """What is asked now and then."""
        with self.timed("counts"):
            self.execute("SELECT queue_name, status, count(*) FROM procrastinate_jobs GROUP BY 1, 2")

    def close(self) -> None:
        """Close its connections."""
        self.app.close()
        if self.connection:
            self.connection.close()


def measure(kind: str, rounds: int, most: int) -> list[dict[str, Any]]:
    """Measure one kind of queue, all its sizes in turn, on a server of its own; return a row for each."""
    server = Server(fsync=True, on_disk=True, settings={"autovacuum": "on", "shared_buffers": "256MB"})
    try:
        return _measure(server, kind, rounds, most)
    finally:
        server.close()


def _measure(server: Server, kind: str, rounds: int, most: int) -> list[dict[str, Any]]:
    places: list[Ours | Plain] = []
    for flood, size in itertools.product((False, True), SIZES):
        ours = kind == "acceptd"
        places.append(Ours(server, size, flood=flood, places=most) if ours else Plain(server, size, flood=flood))
    for number in range(rounds):
        for place in places:
            start = time.perf_counter()
            for _ in range(PASSES):
                with place.timed("one submission"):
                    place.one()
                if time.perf_counter() - start > 10:  # a plain flood: its figure is known by then
                    break
            place.rest()
            print(
                f"\rround {number + 1} of {rounds}: {kind} {place.size}    ", end="", file=sys.stderr, flush=True
            )
    print(file=sys.stderr)
    rows = []
    for place in places:
        times = {what: round(statistics.median(found), 3) for what, found in place.times.items()}
        rows.append({"queue": kind, "shape": "flood" if place.flood else "mixed", "waiting": place.size, **times})
        place.close()
    return rows


def told(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a table: milliseconds at each size, and the largest against the smallest."""
    yield f"{'queue':8} {'shape':6} {'step':18}" + "".join(f"{size:>10}" for size in SIZES) + "     ratio"
    for kind, shape in itertools.product(("acceptd", "plain"), ("mixed", "flood")):
        mine = [row for row in rows if (row["queue"], row["shape"]) == (kind, shape)]
        for what in [key for key in mine[0] if key not in {"queue", "shape", "waiting"}]:
            found = [row.get(what) for row in mine]
            cells = "".join(f"{one:>10.2f}" if one is not None else f"{'-':>10}" for one in found)
            ratio = f"{found[-1] / found[0]:>9.2f}" if found[0] and found[-1] is not None else ""
            yield f"{kind:8} {shape:6} {what:18}{cells} {ratio}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--places", type=int, default=4)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = [row for kind in ("acceptd", "plain") for row in measure(kind, chosen.rounds, chosen.places)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, python {platform.python_version()}; milliseconds, p50")
    for line in told(rows):
        print(line)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
