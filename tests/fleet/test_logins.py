"""The login of one node in a thief's hands, tried on what is another node's; beside it the rightful login."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from acceptd.errors import ConfigError
from acceptd.fleet.nodes import Nodes, Told
from acceptd.fleet.ready import make_ready
from acceptd.fleet.schema import apply_schema
from acceptd.fleet.sites.powers import require_login
from acceptd.record import audit
from acceptd.record.place import Place
from acceptd.record.postgres import logins, roles
from tests.fleet import logins_world
from tests.fleet.logins_world import ROUND, beat, does, drop, signed, taken, task, tried
from tests.fleet.postgres import OWNER, Server
from tests.fleet.record_world import Record

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def record(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    made = logins_world.logins(tmp_path_factory.mktemp("state"), postgres)
    yield made
    postgres.drop(made.name)


SPOILS = {
    "its working data": "UPDATE submissions SET data = '{\"seal\": 1}' WHERE id = 'one'",
    "its end": "UPDATE submissions SET state = 'done' WHERE id = 'one'",
    "the mark of work on it": "UPDATE submissions SET working = NULL WHERE id = 'one'",
    "its deaths": "INSERT INTO deaths VALUES ('one', 'promoted', 9)",
    "deaths that are counted": "UPDATE deaths SET count = 9 WHERE submission = 'one'",
    "a drop in its name": drop("forged", "i1"),
    "how it says it stands": beat("i1", "intake"),
    "that its end is given up": task("given-up", "promoter", more='{"what": "finish"}'),
    "an order that died": task("order", "promoter", more='{"deaths": 1}'),
    "a task in its queue": task("finish", "intake:i1", more='{"deaths": 1}'),
    "its task, by taking it": "UPDATE procrastinate_jobs SET status = 'doing' WHERE queue_name = 'intake:i1'",
    "its task, by ending it": "DELETE FROM procrastinate_jobs WHERE queue_name = 'intake:i1'",
    "its examination, by cancelling it": (
        "UPDATE procrastinate_jobs SET abort_requested = true "
        "WHERE task_name = 'acceptd.examine' AND args->>'submission' = 'one'"
    ),
    "its worker of the queue": (
        "DELETE FROM procrastinate_workers WHERE id = (SELECT min(id) FROM procrastinate_workers)"
    ),
    "its worker's heartbeat": (
        "UPDATE procrastinate_workers SET last_heartbeat = 'epoch' "
        "WHERE id = (SELECT min(id) FROM procrastinate_workers)"
    ),
}
"""What an intake's login could spoil of another intake's."""


@pytest.mark.parametrize("what", SPOILS)
def test_the_login_of_one_intake_spoils_nothing_of_another(record: Record, what: str) -> None:
    """The control is the same statement by the intake whose it is."""
    assert tried(record, "i2", SPOILS[what]) == 0
    assert tried(record, "i1", SPOILS[what]) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE submissions SET node = 'i2' WHERE id = 'one'",
        "UPDATE deaths SET submission = 'two' WHERE submission = 'one'",
        "UPDATE fleet_nodes SET name = 'i2' WHERE name = 'w1'",
        "UPDATE fleet_logins SET login = session_user",
        "DELETE FROM fleet_logins",
        "INSERT INTO fleet_logins (node, login) VALUES ('i3', session_user)",
        "DROP TRIGGER submissions_logins ON submissions",
        "INSERT INTO procrastinate_workers (acceptd_login) VALUES (NULL)",
        "INSERT INTO procrastinate_workers (id) OVERRIDING SYSTEM VALUE VALUES (1000)",
        "INSERT INTO procrastinate_jobs (id, queue_name, task_name) VALUES (1000, 'cpu', 'acceptd.examine')",
        "UPDATE procrastinate_workers SET acceptd_login = session_user",
        "SET SESSION AUTHORIZATION acceptd",
    ],
)
def test_a_thief_makes_no_row_and_no_name_his_own(record: Record, statement: str) -> None:
    import psycopg

    for who in ("i2", "w2"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            does(record, who, statement)


def test_a_role_that_is_taken_on_in_a_session_makes_it_no_other_login(record: Record) -> None:
    for who, refused in (("i2", True), ("i1", False)):
        with record.server.connected(record.name, f"{record.name}_{who}") as connection:
            connection.execute("BEGIN")
            connection.execute("SET LOCAL ROLE acceptd_intake")
            words = "the name of the node i1 is another login's"
            with pytest.raises(Exception, match=words) if refused else contextlib.nullcontext():
                connection.execute(SPOILS["its working data"])
            connection.execute("ROLLBACK")


@pytest.mark.parametrize("type_", ['"char"', "pg_catalog.bpchar", "pg_catalog.name", "pg_catalog.varchar(2)"])
def test_a_type_of_a_sessions_own_that_is_named_text_changes_no_rule(record: Record, type_: str) -> None:
    """PostgreSQL looks for types among the session's temporary ones first, whatever the function's search path."""
    for who, refused in (("i2", True), ("i1", False)):
        with record.server.connected(record.name, f"{record.name}_{who}") as connection:
            connection.execute("BEGIN")
            connection.execute(f"CREATE DOMAIN pg_temp.text AS {type_}")
            words = "the name of the node i1 is another login's"
            with pytest.raises(Exception, match=words) if refused else contextlib.nullcontext():
                connection.execute(SPOILS["its working data"])
            connection.execute("ROLLBACK")


@pytest.mark.parametrize("type_", ["pg_catalog.text", '"char"'])
def test_nor_does_it_let_an_intake_take_its_drop_past_the_promoter(record: Record, type_: str) -> None:
    """Cut to one character a move could stand for another one."""
    for state, refused in (("judged", True), ("promoted", True), ("sealed", False)):
        with record.server.connected(record.name, f"{record.name}_i1") as connection:
            connection.execute("BEGIN")
            connection.execute(drop("taken", "i1"))
            connection.execute("UPDATE submissions SET state = 'sealed' WHERE id = 'taken'")
            connection.execute(f"CREATE DOMAIN pg_temp.text AS {type_}")
            words = f"no intake takes a submission from sealed to {state}"
            with pytest.raises(Exception, match=words) if refused else contextlib.nullcontext():
                connection.execute(f"UPDATE submissions SET state = '{state}', data = '{{}}' WHERE id = 'taken'")
            connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("rightful", "statement"), [("w1", signed("w1")), ("w1", beat("w1")), ("p1", beat("p1", "promoter"))]
)
def test_the_login_of_one_worker_says_nothing_in_anothers_name(
    record: Record, rightful: str, statement: str
) -> None:
    """No evidence, which would keep the true one out; no heartbeat, also not as the promoter."""
    before = {who: tried(record, who, statement) for who in ("w2", "i1", "w1", "p1")}
    assert before["w2"] == before["i1"] == 0
    if "fleet_evidence" in statement:
        assert (before["w1"], before["p1"]) == (1, 0)
    else:
        assert (before["w1"], before["p1"]) == (int(rightful == "w1"), 1)


GIVEN_UP = '{"round": 1, "profile": "cpu", "what": "examine", "why": "deaths", "deaths": 2}'
OF_HOLDER = {
    "evidence": signed("{who}"),
    "a decision": task("decide", "promoter"),
    "the next try": task("examine", "cpu", more=ROUND[:-1] + ', "tries": 1}', lock="of-one"),
    "that it is given up": task("given-up", "promoter", more=GIVEN_UP),
    "its end": "UPDATE procrastinate_jobs SET status = 'failed' WHERE status = 'doing'",
    "its success": "DELETE FROM procrastinate_jobs WHERE status = 'doing'",
    "what is examined": "SELECT data FROM submissions WHERE id = 'one'",
}
"""What a worker may of an examination, as long as it holds that."""


@pytest.mark.parametrize("what", OF_HOLDER)
def test_the_login_of_one_worker_touches_no_examination_that_another_holds(record: Record, what: str) -> None:
    """The control is the same by the worker that holds it."""
    found = [tried(record, who, OF_HOLDER[what].replace("{who}", who)) for who in ("w2", "w1")]
    assert found == [0, 1]


@pytest.mark.parametrize(
    "statement",
    [
        task("examine", "gpu", more=ROUND, lock="of-one"),
        task("examine", "cpu", more=ROUND, lock="of-two"),
        task("examine", "cpu", "two", ROUND, lock="of-one"),
        task("examine", "cpu", more=ROUND.replace("1", "2"), lock="of-one"),
        task("given-up", "promoter", "two", GIVEN_UP),
        task("given-up", "promoter", more=GIVEN_UP.replace("cpu", "gpu")),
        task("given-up", "promoter", more=GIVEN_UP.replace("1", "2")),
        task("decide", "promoter", "two"),
        signed("w1").replace("'one', 1, 'cpu'", "'two', 1, 'cpu'"),
        signed("w1").replace("'one', 1, 'cpu'", "'one', 2, 'cpu'"),
        signed("w1").replace("'one', 1, 'cpu'", "'one', 1, 'gpu'"),
        signed("w2"),
        "SELECT data FROM submissions WHERE id <> 'one'",
        "UPDATE procrastinate_jobs SET status = 'cancelled' WHERE status = 'todo'",
        "DELETE FROM procrastinate_jobs WHERE status = 'todo'",
    ],
)
def test_a_worker_that_holds_one_examination_speaks_of_no_other_and_reads_no_other(
    record: Record, statement: str
) -> None:
    assert tried(record, "w1", statement) == 0


def test_a_worker_takes_what_waits_and_then_it_is_its_own(record: Record) -> None:
    with record.server.connected(record.name, f"{record.name}_w2") as connection:
        connection.execute("BEGIN")
        asked = "SELECT id FROM submissions ORDER BY id"
        assert connection.execute(asked).fetchall() == []
        assert connection.execute(taken("w2", record, "two")).rowcount == 1
        assert connection.execute(asked).fetchall() == [("two",)]
        connection.execute(task("given-up", "promoter", "two", GIVEN_UP))
        mine = taken("w2", record, "one").replace("'todo'", "'doing'")
        assert connection.execute(mine).rowcount == 0  # what another holds stays where it is
        connection.execute("ROLLBACK")
    assert tried(record, "w2", taken("w1", record, "two")) == 0  # nor is it taken for another


@pytest.mark.parametrize("who", ["promoter", "intake", "reviewer"])
def test_every_other_role_sees_every_submission(record: Record, who: str) -> None:
    record.ask(f"CREATE ROLE {record.name}_reads_{who} LOGIN IN ROLE acceptd_{who}")
    there = record.ask("SELECT count(*) FROM submissions")
    assert record.ask("SELECT count(*) FROM submissions", f"{record.name}_reads_{who}") == there
    assert there[0][0] >= 2


def test_the_promoter_and_the_owner_go_on_with_every_row(record: Record) -> None:
    for statement in (SPOILS["its working data"], SPOILS["its end"], SPOILS["deaths that are counted"]):
        assert tried(record, "p1", statement) == 1
    assert tried(record, "p1", "UPDATE fleet_nodes SET draining = true WHERE name = 'w1'") == 1
    assert tried(record, "p1", "DELETE FROM procrastinate_workers") == 3  # as the watch ends dead ones


def test_a_node_whose_name_is_another_logins_does_not_start_and_is_told_what_to_do(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who, role in (("i2", "intake"), ("w2", "worker")):
        record.settings(f"{record.name}_{who}")
        try:
            with record.open(create=False) as ledger:
                require_login(ledger, role, who)  # type: ignore[arg-type]
                require_login(ledger, role, "nobodys-yet")  # type: ignore[arg-type]
                with pytest.raises(ConfigError, match=f"'i1': that name is the login '{record.name}_i1'") as told:
                    require_login(ledger, role, "i1")  # type: ignore[arg-type]
        finally:
            record.settings()
        assert "acceptd fleet forget i1" in told.value.remedy


def test_a_name_that_is_forgotten_is_the_next_logins(record: Record) -> None:
    does(record, "w1", beat("w9"))
    assert tried(record, "w2", beat("w9")) == 0
    with record.open() as ledger:
        record.ask("UPDATE fleet_nodes SET told = '{\"stopped\": true}' WHERE name = 'w9'")
        Nodes(ledger).forget("w9")
    assert does(record, "w2", beat("w9")) == 1
    assert tried(record, "w1", beat("w9")) == 0
    for thief in ("w2", "i1"):  # who may not forget it
        assert tried(record, thief, "DELETE FROM fleet_nodes WHERE name = 'w9'") == 0
    assert does(record, "p1", "DELETE FROM fleet_nodes WHERE name = 'w9'") == 1
    assert does(record, "w1", beat("w9")) == 1


def test_a_name_is_the_login_that_wrote_first_however_it_wrote(record: Record) -> None:
    does(record, "i1", drop("three", "fresh"))
    assert tried(record, "i2", beat("fresh", "intake")) == 0
    assert tried(record, "w2", signed("fresh")) == 0
    assert tried(record, "i1", beat("fresh", "intake")) == 1


def test_what_a_version_before_left_without_an_owner_becomes_the_login_that_beats_under_the_name(
    record: Record,
) -> None:
    """A node of that version goes on, also with its worker of the queue that was registered before."""
    record.ask(drop("old", "i-old"), OWNER)
    (worker,) = record.ask("INSERT INTO procrastinate_workers (acceptd_login) VALUES (NULL) RETURNING id", OWNER)
    assert does(record, "i1", beat("i-old", "intake")) == 1
    spoil = "UPDATE submissions SET data = '[]' WHERE id = 'old'"
    assert [tried(record, who, spoil) for who in ("i2", "i1")] == [0, 1]
    moved = f"UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = {worker[0]}"
    assert does(record, "i1", moved) == 1
    record.ask(f"DELETE FROM procrastinate_workers WHERE id = {worker[0]}", OWNER)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE submissions DISABLE TRIGGER submissions_logins", "submissions_logins is not acceptd's"),
        ("DROP TRIGGER deaths_logins ON deaths", "deaths: no trigger deaths_logins"),
        ("DROP TRIGGER fleet_evidence_logins ON fleet_evidence", "fleet_evidence: no trigger"),
        (
            """CREATE OR REPLACE FUNCTION acceptd_logins() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NEW; END'""",
            "is not acceptd's",
        ),
        ("DROP POLICY acceptd_worker ON submissions", "submissions: the rules of who sees which rows"),
        ("ALTER POLICY acceptd_worker ON submissions USING (true)", "the rules of who sees which rows are not"),
        (
            "ALTER TABLE submissions DISABLE ROW LEVEL SECURITY",
            "the rules of who sees which rows are not acceptd's",
        ),
        (
            "CREATE OR REPLACE FUNCTION acceptd_held() RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]'",
            "acceptd_held: the function is not acceptd's",
        ),
        ("GRANT UPDATE ON fleet_logins TO acceptd_worker", "acceptd_worker: may UPDATE fleet_logins"),
        ("REVOKE SELECT ON fleet_logins FROM acceptd_intake", "acceptd_intake: may not SELECT fleet_logins"),
    ],
)
def test_a_wall_between_logins_that_was_taken_down_is_told_and_put_back(
    record: Record, change: str, words: str
) -> None:
    place = Place.of(record.state)
    assert roles.differences(place) == []
    record.ask(change, OWNER)
    told = roles.differences(place)
    assert told
    assert all(words in one or "_logins is not acceptd's" in one for one in told)
    roles.grant(place)
    assert roles.differences(place) == []
    assert tried(record, "i2", SPOILS["its working data"]) == 0
    assert [one for one in audit.verify(record.state) if "logins" in f"{one.where} {one}"] == []


