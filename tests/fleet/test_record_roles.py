"""What each role may not do in the database, tried from inside the role; beside each refusal what it may."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acceptd.cli import ledger_roles
from acceptd.cli.setup import init
from acceptd.errors import LedgerError, LedgerRightsError, StateError
from acceptd.fleet.ready import make_ready
from acceptd.record import audit
from acceptd.record.keys import create_keys
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.record.postgres import moves, roles
from acceptd.record.queue import Queue
from acceptd.record.tables import STATES
from tests.fleet.postgres import OWNER, SUPERUSER, Server
from tests.fleet.record_world import Record, make_record

pytestmark = pytest.mark.acceptance

ROLES = tuple(roles.RIGHTS)


@pytest.fixture(scope="module")
def record(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    made = make_record(tmp_path_factory.mktemp("state"), postgres)
    create_keys(made.state)
    with made.open() as ledger:
        Queue(ledger).add("s-1", team="a", name="b", path="/c", kind="directory", node="n")
        with ledger.transaction() as change:
            change.put_evidence(b"measured")
    make_ready(made.state)
    for statement in HOLDS:
        made.ask(statement)
    for role in ROLES:
        made.ask(f"DO $$ BEGIN CREATE ROLE test_{role} LOGIN IN ROLE {role}; EXCEPTION WHEN OTHERS THEN END $$")
    yield made
    postgres.drop(made.name)


HOLDS = (
    "INSERT INTO procrastinate_workers (acceptd_login) VALUES ('test_acceptd_worker')",
    """
    INSERT INTO procrastinate_jobs (queue_name, task_name, status, worker_id, args)
    SELECT 'cpu', 'acceptd.examine', 'doing', max(id), '{"submission": "s-1", "round": 1, "profile": "cpu"}'
    FROM procrastinate_workers
    """,
)
"""What lets the worker's login give evidence of ``s-1``: an examination that it holds."""
NOTE = (
    "INSERT INTO entries SELECT max(seq) + 1, 'note', NULL, NULL, '\\x00', sha256('\\x0000'), 'then' FROM entries"
)
SEEN = (
    "INSERT INTO fleet_nodes VALUES ('n', 'worker', 'h', '1', 2, 'k', '[]', 1, 0, 'x', 'x', false) "
    "ON CONFLICT (name) DO UPDATE SET seen_at = 'y'"
)
SIGNED = "INSERT INTO fleet_evidence VALUES ('s-1', 1, 'cpu', 'n' || random(), 'k', '{}', 'd', 'x')"
MOVE = "UPDATE submissions SET state = 'sealed' WHERE id = 's-1'"
NOW = "to_char(now() AT TIME ZONE 'UTC'{}, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
COLUMNS = "id, team, name, path, kind, state, received_at, updated_at, data, node"


def drop(state: str = "claimed", when: str = "", columns: str = COLUMNS, more: str = "") -> str:
    """A drop that comes now, or at another time; in this state; with more columns."""
    return (
        f"INSERT INTO submissions ({columns}) SELECT 's' || random(), 'a', 'b', '/c', 'directory', '{state}', "
        f"{NOW.format(when)}, 'now', '{{}}', 'n'{more}"
    )


