"""Two intakes, two workers and a promoter of one record, each with a login of its own, and what they write."""

from __future__ import annotations

from pathlib import Path

from acceptd.fleet.ready import make_ready
from acceptd.record.keys import create_keys
from tests.fleet.postgres import OWNER, Server
from tests.fleet.record_world import Record, make_record

LOGINS = {"i1": "intake", "i2": "intake", "w1": "worker", "w2": "worker", "p1": "promoter"}
NOW = "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


def drop(key: str, node: str) -> str:
    return (
        "INSERT INTO submissions (id, team, name, path, kind, state, received_at, updated_at, data, node) "
        f"VALUES ('{key}', 'mosaic', 'n', '/c', 'directory', 'claimed', {NOW}, 'now', '{{}}', '{node}')"
    )


def beat(node: str, role: str = "worker") -> str:
    return (
        "INSERT INTO fleet_nodes (name, role, host, version, schema, key_id, queues, slots, running, started_at, "
        f"seen_at) VALUES ('{node}', '{role}', 'h', '1', 2, 'k', '[]', 1, 0, 'x', 'x') "
        f"ON CONFLICT (name) DO UPDATE SET host = 'mine', role = '{role}'"
    )


def signed(node: str) -> str:
    return f"INSERT INTO fleet_evidence VALUES ('one', 1, 'cpu', '{node}', 'k', '{{}}', 'd', 'x')"


def task(kind: str, queue: str, submission: str = "one", more: str = "{}", lock: str = "l") -> str:
    args = f'\'{{"submission": "{submission}", "team": "mosaic"}}\'::jsonb || \'{more}\''
    return (
        "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args) "
        f"VALUES ('{queue}', 'acceptd.{kind}', '{lock}', {args})"
    )


ROUND = '{"round": 1, "profile": "cpu"}'


def taken(who: str, record: Record, submission: str) -> str:
    """A worker takes an examination that waits, as Procrastinate does."""
    return (
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id) FROM procrastinate_workers "
        f"WHERE acceptd_login = '{record.name}_{who}') WHERE task_name = 'acceptd.examine' AND status = 'todo' "
        f"AND args->>'submission' = '{submission}'"
    )


def logins(state: Path, postgres: Server) -> Record:
    """Two intakes and two workers that each wrote once, a promoted submission of ``i1`` and its tasks."""
    made = make_record(state, postgres)
    create_keys(made.state)
    make_ready(made.state)
    for name, role in LOGINS.items():
        made.ask(f"CREATE ROLE {made.name}_{name} LOGIN IN ROLE acceptd_{role}")
    for name in ("i1", "i2"):
        does(made, name, drop("one" if name == "i1" else "two", name))
    for name in ("w1", "w2"):
        does(made, name, beat(name))
    does(made, "p1", beat("p1", "promoter"))
    does(made, "p1", task("finish", "intake:i1"))
    for submission in ("one", "two"):
        does(made, "p1", task("examine", "cpu", submission, ROUND, lock=f"of-{submission}"))
    for name in ("i1", "w1", "w2"):
        does(made, name, "INSERT INTO procrastinate_workers DEFAULT VALUES")
    assert does(made, "w1", taken("w1", made, "one")) == 1
    made.ask("UPDATE submissions SET state = 'promoted', working = 'promoted' WHERE id = 'one'", OWNER)
    made.ask("INSERT INTO deaths VALUES ('one', 'claimed', 0)", OWNER)
    return made


def does(record: Record, who: str, statement: str) -> int:
    """Run a statement with a login, for good; return how many rows it found."""
    with record.server.connected(record.name, f"{record.name}_{who}") as connection:
        return int(connection.execute(statement).rowcount)


def tried(record: Record, who: str, statement: str) -> int:
    """Run it and take it back; 0 where it is refused, or finds no row."""
    import psycopg

    with record.server.connected(record.name, f"{record.name}_{who}") as connection:
        connection.execute("BEGIN")
        try:
            return int(connection.execute(statement).rowcount)
        except psycopg.errors.InsufficientPrivilege:
            return 0
        finally:
            connection.execute("ROLLBACK")