def test_a_table_of_logins_that_is_no_table_of_ours_is_told(record: Record) -> None:
    place = Place.of(record.state)
    record.ask("ALTER TABLE fleet_logins ALTER COLUMN login DROP DEFAULT", OWNER)
    try:
        assert roles.differences(place) == [f"{logins.TABLE}: the table is not acceptd's"]
    finally:
        record.ask("ALTER TABLE fleet_logins ALTER COLUMN login SET DEFAULT SESSION_USER", OWNER)
    assert roles.differences(place) == []


def test_init_again_changes_no_login_and_locks_nothing(record: Record) -> None:
    before = record.ask("SELECT node, login FROM fleet_logins ORDER BY node")
    stamp = "SELECT obj_description('procrastinate_jobs'::regclass, 'pg_class')"
    was: Any = record.ask(stamp)
    make_ready(record.state)
    apply_schema(record.server.url(record.name))
    assert record.ask("SELECT node, login FROM fleet_logins ORDER BY node") == before
    assert record.ask(stamp) == was


def test_a_promoters_heartbeat_takes_no_name(record: Record) -> None:
    with record.open() as ledger:
        Nodes(ledger).beat(Told("p9", "promoter", "h"), "boot", first=True)
    assert record.ask("SELECT 1 FROM fleet_logins WHERE node IN ('p1', 'p9')") == []


@pytest.mark.parametrize(
    ("who", "statement"),
    [
        ("w1", "UPDATE procrastinate_jobs SET attempts = 1 WHERE status = 'todo' AND queue_name = 'cpu'"),
        ("i1", "UPDATE procrastinate_jobs SET attempts = 1 WHERE status = 'todo' AND queue_name = 'intake:i1'"),
        ("w1", "SELECT count(*) FROM submissions"),
    ],
)
def test_what_is_whose_is_asked_once_in_a_statement_and_not_of_each_row(
    record: Record, who: str, statement: str
) -> None:
    with record.server.connected(record.name, f"{record.name}_{who}") as connection:
        lines = [line for (line,) in connection.execute(f"EXPLAIN (VERBOSE) {statement}")]
    rows = [line for line in lines if "Filter:" in line and "acceptd_own(" not in line]
    assert any("InitPlan" in line for line in lines)
    assert [line for line in rows if "acceptd_held" in line or "acceptd_own_" in line] == []