DROP = drop()
MAY: dict[str, list[str]] = {
    "acceptd_promoter": [
        NOTE,
        MOVE,
        SEEN,
        "INSERT INTO releases VALUES ('a/b','c',1,'d','intent','k','r',1,1,'x')",
    ],
    "acceptd_intake": [
        DROP,
        drop(when=" - interval '50 minutes'"),
        drop(when=" + interval '9 minutes'"),
        MOVE,
        SEEN,
        "SELECT count(*) FROM verdicts",
    ],
    "acceptd_worker": [SIGNED, SEEN, "SELECT data FROM submissions"],
    "acceptd_reviewer": [
        "SELECT leaf FROM entries",
        "SELECT data FROM submissions",
        "SELECT name FROM fleet_nodes",
    ],
}
DISGUISED = [
    f"UPDATE submissions SET {name} = {'7' if name == 'uid' else chr(39) + 'other' + chr(39)} WHERE id = 's-1'"
    for name in moves.KEPT
]
NOBODY = [
    "UPDATE entries SET type = 'x'",
    "DELETE FROM entries",
    "TRUNCATE entries",
    "UPDATE nodes SET hash = hash",
    "DELETE FROM nodes",
    "UPDATE evidence SET data = ''",
    "DELETE FROM evidence",
    "UPDATE meta SET value = '1'",
    "INSERT INTO meta VALUES ('moved_to', 'x')",
    "UPDATE alembic_version SET version_num = 'x'",
    "UPDATE verdicts SET verdict = 'accepted'",
    "DELETE FROM verdicts",
    "DELETE FROM findings",
    "DELETE FROM revocations",
    "UPDATE fleet_evidence SET envelope = ''",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "DROP TRIGGER entries_no_update ON entries",
    "CREATE TRIGGER mine BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION acceptd_next()",
    "CREATE OR REPLACE FUNCTION acceptd_refused() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE RULE mine AS ON INSERT TO entries DO INSTEAD NOTHING",
    "CREATE TABLE mine (n int)",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP TABLE entries CASCADE",
    "ALTER TABLE entries OWNER TO CURRENT_USER",
    "SET session_replication_role = replica",
    "COPY entries TO '/tmp/x'",
    "SET ROLE acceptd",
    "ALTER TABLE entries ADD COLUMN more int",
]
MAY_NOT: dict[str, list[str]] = {
    "acceptd_promoter": [SIGNED, "DELETE FROM releases"],
    "acceptd_intake": [
        *(drop(state) for state in STATES if state != "claimed"), *DISGUISED,
        *(drop(when=f" {at}'") for at in ("+ interval '1 year", "+ interval '11 minutes", "- interval '2 hours")),
        drop().replace("to_char(", "'long ago' || to_char("),
        *(drop(columns=f"{COLUMNS}, {one}", more=", 'a'") for one in ("model", "bundle_digest", "working")),
        NOTE, SIGNED, "DELETE FROM submissions", "SELECT * FROM evidence", "SELECT * FROM fleet_evidence",
        "INSERT INTO verdicts VALUES ('s-1', 1, 'accepted', 'a', 'a/b', 'd', 'p', 'x', 'r')",
        "INSERT INTO releases VALUES ('a/b','c',1,'d','active','k','r',1,1,'x')",
        "INSERT INTO revocations VALUES ('d', 1, 'x', 'r')",
    ],
    "acceptd_worker": [
        "SELECT data FROM evidence",
        NOTE, MOVE, DROP, "DELETE FROM submissions", "UPDATE submissions SET data = '{}'", "SELECT * FROM deaths",
        "INSERT INTO nodes VALUES (9, 9, sha256(''))", "INSERT INTO evidence VALUES ('d', 1, '', 'x')",
        "INSERT INTO verdicts VALUES ('s-1', 1, 'accepted', 'a', 'a/b', 'd', 'p', 'x', 'r')",
        "INSERT INTO releases VALUES ('a/b','c',1,'d','active','k','r',1,1,'x')", "DELETE FROM fleet_evidence",
        "INSERT INTO revocations VALUES ('d', 1, 'x', 'r')", "UPDATE releases SET state = 'active'",
    ],
    "acceptd_reviewer": [
        NOTE, MOVE, DROP, SIGNED, SEEN, "SELECT * FROM fleet_evidence", "DELETE FROM given_up_leases",
        "INSERT INTO evidence VALUES ('d', 1, '', 'x')",
    ],
}  # fmt: skip


def tried(record: Record, statement: str, user: str) -> None:
    """Run it and take it back."""
    with record.server.connected(record.name, user) as connection:
        connection.execute("BEGIN")
        connection.execute(statement)
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_its_work(record: Record, role: str) -> None:
    for statement in MAY[role]:
        tried(record, statement, f"test_{role}")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_nothing_else(record: Record, role: str) -> None:
    import psycopg

    before = record.ask("SELECT count(*), max(seq) FROM entries")
    for statement in NOBODY + MAY_NOT[role]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tried(record, statement, f"test_{role}")
    assert record.ask("SELECT count(*), max(seq) FROM entries") == before


