"""Logins of the database in a thief's hands, in a real fleet: what an intake's or a worker's login can write."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from acceptd.errors import StateError
from acceptd.fleet.alone import KEY, Alone
from acceptd.fleet.task import FleetTask, Kind
from acceptd.record.entry import utc_now
from acceptd.release.book import read_book
from tests.fleet.postgres import OWNER, Server
from tests.fleet.roles_world import TEAM, Fleet

pytestmark = pytest.mark.acceptance

LONG_AGO = "2020-01-01T00:00:00Z"
ROW = {
    "id": "poison", "team": TEAM, "name": "n", "path": "/nowhere", "kind": "directory", "state": "claimed",
    "received_at": LONG_AGO, "updated_at": LONG_AGO, "data": "{}", "node": "intake",
}  # fmt: skip
POISON: list[dict[str, object]] = [
    {"data": "no JSON"},
    {"data": "[]"},
    {"data": "[" * 100_000},
    {"data": '{"sealed": 7, "order": 8}'},
    {"data": '{"sealed": {"digest": 1}, "seal": 2, "unpack": 3, "declared_model": 4}'},
    {"team": "a team"},
    {"team": "\u202e\x1b[31m"},
    {"id": "../keys"},
    {"id": "x" * 200},
    {"id": "\u00e9"},
    {"node": "no node"},
    {"uid": 2**62},
    {"name": "\x1b]0;x\x07\n" * 50},
]
REFUSED: list[dict[str, object]] = [
    {"received_at": ""},
    {"received_at": "long ago"},
    {"received_at": LONG_AGO},
    {"received_at": "2999-01-01T00:00:00Z"},
    {"model": "no\nmodel"},
    {"state": "done"},
]
"""What an intake's login cannot even write; whoever owns the tables can."""


@pytest.fixture(scope="module")
def fleet(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), postgres)
    for name, role in (("promoter", "promoter"), ("intake", "intake"), ("w1", "worker")):
        made.node(name, role)  # type: ignore[arg-type]
    made.start("promoter", "intake", "w1")
    yield made
    made.close()


def write(fleet: Fleet, who: str, statement: str, *values: object) -> None:
    """Run one statement with the login of a node, or as the owner of the tables."""
    login = who if who == OWNER else fleet.login(who, fleet.roles[who])
    with fleet.server.connected(fleet.database, login) as connection:
        connection.execute(statement, values)


def insert(fleet: Fleet, who: str = "intake", **values: object) -> None:
    row = {**ROW, "received_at": utc_now(), **values}
    write(
        fleet, who,
        f"INSERT INTO submissions ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", *row.values(),
    )  # fmt: skip


def test_an_accepted_bundle_goes_to_no_channel_that_the_verdict_did_not_name(fleet: Fleet) -> None:
    import psycopg

    good = fleet.accepted("good")
    fleet.whole()
    document = json.loads(
        fleet.server.execute(
            f"SELECT data FROM submissions WHERE id = '{good['submission']}'", database=fleet.database
        )[0][0]
    )
    forged = json.dumps({**document, "promote": ["canary"], "release": None})
    back = "UPDATE submissions SET state = 'judged', updated_at = %s, data = %s WHERE id = %s"
    with pytest.raises(
        psycopg.errors.InsufficientPrivilege, match="no intake takes a submission from done to judged"
    ):
        write(fleet, "intake", back, LONG_AGO, forged, good["submission"])
    write(fleet, OWNER, back, LONG_AGO, forged, good["submission"])  # and where somebody could
    fleet.whole()
    with fleet.ledger() as ledger:
        assert {channel for _, channel in read_book(ledger).channels} == {"production"}


def test_rows_that_nobody_can_work_keep_nobody_elses_waiting(fleet: Fleet) -> None:
    import psycopg

    for state in ("claimed", "sealed"):
        for number, changes in enumerate(POISON):
            key = changes.get("id", f"poison-{number}")
            insert(fleet, **{**changes, "id": f"{key}-{state}"})
            write(fleet, "intake", "UPDATE submissions SET state = %s WHERE id = %s", state, f"{key}-{state}")
    for number, changes in enumerate(REFUSED):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            insert(fleet, **{**changes, "id": f"refused-{number}"})
        insert(fleet, OWNER, **{**changes, "id": f"refused-{number}"})
    fleet.kill("promoter")  # and whatever it would have said of them
    name = fleet.put("behind", model_id=f"{TEAM}/behind")
    fleet.until(
        lambda: fleet.server.execute(
            f"SELECT 1 FROM submissions WHERE name = '{name}' AND state = 'sealed'", database=fleet.database
        ),
        "it is sealed",
    )
    fleet.server.execute("DELETE FROM procrastinate_jobs", database=fleet.database)  # lost: the record brings it
    fleet.start("promoter")
    assert fleet.verdict(name)["verdict"] == "accepted"


def defer(fleet: Fleet, who: str, task: FleetTask, more: str = "NULL") -> None:
    """Put a task into the queue by hand, with the login of a node."""
    write(
        fleet, who,
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, scheduled_at) "
        f"VALUES (%s, %s, %s, %s, %s, {more})",
        task.queue, f"acceptd.{task.kind}", task.lock, task.key, json.dumps(task.args()),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("who", "kind", "what", "queue", "when"),
    [
        ("w1", "given-up", "finish", "promoter", "NULL"),
        ("w1", "given-up", "order", "promoter", "NULL"),
        ("w1", "given-up", "decide", "promoter", "NULL"),
        ("w1", "given-up", None, "promoter", "NULL"),
        ("intake", "given-up", "decide", "promoter", "NULL"),
        ("intake", "given-up", "examine", "promoter", "NULL"),
        ("w1", "decide", None, "nowhere", "NULL"),
        ("w1", "decide", None, "promoter", "now() + interval '1 year'"),
        ("intake", "order", None, "promoter", "now() + interval '1 day'"),
    ],
)
def test_a_login_gives_up_only_what_its_role_takes_and_keeps_no_true_task_out(
    who: str, kind: Kind, what: Kind | None, queue: str, when: str, fleet: Fleet
) -> None:
    import psycopg

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        defer(fleet, who, FleetTask(kind=kind, queue=queue, submission="s", team=TEAM, what=what), when)


def test_a_login_gives_up_what_is_its_own_and_no_worker_what_it_does_not_hold(fleet: Fleet) -> None:
    import psycopg

    own = fleet.accepted("over")["submission"]  # and ended: nothing follows
    finish = FleetTask(kind="given-up", queue="promoter", submission=own, team=TEAM, what="finish")
    defer(fleet, "intake", finish)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        defer(fleet, "intake", finish.again(submission="another's"))
    for submission in (own, "another's"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            defer(fleet, "w1", finish.again(submission=submission, what="examine"))


@pytest.mark.parametrize("who", ["w1", "promoter"])
def test_a_promoter_that_is_kept_out_says_which_login_has_its_place(who: str, fleet: Fleet) -> None:
    other = fleet.server.fresh_database()  # the lock is each database's own
    login = fleet.login(who, fleet.roles[who])
    with fleet.server.connected(other, login) as thief:
        thief.execute("SELECT pg_advisory_lock(%s, %s)", KEY)
        url = fleet.server.url(other, fleet.login("promoter", "promoter"))
        with pytest.raises(StateError, match=f"another promoter works on this record: login '{login}'"):
            Alone(url, patience=0.0).__enter__()
    fleet.server.drop(other)
