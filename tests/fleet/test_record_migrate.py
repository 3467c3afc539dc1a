"""Migrations on PostgreSQL: all or nothing under the writers' lock, the truth never touched, the owner's alone."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from acceptd.cli import ledger as commands
from acceptd.cli.setup import init
from acceptd.errors import LedgerError, LedgerStorageError, StateError
from acceptd.record import audit, migrate, tables
from acceptd.record.keys import create_keys
from acceptd.record.place import Place
from acceptd.record.postgres import roles
from tests.fleet.postgres import Server
from tests.fleet.record_world import Record, make_record

pytestmark = pytest.mark.acceptance

ADDS = """
    op.add_column("verdicts", sa.Column("extra", sa.Text))
    op.create_table("more", sa.Column("id", sa.Integer))
"""
OLDER_MAY = "    op.execute(\"UPDATE meta SET value = '2' WHERE key = 'readable_from'\")\n"


@pytest.fixture
def old(record: Record, monkeypatch: pytest.MonkeyPatch) -> Record:
    """A record of this version under an acceptd of the next."""
    create_keys(record.state)
    with record.open() as ledger, ledger.transaction() as change:
        for number in range(10):
            change.append("note", {"n": number})
        change.put_evidence(b"measured")
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 3)
    return record


def scripts(tmp_path: Path, body: str) -> Path:
    place = tmp_path / "scripts"
    if not place.exists():
        shutil.copytree(migrate.SCRIPTS, place, ignore=shutil.ignore_patterns("__pycache__"))
    head = "import os, signal\nfrom alembic import op\nimport sqlalchemy as sa\n"
    names = 'revision, down_revision = "0003", "0002"\n'
    (place / "versions" / "v0003_test.py").write_text(f"{head}{names}def upgrade():\n{body}")
    return place


def standing(record: Record) -> tuple[object, ...]:
    return (
        record.ask("SELECT value FROM meta WHERE key = 'schema_version'")[0][0],
        record.ask("SELECT version_num FROM alembic_version")[0][0],
        record.ask("SELECT to_regclass('more') IS NOT NULL")[0][0],
        record.ask("SELECT count(*) FROM entries")[0][0],
    )


BEFORE, AFTER = ("2", "0002", False, 11), ("3", "0003", True, 11)


def test_a_database_is_migrated_in_one_transaction_and_goes_on(old: Record, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="schema version 2 is older than this acceptd's 3"):
        old.open(create=False)
    done = migrate.migrate(old.state, scripts=scripts(tmp_path, ADDS))
    assert done is not None
    assert (done.before, done.after, done.backup) == (2, 3, None)
    assert standing(old) == AFTER
    assert migrate.migrate(old.state, scripts=scripts(tmp_path, ADDS)) is None
    with old.open(create=False) as ledger:
        assert ledger.append("note", {}).seq == 11


def test_nodes_of_the_version_before_go_on_where_the_schema_says_so_and_only_there(
    old: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is running meanwhile, and its audit, which finds nothing wrong in a column that was added."""
    with monkeypatch.context() as before:
        before.setattr(tables, "SCHEMA_VERSION", 2)
        running = old.open(create=False)
    migrate.migrate(old.state, scripts=scripts(tmp_path, ADDS + OLDER_MAY))
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 2)
    assert running.append("note", {}).seq == 11
    running.close()
    with old.open(create=False) as ledger:
        assert ledger.append("note", {}).seq == 12
    assert audit.verify(old.state) == []
    old.ask("UPDATE meta SET value = '3' WHERE key = 'readable_from'")
    with pytest.raises(StateError, match="schema version 3 is newer than this acceptd's 2"):
        old.open(create=False)
    with pytest.raises(StateError, match="schema version 3 is newer than this acceptd's 2"):
        migrate.migrate(old.state)


