"""Who is dead: only one that did not beat while somebody could see it, whatever clocks and outages say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acceptd.fleet.holding import Watch
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.task import FleetTask
from acceptd.fleet.tasks import Tasks

pytestmark = pytest.mark.acceptance


class World:
    """A worker that holds one task, and a watch whose clock only the test turns."""

    def __init__(self, url: str) -> None:
        import psycopg

        self.url = url
        apply_schema(url)
        with Tasks(url) as tasks:
            tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        self.now = 1000.0
        self.died: list[FleetTask] = []
        self.connection = psycopg.connect(url, autocommit=True)
        self.worker = self.one("SELECT worker_id FROM procrastinate_register_worker_v1()")
        self.one("SELECT id FROM procrastinate_fetch_job_v2('{cpu}', %s)", self.worker)

    def one(self, query: str, *values: Any) -> Any:
        row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def watch(self) -> Watch:
        """Return a watch of ten seconds."""
        return Watch(10.0, died=self.died.append, clock=lambda: self.now)

    def look(self, *watches: Watch) -> None:
        """Let each look, all at once."""
        import psycopg

        async def all_look() -> None:
            async def one(watch: Watch) -> None:
                async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
                    await watch.look(connection)

            await asyncio.gather(*(one(watch) for watch in watches))

        asyncio.run(all_look())

    def pass_by(self, watch: Watch, seconds: float, then: Callable[[], object] = lambda: None) -> None:
        """Let time pass, with a look at each of the watch's intervals."""
        for _ in range(round(seconds / watch.interval)):
            self.now += watch.interval
            then()
            self.look(watch)

    def beat(self) -> None:
        """Beat, as the worker does."""
        self.one("SELECT procrastinate_update_heartbeat_v1(%s)", self.worker)


@pytest.fixture
def world(pg_url: str) -> Iterator[World]:
    made = World(pg_url)
    yield made
    made.connection.close()


def test_who_does_not_beat_for_the_whole_time_is_dead_once(world: World) -> None:
    watch = world.watch()
    world.look(watch)
    world.pass_by(watch, 8.0)
    assert world.died == []
    world.pass_by(watch, 4.0)
    assert [(task.submission, task.deaths) for task in world.died] == [("s1", 1)]
    world.pass_by(watch, 20.0)
    assert len(world.died) == 1


def test_who_beats_lives_for_ever(world: World) -> None:
    watch = world.watch()
    world.look(watch)
    world.pass_by(watch, 40.0, world.beat)
    assert world.died == []


def test_a_heartbeat_from_long_ago_is_no_death_when_the_watch_begins_or_could_not_look(world: World) -> None:
    world.one("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '59 minutes' RETURNING 1")
    watch = world.watch()
    world.look(watch)
    assert world.died == []
    world.now += 3600.0  # the database was away for an hour
    world.look(watch)
    world.beat()  # it comes back as the watch does
    world.pass_by(watch, 8.0)
    assert world.died == []


def test_a_clock_of_the_database_that_is_set_makes_nobody_dead(world: World) -> None:
    watch = world.watch()
    world.look(watch)
    for minutes in (-50, 50, -20):
        world.one(
            f"UPDATE procrastinate_workers SET last_heartbeat = now() + interval '{minutes} minutes' RETURNING 1"
        )
        world.pass_by(watch, 6.0)
    assert world.died == []


def test_two_watches_take_a_task_back_once(world: World) -> None:
    first, second = world.watch(), world.watch()
    world.look(first, second)
    for _ in range(6):
        world.now += first.interval
        world.look(first, second)
    assert [task.deaths for task in world.died] == [1]
    rows = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
    assert world.one(rows) == 1


def test_a_task_that_waits_again_already_is_not_deferred_beside_it(world: World) -> None:
    """Between its next try and its own end the worker was killed: one row is doing, one waits."""
    insert = (
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args) SELECT queue_name, "
        "task_name, lock, queueing_lock, args FROM procrastinate_jobs RETURNING id"
    )
    world.one(insert)
    watch = world.watch()
    world.look(watch)
    world.pass_by(watch, 12.0)
    assert world.one("SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'") == 1
    assert world.one("SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'") == 1


def test_what_was_to_be_aborted_and_its_worker_died_is_ended_and_not_tried_again(world: World) -> None:
    with Tasks(world.url) as tasks:
        assert tasks.cancel("s1") == 1
    watch = world.watch()
    world.look(watch)
    world.pass_by(watch, 12.0)
    assert world.one("SELECT string_agg(status::text, ' ') FROM procrastinate_jobs") == "aborted"


def test_workers_that_left_long_ago_are_forgotten(world: World) -> None:
    world.one("SELECT procrastinate_finish_job_v1(id, 'succeeded', true) FROM procrastinate_jobs")
    world.one("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '2 hours' RETURNING 1")
    watch = world.watch()
    world.look(watch)
    world.pass_by(watch, 12.0)
    assert world.one("SELECT count(*) FROM procrastinate_workers") == 0
