"""What a superuser of the database edits in the record, or in its tables, `ledger verify` names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.record import audit, checkpoint
from acceptd.record.queue import Queue
from tests.fleet.postgres import OWNER, Server
from tests.fleet.record_world import Record, make_record
from tests.unit.test_record_tampering import ledger_of

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def whole(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """A record with rows everywhere, in which there is nothing to find."""
    made = make_record(tmp_path_factory.mktemp("whole"), postgres)
    ledger_of(made.state)
    assert audit.verify(made.state) == []
    yield made
    postgres.drop(made.name)


@pytest.fixture
def record(whole: Record, postgres: Server) -> Iterator[Record]:
    """A copy of it, for one test to spoil."""
    name = postgres.fresh_database(whole.name)
    yield Record(whole.state, postgres, name)
    postgres.drop(name)


def found(record: Record) -> list[tuple[str, str, str]]:
    before = (record.state / "acceptd.toml").read_text()
    record.settings()
    try:
        return [(one.what, one.where, one.message) for one in audit.verify(record.state)]
    finally:
        (record.state / "acceptd.toml").write_text(before)


def spoil(record: Record, *statements: str, triggers: bool = False) -> None:
    """As the superuser; without the triggers, unless they are to stand in the way."""
    with record.server.connected(record.name) as connection:
        if not triggers:
            connection.execute("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(statement)


def test_the_copy_itself_has_nothing_to_find(record: Record) -> None:
    assert found(record) == []


ROWS = {
    "leaf": ("UPDATE entries SET leaf = leaf || ' ' WHERE seq = 3", "entry", "entry 3"),
    "leaf and its hash": (
        "UPDATE entries SET leaf = 'x', leaf_hash = sha256('\\x00' || 'x'::bytea) WHERE seq = 3", "tree", "node",
    ),
    "number": ("UPDATE entries SET seq = 1000 WHERE seq = 3", "entry", "entry 3"),
    "removed": ("DELETE FROM entries WHERE seq = 3", "entry", "entry 3"),
    "type": ("UPDATE entries SET type = 'note' WHERE type = 'verdict'", "entry", "entry"),
    "submission": ("UPDATE entries SET submission = 'other' WHERE type = 'verdict'", "entry", "entry"),
    "unique key": ("UPDATE entries SET unique_key = NULL WHERE unique_key IS NOT NULL", "entry", "entry"),
    "node": ("UPDATE nodes SET hash = sha256('x') WHERE level = 1 AND idx = 0", "tree", "node 0 of level 1"),
    "no node": ("DELETE FROM nodes WHERE level = 1 AND idx = 0", "tree", "node 0 of level 1"),
    "stray node": ("INSERT INTO nodes VALUES (1, 4000, sha256('x'))", "tree", "node"),
    "evidence": ("UPDATE evidence SET data = data || 'x'", "evidence", ""),
    "verdict": ("UPDATE verdicts SET verdict = 'accepted', reason = 'x'", "projection", "verdicts"),
    "stray verdict": (
        "INSERT INTO verdicts VALUES ('s-x', 1, 'accepted', 'a', 'a/b', 'd', 'p', 'x', 'r')",
        "projection", "verdicts",
    ),
    "finding": ("UPDATE findings SET severity = 'info' || severity", "projection", "findings"),
    "text with NUL": ("UPDATE findings SET message = message || E'\\x010'", "projection", "findings"),
    "release": ("UPDATE releases SET digest = 'x'", "projection", "releases"),
    "no revocation": ("DELETE FROM revocations", "projection", "revocations"),
    "name": ("UPDATE meta SET value = 'acceptd/' || repeat('0', 32) WHERE key = 'origin'", "", ""),
    "version": ("UPDATE meta SET value = '1' WHERE key = 'schema_version'", "database", ""),
    "stamp": ("UPDATE alembic_version SET version_num = '0001'", "database", ""),
}  # fmt: skip


@pytest.mark.parametrize("how", ROWS)
def test_an_edited_row_is_named(record: Record, how: str) -> None:
    statement, what, where = ROWS[how]
    spoil(record, statement)
    told = found(record)
    assert any(what in one[0] and where in one[1] for one in told), told


STRUCTURE = {
    "disabled": (
        "ALTER TABLE entries DISABLE TRIGGER entries_no_update", "trigger entries_no_update", "is disabled",
    ),
    "replica": (
        "ALTER TABLE nodes ENABLE REPLICA TRIGGER nodes_no_delete", "trigger nodes_no_delete", "is disabled",
    ),
    "dropped": ("DROP TRIGGER entries_next ON entries", "trigger entries_next", "is missing"),
    "another": (
        ("DROP TRIGGER evidence_no_update ON evidence;"
         " CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence"
         " FOR EACH ROW WHEN (false) EXECUTE FUNCTION acceptd_refused('evidence is never edited')"),
        "trigger evidence_no_update", "is not acceptd's",
    ),
    "one more": (
        "CREATE TRIGGER mine AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION acceptd_next()",
        "trigger mine", "is not acceptd's",
    ),
    "function": (
        ("CREATE OR REPLACE FUNCTION acceptd_refused() RETURNS trigger LANGUAGE plpgsql"
         " SET search_path = pg_catalog, public AS 'BEGIN RETURN NEW; END'"),
        "function acceptd_refused", "is not acceptd's",
    ),
    "where a function looks": (
        "ALTER FUNCTION acceptd_next() SET search_path = elsewhere", "function acceptd_next", "is not acceptd's",
    ),
    "rule": ("CREATE RULE mine AS ON INSERT TO revocations DO INSTEAD NOTHING", "table revocations", "has a rule"),
    "row security": (
        "ALTER TABLE entries ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON entries USING (type <> 'revoked')",
        "table entries", "row security",
    ),
    "child": (
        "CREATE TABLE more () INHERITS (revocations); INSERT INTO more VALUES ('d', 1, 'x', 'r')",
        "table revocations", "a parent or a child",
    ),
    "view": ("CREATE VIEW shown AS SELECT * FROM entries", "view shown", "is not acceptd's"),
    "view in place": (
        "ALTER TABLE deaths RENAME TO was; CREATE VIEW deaths AS SELECT * FROM was",
        "table deaths", "no ordinary table",
    ),
    "unlogged": ("ALTER TABLE evidence SET UNLOGGED", "table evidence", "no ordinary table"),
    "owner": ("ALTER TABLE evidence OWNER TO postgres", "table evidence", "another owner"),
    "unique": (
        "ALTER TABLE entries DROP CONSTRAINT entries_unique_key", "constraint entries_unique_key", "is missing",
    ),
    "key": ("ALTER TABLE nodes DROP CONSTRAINT nodes_pkey", "constraint nodes_pkey", "is missing"),
    "check": (
        ("ALTER TABLE entries DROP CONSTRAINT entries_leaf_hash;"
         " ALTER TABLE entries ADD CONSTRAINT entries_leaf_hash CHECK (true)"),
        "constraint entries_leaf_hash", "is not acceptd's",
    ),
    "column": ("ALTER TABLE entries ADD COLUMN more int", "table entries", "column 'more'"),
    "collation": (
        'ALTER TABLE entries ALTER type TYPE varchar COLLATE "en-x-icu"', "table entries", "column type",
    ),
    "null": ("ALTER TABLE verdicts ALTER reason DROP NOT NULL", "table verdicts", "column reason"),
    "no index": ("DROP INDEX entries_type", "index entries_type", "is missing"),
    "partial index": (
        "DROP INDEX entries_type; CREATE INDEX entries_type ON entries (type, seq) WHERE type <> 'revoked'",
        "index entries_type", "is not acceptd's",
    ),
    "invalid index": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'entries_submission'::regclass",
        "index entries_submission", "is not valid",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", STRUCTURE)
def test_what_is_not_as_acceptd_makes_it_is_named(record: Record, how: str) -> None:
    statements, where, words = STRUCTURE[how]
    spoil(record, *re.split("; (?=CREATE|ALTER|INSERT)", statements), triggers=True)
    told = found(record)
    assert any(one[0] == "database" and where == one[1] and words in one[2] for one in told), told


def test_two_rows_of_one_number_are_named_and_hide_nothing_else(record: Record) -> None:
    spoil(
        record,
        "ALTER TABLE entries DROP CONSTRAINT entries_pkey",
        "ALTER TABLE entries DROP CONSTRAINT entries_unique_key",
        "INSERT INTO entries SELECT * FROM entries WHERE seq = 2",
        "UPDATE entries SET leaf = 'x' WHERE seq = 5",
    )
    told = found(record)
    assert any(one[1] == "entries: seq=2" and "breaks the table's own rules" in one[2] for one in told), told
    assert any(one[1] == "entry 5" for one in told), told


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE entries ALTER leaf TYPE text USING encode(leaf, 'escape')"],
        ["ALTER TABLE entries DROP COLUMN leaf"],
        ["ALTER TABLE verdicts ALTER seq TYPE text"],
        ["DROP TABLE nodes"],
        ["DROP TABLE deaths, submissions"],
        ["DROP TABLE alembic_version"],
        ["DELETE FROM meta"],
        ["ALTER TABLE meta ALTER value TYPE bytea USING value::bytea"],
        ["ALTER TABLE entries DROP CONSTRAINT entries_pkey", "ALTER TABLE entries ALTER seq TYPE numeric",
         "INSERT INTO entries SELECT 1e30, type, NULL, NULL, leaf, leaf_hash, recorded_at FROM entries LIMIT 1"],
        ["ALTER TABLE entries DROP CONSTRAINT entries_pkey", "ALTER TABLE entries ALTER seq TYPE float8",
         "INSERT INTO entries SELECT 'NaN', type, NULL, NULL, leaf, leaf_hash, recorded_at FROM entries LIMIT 1"],
    ],
    ids=lambda one: one[-1][:40],
)  # fmt: skip
def test_tables_that_are_no_longer_ours_are_a_difference_and_no_accident(
    record: Record, statements: list[str]
) -> None:
    spoil(record, *statements)
    told = found(record)
    assert any(one[0] == "database" for one in told), told
    assert not any("\n" in word for one in told for word in one)


def test_a_log_that_was_cut_is_told_by_a_checkpoint_from_outside(record: Record) -> None:
    kept = audit.Kept("mine", checkpoint.note_of(record.state, checkpoint.sizes(record.state)[-1]))
    size = checkpoint.sizes(record.state)[-1]
    spoil(record, f"DELETE FROM entries WHERE seq >= {size - 1}")
    before = (record.state / "acceptd.toml").read_text()
    record.settings()
    try:
        told = audit.examine(record.state, None, [kept]).differences
    finally:
        (record.state / "acceptd.toml").write_text(before)
    assert any(one.what == "checkpoint" for one in told), told


def test_the_audit_writes_nothing_and_leaves_nothing(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = record.ask("SELECT pg_current_xact_id_if_assigned(), xact_commit FROM pg_stat_database LIMIT 1")[0][0]
    assert found(record) == []
    assert list(tmp_path.iterdir()) == []
    assert before is None


def test_an_audit_beside_writers_is_of_one_moment(record: Record) -> None:
    import threading

    record.settings()
    stop = threading.Event()

    def writes() -> None:
        with record.open(create=False) as ledger:
            number = 0
            while not stop.is_set():
                Queue(ledger).add(f"w-{number}", team="a", name="b", path="/c", kind="directory")
                ledger.append_many([])
                ledger.append("note", {"n": number})
                number += 1

    writer = threading.Thread(target=writes)
    writer.start()
    try:
        for _ in range(3):
            assert audit.verify(record.state) == []
    finally:
        stop.set()
        writer.join(60)


def test_a_hostile_name_in_the_database_reaches_the_terminal_escaped(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from acceptd.cli.ledger import verify

    spoil(record, 'CREATE VIEW "\x1b[2J\n; rm" AS SELECT 1', f'ALTER VIEW "\x1b[2J\n; rm" OWNER TO {OWNER}')
    record.settings()
    for directory in ("inbox", "outbox", "sealed", "store/sha256", "releases", "heldout", "quarantine", "tmp"):
        (record.state / directory).mkdir(parents=True, exist_ok=True)
    with pytest.raises(typer.Exit) as ended:
        verify(checkpoints=None, keyring=None, objects=False, state=record.state, json_=False)
    assert ended.value.exit_code == 5
    told = capsys.readouterr().out
    assert "is not acceptd's" in told
    assert "\x1b" not in told