TOUCHES = {
    "update": "op.execute(\"UPDATE entries SET recorded_at = 'x' WHERE seq = 3\")",
    "trigger": 'op.execute("DROP TRIGGER entries_no_update ON entries")',
    "untriggered": 'op.execute("ALTER TABLE entries DISABLE TRIGGER ALL")\n'
    "    op.execute(\"UPDATE entries SET submission = 'x' WHERE seq = 3\")\n"
    '    op.execute("ALTER TABLE entries ENABLE TRIGGER ALL")',
    "function": 'op.execute("CREATE OR REPLACE FUNCTION acceptd_refused() RETURNS trigger LANGUAGE plpgsql AS '
    "'BEGIN RETURN NEW; END'\")",
    "column": 'op.add_column("entries", sa.Column("more", sa.Text))',
    "constraint": 'op.execute("ALTER TABLE entries DROP CONSTRAINT entries_unique_key")',
    "evidence": 'op.execute("DELETE FROM evidence")',
    "append": "op.execute(\"INSERT INTO entries SELECT 11, 'note', NULL, NULL, leaf, leaf_hash, recorded_at "
    'FROM entries WHERE seq = 3")',
}


@pytest.mark.parametrize("how", TOUCHES)
def test_a_migration_that_touches_the_truth_is_taken_back(old: Record, tmp_path: Path, how: str) -> None:
    with pytest.raises(LedgerError, match=r"append-only|changed entries, tree or evidence"):
        migrate.migrate(old.state, scripts=scripts(tmp_path, f"{ADDS}    {TOUCHES[how]}\n"))
    assert standing(old) == BEFORE


def test_a_migration_that_fails_half_way_changes_nothing(old: Record, tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, LedgerError)):
        migrate.migrate(old.state, scripts=scripts(tmp_path, f"{ADDS}    raise RuntimeError('half-way')\n"))
    assert standing(old) == BEFORE


@pytest.mark.parametrize(
    ("place", "stands"),
    [("half-way", BEFORE), ("record.migrate.before-commit", BEFORE), ("record.migrate.after-commit", AFTER)],
)
def test_a_kill_leaves_the_old_schema_or_the_new_one(
    old: Record, tmp_path: Path, place: str, stands: tuple[object, ...]
) -> None:
    kill = "    if os.environ.get('TEST_KILL') == 'half-way': os.kill(os.getpid(), signal.SIGKILL)\n"
    made = scripts(tmp_path, ADDS + kill)
    child = os.fork()
    if child == 0:
        os.environ["ACCEPTD_FAILPOINT"] = os.environ["TEST_KILL"] = place
        try:
            migrate.migrate(old.state, scripts=made)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    # Its transaction ends with its connection; until then it holds the lock, and this one waits.
    again = migrate.migrate(old.state, scripts=made)
    assert (again is None) == (stands == AFTER)
    assert standing(old) == AFTER


def test_of_two_that_migrate_one_does_it(old: Record, tmp_path: Path) -> None:
    made = scripts(tmp_path, ADDS)
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(migrate.migrate(old.state, scripts=made))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(one is None for one in found) == [False, True]


def test_nobody_appends_while_it_is_migrated(old: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with monkeypatch.context() as before:
        before.setattr(tables, "SCHEMA_VERSION", 2)
        running = old.open(create=False, busy_seconds=0.2)

    def writes(name: str) -> None:
        if name == "record.migrate.backed-up":
            with pytest.raises(LedgerStorageError, match="busy for too long") as error:
                running.append("note", {})
            told.append(str(error.value))

    monkeypatch.setattr(migrate, "failpoint", writes)
    assert migrate.migrate(old.state, scripts=scripts(tmp_path, ADDS)) is not None
    assert len(told) == 1
    running.close()


def test_who_does_not_own_the_tables_is_told_who_migrates(old: Record, tmp_path: Path) -> None:
    roles.grant(Place.of(old.state))
    old.ask("DO $$ BEGIN CREATE ROLE test_p LOGIN IN ROLE acceptd_promoter; EXCEPTION WHEN OTHERS THEN END $$")
    old.settings("test_p")
    with pytest.raises(StateError, match="its tables are another role's") as told:
        migrate.migrate(old.state, scripts=scripts(tmp_path, ADDS))
    assert "acceptd ledger migrate" in told.value.remedy
    assert standing(old) == BEFORE


def test_the_command_says_what_it_did(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_record(tmp_path / "state", postgres)
    init(made.state, None, None)
    assert "PostgreSQL database" in capsys.readouterr().out
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 3)
    given = migrate.migrate.__kwdefaults__ | {"scripts": scripts(tmp_path, ADDS)}
    monkeypatch.setattr(migrate.migrate, "__kwdefaults__", given)
    commands.migrate(made.state)
    assert capsys.readouterr().out == "ledger: schema version 2 is now 3\n"
