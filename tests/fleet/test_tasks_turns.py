"""Floods and roles: no team starves another, the queue stays small, and no role does what is another's."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, insert, update

from acceptd.errors import StateError
from acceptd.fleet.ready import make_ready
from acceptd.fleet.refill import Refill
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.task import FleetTask
from acceptd.fleet.tasks import Offered, Tasks
from acceptd.record.queue import Queue
from acceptd.record.tables import submissions
from tests.fleet.postgres import Server
from tests.fleet.record_world import make_record
from tests.fleet.tasks_world import ROLES, Seen, working

pytestmark = [pytest.mark.acceptance, pytest.mark.hostile]


@pytest.fixture
def engine(pg_url: str) -> Iterator[Engine]:
    made = create_engine(pg_url.replace("postgresql:", "postgresql+psycopg:"))
    submissions.create(made)
    apply_schema(pg_url)
    yield made
    made.dispose()


@pytest.fixture
def url(engine: Engine, pg_url: str) -> str:
    return pg_url


class Fetcher:
    """Takes tasks one after another, as one slot does, without running anything."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        row = self._connection.execute("SELECT worker_id FROM procrastinate_register_worker_v1()").fetchone()
        assert row is not None
        self._worker = row[0]

    def next(self) -> tuple[str, str]:
        """Fetch and end the next; return its team and submission."""
        found = self._connection.execute(
            "SELECT id, args->>'team', args->>'submission' FROM procrastinate_fetch_job_v2(%s, %s)",
            (["cpu"], self._worker),
        ).fetchone()
        assert found is not None
        if found[0] is not None:
            self._connection.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', true)", (found[0],))
        return found[1], found[2]

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()


@pytest.fixture
def fetcher(url: str) -> Iterator[Fetcher]:
    made = Fetcher(url)
    yield made
    made.close()


def _drop(engine: Engine, team: str, numbers: range) -> None:
    same = {"team": team, "name": "m", "path": "/", "kind": "directory", "state": "sealed"}
    same |= {"updated_at": "", "data": "{}"}
    at = "2026-11-30T12:{:02d}:{:02d}Z"
    rows = [{**same, "id": f"{team}-{one:05d}", "received_at": at.format(*divmod(one, 60))} for one in numbers]
    with engine.begin() as change:
        change.execute(insert(submissions), rows)


def test_a_flood_of_one_team_costs_the_others_one_turn_each(url: str, fetcher: Fetcher) -> None:
    with Tasks(url) as tasks:
        for number in range(50):
            tasks.examine(f"f{number}", 1, "cpu", "cpu", f"flood/m{number}")
        for number in range(3):
            tasks.examine(f"a{number}", 1, "cpu", "cpu", f"amber/m{number}")
            tasks.examine(f"b{number}", 1, "cpu", "cpu", f"birch/m{number}")
        teams = [fetcher.next()[0] for _ in range(10)]
    assert Counter(teams[:9]) == {"flood": 3, "amber": 3, "birch": 3}
    assert all(set(turn) == {"flood", "amber", "birch"} for turn in (teams[:3], teams[3:6], teams[6:9]))


def test_drops_that_never_stop_coming_starve_no_flood(url: str, fetcher: Fetcher) -> None:
    with Tasks(url) as tasks:
        for number in range(20):
            tasks.examine(f"f{number}", 1, "cpu", "cpu", f"flood/m{number}")
        served: list[str] = []
        for number in range(20):  # two teams with a fresh drop for each turn, one slot
            tasks.examine(f"a{number}", 1, "cpu", "cpu", f"amber/m{number}")
            tasks.examine(f"b{number}", 1, "cpu", "cpu", f"birch/m{number}")
            served.append(fetcher.next()[0])
            served.append(fetcher.next()[0])
    assert all("flood" in served[start : start + 4] for start in range(36))


def test_a_team_that_was_away_has_no_turns_saved_up(url: str, fetcher: Fetcher) -> None:
    with Tasks(url) as tasks:
        for number in range(30):
            tasks.examine(f"f{number}", 1, "cpu", "cpu", f"flood/m{number}")
        for _ in range(10):
            fetcher.next()
        for number in range(10):
            tasks.examine(f"a{number}", 1, "cpu", "cpu", f"amber/m{number}")
        teams = [fetcher.next()[0] for _ in range(10)]
    assert Counter(teams) == {"flood": 5, "amber": 5}


