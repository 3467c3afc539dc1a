"""Workers that die, sleep and lose the database: each task is done all the same, and counted rightly."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import StateError
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.task import FleetTask
from acceptd.fleet.tasks import Tasks
from tests.fleet.postgres import Server
from tests.fleet.tasks_world import PATIENCE, Ends, Process, Seen, watch, working

pytestmark = [pytest.mark.acceptance, pytest.mark.crash]


@pytest.fixture
def url(pg_url: str) -> str:
    apply_schema(pg_url)
    return pg_url


@pytest.fixture
def tasks(url: str) -> Iterator[Tasks]:
    with Tasks(url) as made:
        yield made


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for process in made:
        process.close()


def test_the_task_of_a_killed_worker_is_taken_up_by_another_as_one_death(
    url: str, tasks: Tasks, processes: list[Process]
) -> None:
    processes.append(Process(url, "cpu"))
    tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    assert processes[0].line() == ["began", "s1", "0"]
    processes[0].kill()
    seen, died = Seen(), queue.Queue[FleetTask]()
    with working(url, ["cpu"], {"examine": seen}, watch=watch(died=died.put), slots=1, poll_seconds=3600.0):
        assert died.get(timeout=PATIENCE).deaths == 1
        assert seen.next().deaths == 1
    counts = tasks.counts()["cpu"]
    assert counts == {"failed": 1}  # what became of the first try is to be read for a while


def test_a_node_that_starts_again_takes_back_at_once_what_its_killed_self_held(
    url: str, tasks: Tasks, processes: list[Process], tmp_path: Path
) -> None:
    former = tmp_path / "tasks"
    tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    processes.append(Process(url, "cpu", former=str(former)))
    assert processes[0].line() == ["began", "s1", "0"]
    while not former.exists():
        threading.Event().wait(0.01)
    processes[0].kill()
    processes.append(Process(url, "cpu", former=str(former)))  # and no watch
    assert processes[1].line() == ["began", "s1", "1"]
    processes[1].go()
    assert processes[1].line() == ["ended", "s1"]


@pytest.mark.parametrize("written", ["", "x", "-1", "9" * 400, "\0"])
def test_a_file_of_the_former_worker_that_is_none_hinders_no_start(
    url: str, tasks: Tasks, tmp_path: Path, written: str
) -> None:
    former, seen = tmp_path / "tasks", Seen()
    former.write_text(written)
    with working(url, ["cpu"], {"examine": seen}, former=former):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        assert seen.next().submission == "s1"


def test_two_deaths_are_given_up_to_the_promoter(url: str, tasks: Tasks, processes: list[Process]) -> None:
    given_up = Seen()
    tasks.examine("s1", 4, "int8", "cpu", "mosaic/a")
    with working(url, ["promoter"], {"given-up": given_up}, watch=watch()):
        for deaths in ("0", "1"):
            processes.append(Process(url, "cpu"))
            assert processes[-1].line() == ["began", "s1", deaths]
            processes[-1].kill()
        task = given_up.next()
        assert (task.submission, task.round, task.profile) == ("s1", 4, "int8")
        assert (task.what, task.deaths, task.team) == ("examine", 2, "mosaic")
    assert "todo" not in tasks.counts().get("cpu", {})


def test_a_worker_that_slept_while_its_task_was_given_away_is_told_and_ends_nothing_of_the_others(
    url: str, tasks: Tasks, processes: list[Process]
) -> None:
    processes.append(Process(url, "cpu"))
    tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    assert processes[0].line() == ["began", "s1", "0"]
    processes[0].signal(signal.SIGSTOP)
    seen, ends = Seen(), Ends()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}, watch=watch(), settled=ends, slots=1) as worker:
        assert seen.next().deaths == 1
        processes[0].signal(signal.SIGCONT)
        assert processes[0].line() == ["cancelled", "s1", "interrupted"]
        processes[0].go()
        assert processes[0].line() == ["ended", "s1"]
        assert processes[0].line()[0] == "settled"
        # Its end changed nothing: the other one's row is held, its lock too.
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/a")
        assert [one.task.submission for one in worker.running] == ["s1"]
        assert tasks.counts()["cpu"]["doing"] == 1
        assert [task.submission for task in tasks.running()] == ["s1"]
        seen.go.set()
        assert ends.next() == ("s1", "done")
        worker.drain()
        worker.thread.join(PATIENCE)
    # And it works on, under a registration of its own.
    assert processes[0].line() == ["began", "s2", "0"]


def test_a_worker_that_was_taken_for_dead_while_idle_registers_anew(url: str, tasks: Tasks) -> None:
    import psycopg

    seen = Seen()
    with (
        psycopg.connect(url, autocommit=True) as connection,
        working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0),
    ):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        connection.execute("LISTEN told")
        connection.execute(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_notify('told', ''); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE TRIGGER tell AFTER INSERT ON procrastinate_workers FOR EACH ROW EXECUTE FUNCTION tell()"
        )
        connection.execute("DELETE FROM procrastinate_workers")
        assert list(connection.notifies(timeout=PATIENCE, stop_after=1))
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/a")
        assert seen.next().deaths == 0


def test_a_worker_that_slept_and_was_not_missed_goes_on(url: str, tasks: Tasks, processes: list[Process]) -> None:
    processes.append(Process(url, "cpu"))
    tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    assert processes[0].line() == ["began", "s1", "0"]
    with working(url, ["promoter"], {}, watch=watch(PATIENCE)):
        processes[0].signal(signal.SIGSTOP)
        processes[0].signal(signal.SIGCONT)
        processes[0].go()
        assert processes[0].line() == ["ended", "s1"]
        assert processes[0].line() == ["settled", "s1", "done"]


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_restart_of_the_database_loses_nothing_and_is_nobodys_death(own_postgres: Server, how: str) -> None:
    url = own_postgres.url(own_postgres.fresh_database())
    apply_schema(url)
    seen, ends = Seen(), Ends()
    seen.go.clear()
    with Tasks(url) as tasks, working(url, ["cpu"], {"examine": seen}, watch=watch(3.0), settled=ends) as worker:
        for number in range(6):
            tasks.examine(f"s{number}", 1, "cpu", "cpu", f"mosaic/m{number}")
        first = {seen.next().submission, seen.next().submission}
        own_postgres.restart(how)
        for number in range(6):  # as housekeeping does, from the record: the last of them may not be on disk
            tasks.examine(f"s{number}", 1, "cpu", "cpu", f"mosaic/m{number}")
        seen.go.set()
        done: dict[str, str] = {}
        while len(done) < 6:
            done |= [ends.next()]
        assert set(done.values()) == {"done"}
        assert first < done.keys()
        tasks.examine("late", 1, "cpu", "cpu", "mosaic/late")  # its connections are new ones
        # What ended while nobody could be told may come once more: at least once is the promise.
        again = iter(ends.next, None)
        assert next(one for one in again if one[0] not in done) == ("late", "done")
        assert worker.thread.is_alive()
    assert {task.submission for task in seen.all} == {*done, "late"}
    assert not any(task.deaths for task in seen.all)
    with Tasks(url) as tasks:
        assert not any("doing" in states for states in tasks.counts().values())


def test_an_outage_longer_than_a_worker_may_be_silent_makes_nobody_dead(own_postgres: Server) -> None:
    url = own_postgres.url(own_postgres.fresh_database())
    apply_schema(url)
    seen, ends, died = Seen(), Ends(), queue.Queue[FleetTask]()
    seen.go.clear()
    with (
        Tasks(url) as tasks,
        working(url, ["promoter"], {}, watch=watch(1.5, died=died.put)),
        working(url, ["cpu"], {"examine": seen}, settled=ends) as worker,
    ):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        own_postgres.stop("immediate")
        ended = Ends()
        assert ended.queue.empty()
        seen.go.set()  # it ends while nobody can be told
        assert not worker.thread.join(4.0)
        own_postgres.start()
        assert ends.next() == ("s1", "done")
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")
        again = iter(ends.next, None)  # after an outage the first may come once more: at least once is the promise
        assert next(one for one in again if one != ("s1", "done")) == ("s2", "done")
    assert died.empty()
    assert [task.submission for task in seen.all] == ["s1", "s2"]


def test_a_node_starts_before_its_database_and_stops_without_it(own_postgres: Server) -> None:
    name = own_postgres.fresh_database()
    url = own_postgres.url(name)
    apply_schema(url)
    own_postgres.stop()
    from acceptd.fleet.taskworker import TaskWorker

    seen = Seen()
    worker = TaskWorker(url, ["cpu"], 1, {"examine": seen}, beat_seconds=0.2)
    worker.start()
    assert not worker.connected.wait(0.5) or worker.thread.is_alive()
    own_postgres.start()
    with Tasks(url) as tasks:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    assert seen.next().submission == "s1"
    own_postgres.stop("immediate")
    worker.stop(0.1)
    assert not worker.thread.is_alive()


def test_a_task_that_was_fetched_and_never_told_of_goes_back_as_nobodys_death(url: str, tasks: Tasks) -> None:
    """The answer to the fetch is lost with the connection: the row is held, and nobody works it."""
    import psycopg

    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0) as worker:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        with psycopg.connect(url, autocommit=True) as connection:
            me = connection.execute("SELECT id FROM procrastinate_workers").fetchone()
            assert me is not None
            connection.execute(
                "INSERT INTO procrastinate_jobs "
                "(queue_name, task_name, lock, queueing_lock, args, status, worker_id)"
                " VALUES ('cpu', 'acceptd.examine', 'l', 'k', '{\"submission\":\"s2\"}', 'doing', %s)",
                me,
            )
        task = seen.next()
        assert (task.submission, task.deaths) == ("s2", 0)
        assert worker.thread.is_alive()


HOSTILE: list[tuple[str, str]] = [
    ("acceptd.examine", "{}"),
    ("acceptd.examine", '{"submission": "s1", "more": 1}'),
    ("acceptd.examine", '{"submission": "s1", "deaths": -1}'),
    ("acceptd.examine", '{"submission": "\\u001b[31m"}'),
    ("acceptd.examine", '{"submission": "s1", "context": 1, "self": 2}'),
    ("acceptd.examine", '["s1"]'),
    ("acceptd.examine", '"s1"'),
    ("acceptd.nothing", '{"submission": "s1"}'),
    ("builtin:procrastinate.builtin_tasks.remove_old_jobs", '{"max_hours": 0}'),
]


def test_rows_that_are_none_of_ours_are_worked_by_nobody_and_stop_nobody(url: str, tasks: Tasks) -> None:
    for name, args in HOSTILE:
        _insert(url, name, args)
    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}, slots=1) as worker:
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")  # its turn is after theirs
        assert seen.next().submission == "s2"
        assert worker.thread.is_alive()
    assert [task.submission for task in seen.all] == ["s2"]
    assert "todo" not in tasks.counts().get("cpu", {})


def test_a_dead_workers_row_that_is_none_of_ours_does_not_stop_the_watch(url: str, tasks: Tasks) -> None:
    _insert(url, "acceptd.examine", '{"more": 1}', status="doing")
    _insert(url, "acceptd.examine", '{"submission": "s2", "team": "mosaic"}', status="doing")
    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}, watch=watch()):
        task = seen.next()
    assert (task.submission, task.deaths) == ("s2", 1)


def test_a_row_larger_than_a_task_is_refused_by_the_database(url: str) -> None:
    import psycopg

    with pytest.raises(psycopg.errors.CheckViolation):
        _insert(url, "acceptd.examine", '{"submission": "' + "s" * 5000 + '"}')


PAYLOADS = ["", "{", "[]", "1", '{"type": 1}', '{"type": "abort_job_requested"}', "\\", '{"type": "job_inserted"}']
PAYLOADS += ["[" * 7900, '{"type":' * 900]  # deeper than a parser goes, within what a notification may hold


def test_notifications_that_are_none_end_no_worker(url: str, tasks: Tasks) -> None:
    import psycopg

    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0):
        with psycopg.connect(url, autocommit=True) as connection:
            for payload in PAYLOADS:
                connection.execute("SELECT pg_notify('procrastinate_queue_v1#cpu', %s)", (payload,))
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        assert seen.next().submission == "s1"


def test_a_notification_ends_no_work_that_the_queue_wants_done(url: str, tasks: Tasks) -> None:
    import psycopg

    seen, ends = Seen(), Ends()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}, settled=ends):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        number = seen.next().number
        with psycopg.connect(url, autocommit=True) as connection:
            told = f'{{"type": "abort_job_requested", "job_id": {number}}}'
            connection.execute("SELECT pg_notify('procrastinate_queue_v1#cpu', %s)", (told,))
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")  # told of after it
        assert seen.next().submission == "s2"
        assert seen.cancels.empty()
        seen.go.set()
        assert {ends.next(), ends.next()} == {("s1", "done"), ("s2", "done")}


def test_a_url_that_is_none_is_told_as_that() -> None:
    with pytest.raises(StateError, match="refused"):
        Tasks("postgresql://host:port:port/x y=z")


def _insert(url: str, name: str, args: str, status: str = "todo") -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        values: tuple[Any, ...] = (name, args, status)
        connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status) VALUES ('cpu', %s, %s, %s)",
            values,
        )