def test_what_is_refused_to_a_role_is_possible_at_all(record: Record) -> None:
    """The control: as the server's own superuser each statement is refused by no missing right."""
    import psycopg

    for statement in {one for found in MAY_NOT.values() for one in found}:
        with contextlib.suppress(psycopg.errors.UniqueViolation, psycopg.errors.RestrictViolation):
            tried(record, statement, SUPERUSER)


def test_an_intakes_login_ends_nothing_and_takes_nothing_back(record: Record) -> None:
    """Each state after each; the control is the same by who may: the promoter."""
    import psycopg

    for state in STATES:
        record.ask(drop(state).replace("'s' || random()", f"'in-{state}'"))
    allowed: dict[str, set[tuple[str, str]]] = {"acceptd_intake": set(), "acceptd_promoter": set()}
    for role, found in allowed.items():
        for before in STATES:
            for after in STATES:
                move = f"UPDATE submissions SET state = '{after}', data = '{{\"a\":1}}' WHERE id = 'in-{before}'"
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    tried(record, move, f"test_{role}")
                    found.add((before, after))
    assert allowed["acceptd_intake"] == set(moves.MOVES)
    assert len(allowed["acceptd_promoter"]) == len(STATES) ** 2
    for state in STATES:  # its own mark it takes away wherever the submission stands by now
        tried(record, f"UPDATE submissions SET working = NULL WHERE id = 'in-{state}'", "test_acceptd_intake")


def test_a_trigger_that_was_switched_off_is_told_and_put_back_and_no_part_of_the_truth(record: Record) -> None:
    place = Place.of(record.state)
    harmless = f"CREATE OR REPLACE FUNCTION {moves.FUNCTION}() RETURNS trigger LANGUAGE plpgsql"
    harmless += " AS 'BEGIN RETURN NEW; END'"
    for change, words in (
        (f"ALTER TABLE submissions DISABLE TRIGGER {moves.TRIGGER}", "is not acceptd's"),
        (f"DROP TRIGGER {moves.TRIGGER} ON submissions", "no trigger"),
        (harmless, "is not acceptd's"),
    ):
        record.ask(change)
        (told,) = roles.differences(place)
        assert told.startswith("submissions: ")
        assert words in told
        roles.grant(place)
        assert roles.differences(place) == []
        assert [one for one in audit.verify(record.state) if moves.TRIGGER in one.where] == []


@pytest.mark.parametrize("role", ["acceptd_worker", "acceptd_reviewer", "acceptd_intake"])
def test_a_ledger_opened_as_another_than_the_promoter_reads_and_appends_nothing(record: Record, role: str) -> None:
    record.settings(f"test_{role}")
    try:
        with record.open(create=False) as ledger:
            assert ledger.entry(0).type == "log"
            with pytest.raises(LedgerError, match="permission denied for table entries"):
                ledger.append("note", {})
            with pytest.raises(LedgerError, match="permission denied"):
                ledger.rebuild()
    finally:
        record.settings()


def test_the_promoter_appends_and_moves_submissions_on(postgres: Server, tmp_path: Path, record: Record) -> None:
    fresh = make_record(tmp_path / "state", postgres)
    fresh.open().close()
    roles.grant(Place.of(fresh.state))
    fresh.settings("test_acceptd_promoter")
    with fresh.open(create=False) as ledger:
        assert ledger.append("note", {}).seq == 1
        Queue(ledger).add("s-1", team="a", name="b", path="/c", kind="directory")
        Queue(ledger).advance("s-1", "sealed")
        ledger.append("intent", {"model": "a/b", "channel": "c", "number": 1, "digest": "0" * 64})
        ledger.append("activated", {"model": "a/b", "channel": "c", "number": 1})


def test_a_reviewer_can_audit(record: Record, postgres: Server, tmp_path: Path) -> None:
    fresh = make_record(tmp_path / "state", postgres)
    create_keys(fresh.state)
    fresh.open().close()
    roles.grant(Place.of(fresh.state))
    fresh.settings("test_acceptd_reviewer")
    assert audit.verify(fresh.state) == []