def test_what_finds_no_place_is_said_to_be_full_and_another_team_finds_one(url: str) -> None:
    with Tasks(url, team_places=4, all_places=6) as tasks:
        told = [tasks.examine(f"f{number}", 1, "cpu", "cpu", f"flood/m{number}") for number in range(6)]
        assert told == ["queued"] * 4 + ["full"] * 2
        assert tasks.examine("f0", 1, "cpu", "cpu", "flood/m0") == "known"
        assert tasks.examine("f4", 1, "openvino", "openvino", "flood/m4") == "queued"
        told = [tasks.examine(f"a{number}", 1, "cpu", "cpu", f"amber/m{number}") for number in range(3)]
        assert told == ["queued", "queued", "full"]
        assert tasks.examine("c0", 1, "cpu", "cpu", "cedar/m0") == "queued"  # each team finds one, always
        assert tasks.decide("f5", "flood/m5") == "queued"


def test_the_record_refills_the_queue_in_the_order_of_each_teams_drops(engine: Engine, url: str) -> None:
    _drop(engine, "flood", range(40))
    _drop(engine, "amber", range(2))
    finished: list[str] = []
    with Tasks(url, team_places=5) as tasks:

        def offer(submission: str) -> Offered:
            team = submission.partition("-")[0]
            return tasks.examine(submission, 1, "cpu", "cpu", f"{team}/{submission}")

        refill = Refill(engine.connect, offer)

        def done(task: FleetTask) -> None:
            with engine.begin() as change:
                change.execute(
                    update(submissions).where(submissions.c.id == task.submission).values(state="judged")
                )
            finished.append(task.submission)

        def settled(task: FleetTask, _: str) -> None:
            refill.team(task.team)

        assert refill.all() == 7
        assert refill.all() == 0
        assert tasks.counts() == {"cpu": {"todo": 7}}
        seen = Seen(done)
        with working(url, ["cpu"], {"examine": seen}, slots=1, settled=settled, poll_seconds=3600.0):
            for _ in range(42):
                seen.next()
    assert sorted(finished) == [f"amber-{n:05d}" for n in range(2)] + [f"flood-{n:05d}" for n in range(40)]
    assert {"amber-00000", "amber-00001"} < set(finished[:5])
    flood = [name for name in finished if name.startswith("flood")]
    assert flood == sorted(flood)


def test_a_task_that_an_accident_lost_is_deferred_again_from_the_record(engine: Engine, url: str) -> None:
    _drop(engine, "amber", range(1))
    with Tasks(url) as tasks:
        refill = Refill(engine.connect, lambda one: tasks.examine(one, 1, "cpu", "cpu", f"amber/{one}"))
        assert [refill.all(), refill.all()] == [1, 0]
        tasks.cancel("amber-00000")  # as a hostile worker would end it
        assert refill.all() == 1


@pytest.fixture
def roles(postgres: Server, tmp_path: Path) -> dict[str, str]:
    """The queue beside a record, where ``s1`` and ``s2`` are submissions of the intake ``a``."""
    record = make_record(tmp_path / "state", postgres)
    make_ready(record.state)
    for role in ROLES:
        postgres.execute(f"ALTER ROLE {role} LOGIN")
    record.ask("INSERT INTO fleet_logins VALUES ('a', 'acceptd_intake')")
    with record.open() as ledger:
        for submission in ("s1", "s2"):
            Queue(ledger).add(submission, team="mosaic", name="m", path="/", kind="directory", node="a")
    return {role.removeprefix("acceptd_"): postgres.url(record.name, role) for role in ROLES}


def test_each_role_defers_and_works_what_is_its_own(roles: dict[str, str]) -> None:
    order, examine, decide, finish = Seen(), Seen(), Seen(), Seen()
    examine.answer = lambda task: worker.decide(task.submission, "mosaic/a") and None  # while it holds the task
    with (
        Tasks(roles["intake"]) as intake,
        Tasks(roles["worker"]) as worker,
        Tasks(roles["promoter"]) as promoter,
        working(roles["promoter"], ["promoter"], {"order": order, "decide": decide}),
        working(roles["worker"], ["cpu"], {"examine": examine}),
        working(roles["intake"], ["intake:a"], {"finish": finish}),
    ):
        intake.order("s1", "mosaic/a")
        order.next()
        promoter.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        examine.next()
        decide.next()
        promoter.finish("s1", "a", team="mosaic")
        finish.next()


def test_an_intake_cancels_and_the_worker_hears_it(roles: dict[str, str]) -> None:
    examine = Seen()
    examine.go.clear()
    with (
        Tasks(roles["intake"]) as intake,
        Tasks(roles["promoter"]) as promoter,
        working(roles["worker"], ["cpu"], {"examine": examine}, slots=1),
    ):
        promoter.examine("s1", 1, "cpu", "cpu", "mosaic/a")
        examine.next()
        promoter.examine("s1", 2, "cpu", "cpu", "mosaic/a")
        assert intake.cancel("s1") == 2
        assert examine.cancels.get(timeout=30) == "withdrawn"
        assert examine.nothing()


