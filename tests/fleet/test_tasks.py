"""The fleet's queue of tasks: what is deferred is done, once where nothing goes wrong, and in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from acceptd.errors import FleetAwayError, StateError
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.task import MAX_TRIES
from acceptd.fleet.tasks import Tasks
from tests.fleet.postgres import Server
from tests.fleet.tasks_world import ROLES, Ends, Seen, working

pytestmark = pytest.mark.acceptance


@pytest.fixture
def url(pg_url: str) -> str:
    apply_schema(pg_url)
    return pg_url


@pytest.fixture
def tasks(url: str) -> Iterator[Tasks]:
    with Tasks(url) as made:
        yield made


def test_what_is_deferred_reaches_the_handler_of_its_queue_and_leaves_no_row(url: str, tasks: Tasks) -> None:
    seen = {kind: Seen() for kind in ("order", "examine", "decide", "finish")}
    ends = Ends()
    with working(url, ["promoter", "cpu", "intake:a"], dict(seen), settled=ends):
        tasks.order("s1", "mosaic/a")
        tasks.examine("s1", 2, "cpu-int8", "cpu", "mosaic/a")
        tasks.decide("s1", "mosaic/a")
        tasks.finish("s1", "a", team="mosaic")
        for handler in seen.values():
            assert handler.next().submission == "s1"
        examined = seen["examine"].all[0]
        assert (examined.round, examined.profile, examined.team, examined.model) == (
            2,
            "cpu-int8",
            "mosaic",
            "mosaic/a",
        )
        assert sorted(ends.next() for _ in range(4)) == [("s1", "done")] * 4
    assert tasks.counts() == {}


def test_a_new_task_is_told_and_not_polled_for(url: str, tasks: Tasks) -> None:
    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()


def test_who_waits_for_a_lock_is_told_when_it_is_free(url: str, tasks: Tasks) -> None:
    seen = Seen()
    seen.go.clear()
    with (
        working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0),
        working(url, ["cpu"], {"examine": seen}, poll_seconds=3600.0),
    ):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/a")
        assert seen.nothing()
        seen.go.set()
        assert seen.next().submission == "s2"


def test_one_model_is_examined_in_the_order_of_its_drops_and_never_twice_at_once(url: str, tasks: Tasks) -> None:
    beside, most, lock = 0, 0, threading.Lock()

    def note(_: object) -> None:
        nonlocal beside, most
        with lock:
            beside += 1
            most = max(most, beside)
        threading.Event().wait(0.01)
        with lock:
            beside -= 1

    seen = Seen(note)
    for number in range(12):
        assert tasks.examine(f"s{number}", 1, "cpu", "cpu", "mosaic/a") == "queued"
    with working(url, ["cpu"], {"examine": seen}, slots=3), working(url, ["cpu"], {"examine": seen}, slots=3):
        assert [seen.next().submission for _ in range(12)] == [f"s{number}" for number in range(12)]
    assert most == 1


def test_two_models_and_two_profiles_are_examined_side_by_side(url: str, tasks: Tasks) -> None:
    seen = Seen()
    seen.go.clear()
    tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    tasks.examine("s1", 1, "int8", "cpu", "mosaic/a")
    tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")
    with working(url, ["cpu"], {"examine": seen}, slots=3):
        assert len({(task.submission, task.profile) for task in (seen.next() for _ in range(3))}) == 3
        seen.go.set()


def test_the_same_task_is_in_the_queue_once_whoever_defers_it_and_however_often(url: str, tasks: Tasks) -> None:
    told: list[str] = []

    def defer() -> None:
        for _ in range(10):
            told.append(tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a"))

    threads = [threading.Thread(target=defer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.count("queued") == 1
    assert told.count("known") == 39
    seen = Seen()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}):
        seen.next()
        assert tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a") == "known"  # it runs
        assert tasks.examine("s1", 2, "cpu", "cpu", "mosaic/a") == "queued"  # another round is another task
        seen.go.set()


def test_evidence_that_comes_while_it_is_decided_is_decided_about_once_more(url: str, tasks: Tasks) -> None:
    """The decision under way may have looked before: counted as the same one, nobody would look again."""
    seen = Seen()
    seen.go.clear()
    assert tasks.decide("s1", "mosaic/a") == "queued"
    with working(url, ["promoter"], {"decide": seen}, slots=2):
        seen.next()
        assert tasks.decide("s1", "mosaic/a") == "queued"
        assert tasks.decide("s1", "mosaic/a") == "known", "one more is enough for all that came"
        seen.go.set()
        seen.next()
        assert tasks.decide("s2", "mosaic/a") == "queued"


def test_a_task_is_deferred_with_the_records_change_or_neither_is(url: str, tasks: Tasks) -> None:
    from sqlalchemy import create_engine, text

    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as change:
        change.execute(text("CREATE TABLE told (n int)"))
    with engine.connect() as change:
        change.execute(text("INSERT INTO told VALUES (1)"))
        assert tasks.order("s1", "mosaic/a", within=change) == "queued"
        change.rollback()
    assert tasks.counts() == {}
    tasks.order("s1", "mosaic/a")
    with engine.begin() as change:  # what is known already does not undo the record's change
        assert tasks.order("s1", "mosaic/a", within=change) == "known"
        change.execute(text("INSERT INTO told VALUES (2)"))
        assert tasks.order("s2", "mosaic/a", within=change) == "queued"
        assert tasks.counts() == {"promoter": {"todo": 1}}  # nobody sees it yet
    assert tasks.counts() == {"promoter": {"todo": 2}}
    with engine.connect() as look:
        assert look.execute(text("SELECT n FROM told")).scalars().all() == [2]
    engine.dispose()


def test_only_inconclusive_is_tried_again_and_only_so_often(url: str, tasks: Tasks) -> None:
    unclear, clear, ends = Seen(lambda _: "inconclusive"), Seen(), Ends()
    with working(url, ["cpu", "promoter"], {"examine": unclear, "decide": clear}, settled=ends):
        tasks.decide("s1", "mosaic/a")
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")
        tries = [unclear.next() for _ in range(MAX_TRIES)]
        assert [task.last_try for task in tries] == [False, False, True]
        assert sorted(ends.next() for _ in range(4)) == [
            ("s1", "done"), ("s2", "done"), ("s2", "inconclusive"), ("s2", "inconclusive"),
        ]  # fmt: skip
    assert tasks.counts() == {}
    assert (len(clear.all), len(unclear.all)) == (1, MAX_TRIES)


def test_another_node_is_preferred_for_the_second_try(url: str, tasks: Tasks) -> None:
    first, second = Seen(lambda _: "inconclusive"), Seen()
    with working(url, ["cpu"], {"examine": first}, node="a", slots=1) as a:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        assert first.next().tries == 0
        a.drain()  # from here on nothing but the second node is free
        with working(url, ["cpu"], {"examine": second}, node="b", slots=1):
            assert second.next().avoid == "a"


def test_a_node_that_is_alone_tries_again_itself(url: str, tasks: Tasks) -> None:
    answers = iter(["inconclusive", None])
    seen = Seen(lambda _: next(answers))
    with working(url, ["cpu"], {"examine": seen}, node="a", poll_seconds=0.05):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        assert [seen.next().tries, seen.next().tries] == [0, 1]


@pytest.mark.parametrize("error", [FleetAwayError("the object store is away"), ConnectionResetError("cut")])
def test_what_is_away_is_waited_for_and_is_nobodys_death(url: str, tasks: Tasks, error: Exception) -> None:
    left = [error] * 5

    def answer(_: object) -> None:
        if left:
            raise left.pop()

    seen, ends = Seen(answer), Ends()
    with working(url, ["cpu"], {"examine": seen}, settled=ends, poll_seconds=0.05, back_off=0.01):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        assert [ends.next()[1] for _ in range(6)] == ["away"] * 5 + ["done"]
    assert {(task.deaths, task.tries) for task in seen.all} == {(0, 0)}


def test_a_handler_that_fails_as_nobody_foresaw_twice_is_given_up_to_the_promoter(url: str, tasks: Tasks) -> None:
    broken, given_up = Seen(lambda _: 1 // 0), Seen()
    with working(url, ["cpu", "promoter"], {"examine": broken, "given-up": given_up}):
        tasks.examine("s1", 3, "cpu", "cpu", "mosaic/a")
        task = given_up.next()
    assert (task.submission, task.round, task.profile, task.what, task.deaths) == ("s1", 3, "cpu", "examine", 2)
    assert len(broken.all) == 2


def test_a_submission_that_is_cancelled_while_it_waits_is_never_begun(url: str, tasks: Tasks) -> None:
    for profile in ("cpu", "int8"):
        tasks.examine("s1", 1, profile, "cpu", "mosaic/a")
    tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")
    tasks.finish("s1", "a", team="mosaic")
    assert tasks.cancel("s1") == 2
    assert tasks.cancel("s1") == 0
    seen = Seen()
    with working(url, ["cpu"], {"examine": seen}):
        assert seen.next().submission == "s2"
        assert seen.nothing()
    assert tasks.counts()["intake:a"] == {"todo": 1}  # what says that it has ended is not cancelled with it


def test_a_submission_that_is_cancelled_while_it_runs_is_told_and_not_queued_again(url: str, tasks: Tasks) -> None:
    seen, ends = Seen(), Ends()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}, settled=ends, beat_seconds=3600.0):
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        assert tasks.cancel("s1") == 1
        assert seen.cancels.get(timeout=30) == "withdrawn"
        assert ends.next() == ("s1", "withdrawn")
    assert tasks.counts() == {"cpu": {"aborted": 1}}
    assert tasks.forget(1) == 0
    assert tasks.forget(0) == 1
    assert tasks.counts() == {}


def test_a_drain_finishes_what_runs_and_takes_no_more(url: str, tasks: Tasks) -> None:
    seen, ends = Seen(), Ends()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}, slots=1, settled=ends) as worker:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        tasks.examine("s2", 1, "cpu", "cpu", "mosaic/b")
        seen.next()
        worker.drain()
        seen.go.set()
        worker.thread.join(30)
        assert not worker.thread.is_alive()
        assert worker.stop() is True
    assert ends.next() == ("s1", "done")
    assert tasks.counts() == {"cpu": {"todo": 1}}


def test_a_stop_gives_back_what_does_not_end_in_time_as_nobodys_death(url: str, tasks: Tasks) -> None:
    seen = Seen()
    seen.go.clear()
    with working(url, ["cpu"], {"examine": seen}) as worker:
        tasks.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        seen.next()
        assert worker.stop(0.1) is False
        assert seen.cancels.get(timeout=30) == "stop"
    assert tasks.counts() == {"cpu": {"todo": 1}}
    again = Seen()
    with working(url, ["cpu"], {"examine": again}):
        task = again.next()
    assert (task.deaths, task.tries) == (0, 0)


def test_the_schema_is_made_once_however_often_and_by_however_many(pg_url: str) -> None:
    made: list[list[str]] = []
    threads = [threading.Thread(target=lambda: made.append(apply_schema(pg_url))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(bool, made)) == [False, False, True]
    assert apply_schema(pg_url) == []


def test_the_schema_is_applied_beside_nodes_at_work_without_touching_it(postgres: Server, url: str) -> None:
    """Whoever holds a task in a transaction is not waited for, where nothing is to be done."""
    import psycopg

    with psycopg.connect(url) as busy:
        busy.execute("LOCK TABLE procrastinate_jobs IN ROW EXCLUSIVE MODE")
        assert apply_schema(url) == []
    postgres.execute(
        "COMMENT ON TABLE procrastinate_jobs IS 'of another version'", database=url.rpartition("/")[2]
    )
    assert apply_schema(url) == []


def test_tables_of_a_later_version_and_of_somebody_else_are_refused(postgres: Server, url: str) -> None:
    name = url.rpartition("/")[2]
    postgres.execute("INSERT INTO acceptd_tasks_schema VALUES ('99.00.00_01_pre_something.sql')", database=name)
    with pytest.raises(StateError, match=r"newer than this acceptd.*upgrade this node"):
        apply_schema(url)
    postgres.execute("DELETE FROM acceptd_tasks_schema", database=name)
    with pytest.raises(StateError, match="that acceptd did not make"):
        apply_schema(url)


def test_a_database_that_is_away_is_told_as_that(postgres: Server) -> None:
    with (
        Tasks(postgres.url("nowhere"), patience=0.2) as tasks,
        pytest.raises(FleetAwayError, match="cannot be used now"),
    ):
        tasks.decide("s1", "mosaic/a")
    with pytest.raises(FleetAwayError):
        apply_schema(postgres.url("nowhere"))


def test_the_three_roles_are_those_of_the_grants() -> None:
    from acceptd.fleet import schema

    assert schema.ROLES == ROLES