@pytest.mark.parametrize("role", ["acceptd_worker", "acceptd_reviewer"])
def test_who_may_make_nothing_finds_what_is_there_at_init_and_else_is_refused(
    record: Record, postgres: Server, tmp_path: Path, role: str
) -> None:
    record.settings(f"test_{role}")
    try:
        with record.open() as ledger:
            assert ledger.tree().size > 0
    finally:
        record.settings()
    empty = make_record(tmp_path / "state", postgres)
    empty.settings(f"test_{role}")
    with pytest.raises(LedgerError, match="permission denied"):
        empty.open()


def test_rights_that_were_given_or_taken_beside_it_are_told_and_put_right(record: Record) -> None:
    place = Place.of(record.state)
    assert roles.differences(place) == []
    record.ask("GRANT UPDATE ON submissions TO acceptd_worker")
    record.ask("REVOKE SELECT ON entries FROM acceptd_reviewer")
    assert roles.differences(place) == [
        "acceptd_worker: may UPDATE submissions, which is not its right",
        "acceptd_reviewer: may not SELECT entries",
    ]
    assert roles.grant(place) == []
    assert roles.differences(place) == []
    record.ask("GRANT INSERT ON entries TO PUBLIC")
    assert len(roles.differences(place)) == 3
    roles.grant(place)
    assert roles.differences(place) == []


def test_the_command_grants_as_the_owner_and_shows_each_role(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    made = make_record(tmp_path / "state", postgres)
    init(made.state, None, None)
    with pytest.raises(typer.Exit) as ended:
        ledger_roles.roles(grant=False, state=made.state)
    assert ended.value.exit_code == 5
    with pytest.raises(typer.Exit) as ended:
        ledger_roles.roles(grant=True, state=made.state)
    assert ended.value.exit_code == 0
    told = capsys.readouterr().out
    assert "acceptd_reviewer  reads" in told
    assert "writes none" in told


@pytest.mark.parametrize("role", ROLES)
def test_who_does_not_own_the_tables_gives_no_rights_and_is_told_who_does(record: Record, role: str) -> None:
    record.settings(f"test_{role}")
    try:
        with pytest.raises(StateError, match="its tables are another role's") as told:
            roles.grant(Place.of(record.state))
    finally:
        record.settings()
    assert "ACCEPTD_RECORD_URL" in told.value.remedy


def test_of_two_who_grant_at_once_both_are_done(postgres: Server, tmp_path: Path) -> None:
    made = make_record(tmp_path / "state", postgres)
    made.open().close()
    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(roles.grant, Place.of(made.state)) for _ in range(4)]:
            one.result(60)
    assert roles.differences(Place.of(made.state)) == []


def test_what_a_worker_writes_is_small_before_anybody_reads_it(record: Record) -> None:
    import psycopg

    for large in ("'n'", "repeat('x', 65)"), ("'{}'", "repeat('x', 262145)"):
        with pytest.raises(psycopg.errors.CheckViolation):
            tried(record, SIGNED.replace("'n' || random()", "'n'").replace(*large), "test_acceptd_worker")
    tried(record, SIGNED.replace("'{}'", "repeat('x', 262144)"), "test_acceptd_worker")


def test_a_file_has_no_roles(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="has no roles"):
        roles.grant(Place(tmp_path))


def test_a_login_without_rights_is_told_so_and_not_to_restore_a_backup(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.ask("CREATE ROLE test_stranger LOGIN")
    monkeypatch.setenv("ACCEPTD_RECORD_URL", record.server.url(record.name, "test_stranger"))
    with pytest.raises(LedgerRightsError, match="permission denied") as told:
        Ledger.open(record.state, create=False)
    assert "the login that `[record] url` names" in str(told.value)
    assert "backup" not in str(told.value)


def test_an_owner_who_may_make_no_roles_is_told_what_he_lacks(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(roles.RIGHTS, "acceptd_new", {})
    record.ask(f"ALTER ROLE {OWNER} NOCREATEROLE")
    try:
        with pytest.raises(StateError, match="may not make the roles acceptd_new") as told:
            roles.grant(Place.of(record.state))
    finally:
        record.ask(f"ALTER ROLE {OWNER} CREATEROLE")
    assert "CREATEROLE" in told.value.remedy