REFUSED = [
    ("worker", "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('promoter', 'acceptd.order')"),
    ("worker", "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('intake:a', 'acceptd.finish')"),
    ("intake", "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('promoter', 'acceptd.decide')"),
    ("intake", "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('cpu', 'acceptd.examine')"),
    ("worker", "UPDATE procrastinate_jobs SET args = '{}'"),
    ("worker", "DROP TABLE procrastinate_jobs"),
    ("worker", "ALTER TABLE procrastinate_jobs DISABLE ROW LEVEL SECURITY"),
    ("worker", "TRUNCATE procrastinate_events"),
    ("worker", "INSERT INTO acceptd_tasks_schema VALUES ('99')"),
    ("promoter", "CREATE OR REPLACE FUNCTION acceptd_wake() RETURNS trigger LANGUAGE sql AS 'SELECT 1'"),
    ("intake", "UPDATE procrastinate_jobs SET args = '{}', queue_name = 'x' WHERE task_name = 'acceptd.examine'"),
]


@pytest.mark.parametrize(("role", "statement"), REFUSED)
def test_what_is_another_roles_is_refused_by_the_database(
    roles: dict[str, str], role: str, statement: str
) -> None:
    import psycopg

    with Tasks(roles["promoter"]) as promoter:
        promoter.examine("s1", 1, "cpu", "cpu", "mosaic/a")
    with (
        psycopg.connect(roles[role]) as connection,
        pytest.raises(psycopg.Error, match=r"denied|policy|must be owner"),
    ):
        connection.execute(statement)


NO_EFFECT = [
    ("worker", "UPDATE procrastinate_jobs SET status = 'cancelled' WHERE task_name <> 'acceptd.examine'"),
    ("worker", "DELETE FROM procrastinate_jobs WHERE task_name <> 'acceptd.examine'"),
    ("intake", "DELETE FROM procrastinate_jobs WHERE task_name <> 'acceptd.finish'"),
]


def test_no_role_ends_what_is_anothers(roles: dict[str, str]) -> None:
    import psycopg

    with Tasks(roles["promoter"]) as promoter:
        promoter.decide("s1", "mosaic/a")
        promoter.order("s2", "mosaic/a")
        for role, statement in NO_EFFECT:
            with psycopg.connect(roles[role], autocommit=True) as connection:
                assert connection.execute(statement).rowcount == 0
        assert promoter.counts() == {"promoter": {"todo": 2}}


def test_a_reviewer_sees_the_queue_and_changes_nothing(postgres: Server, roles: dict[str, str]) -> None:
    import psycopg

    postgres.execute("ALTER ROLE acceptd_reviewer LOGIN")
    reviewer = postgres.url(roles["promoter"].rpartition("/")[2], "acceptd_reviewer")
    with Tasks(roles["promoter"]) as promoter, Tasks(reviewer) as tasks:
        promoter.decide("s1", "mosaic/a")
        assert tasks.counts() == {"promoter": {"todo": 1}}
        with pytest.raises(StateError, match="permission denied"):
            tasks.decide("s2", "mosaic/a")
    with psycopg.connect(reviewer) as connection, pytest.raises(psycopg.Error, match="denied"):
        connection.execute("UPDATE procrastinate_jobs SET status = 'failed'")


def test_a_role_that_may_nothing_in_the_queue_is_told_so(postgres: Server, url: str) -> None:
    name = url.rpartition("/")[2]
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'stranger'"):
        postgres.execute("CREATE ROLE stranger LOGIN")
    with Tasks(postgres.url(name, "stranger")) as tasks, pytest.raises(StateError, match="permission denied"):
        tasks.decide("s1", "mosaic/a")


def test_turns_are_kept_by_the_tags_and_not_by_how_often_a_team_asks() -> None:
    """The tag is the queue's virtual time, or one more than the team's last: the arithmetic by itself."""
    from acceptd.fleet.tasks import _tag

    look = dict.fromkeys(("last", "started", "next"))
    assert _tag(look) == 0
    assert _tag({**look, "started": -7}) == 7
    assert _tag({**look, "started": -7, "next": -9}) == 9
    assert _tag({**look, "last": -12, "started": -7, "next": -9}) == 13
    assert [_tag({**look, "last": -n, "next": 0}) for n in itertools.islice(itertools.count(), 3)] == [1, 2, 3]
