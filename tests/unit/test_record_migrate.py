"""Migrations: a backup first, all or nothing, the truth never touched, and every version told in one line."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from acceptd.errors import LedgerError, StateError
from acceptd.record import audit, backup, database, migrate, tables
from acceptd.record.backup import online_backup
from acceptd.record.keys import create_keys
from acceptd.record.log import Ledger
from tests.log_world import as_version_1

pytestmark = pytest.mark.unit

AT = "2026-11-29T15:17:00Z"
ADDS = """
    op.add_column("verdicts", sa.Column("extra", sa.Text))
    op.create_table("more", sa.Column("id", sa.Integer, primary_key=True))
"""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory whose database is one of before alembic, with ten entries and evidence."""
    place = tmp_path_factory.mktemp("old")
    create_keys(place)
    with Ledger.open(place, clock=lambda: AT) as ledger, ledger.transaction() as change:
        for number in range(10):
            change.append("note", {"n": number})
        change.put_evidence(b"what was measured")
    as_version_1(place)
    return place


@pytest.fixture
def state(old: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(old, tmp_path / "state %s of mine"))


@contextlib.contextmanager
def raw(place: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(place / database.FILE_NAME, isolation_level=None)) as connection:
        yield connection


def scripts(state: Path, body: str, after: str = "0002", name: str = "0003") -> Path:
    """A copy of the shipped revisions with one more, whose upgrade is ``body``."""
    place = state.parent / "scripts"
    if not place.exists():
        shutil.copytree(migrate.SCRIPTS, place, ignore=shutil.ignore_patterns("__pycache__"))
    head = f'from alembic import op\nimport sqlalchemy as sa\nrevision, down_revision = "{name}", "{after}"\n'
    (place / "versions" / f"v{name}_test.py").write_text(f"{head}def upgrade():\n{body}")
    return place


@pytest.fixture
def version_3(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 3)


def run(state: Path, place: Path) -> migrate.Migrated | None:
    return migrate.migrate(state, clock=lambda: AT, scripts=place)


def dump(place: Path) -> list[tuple[object, ...]]:
    with raw(place) as connection:
        return list(connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name"))


def schema(connection: Connection) -> dict[str, str]:
    """Every object of a database with the text that made it; blanks do not count."""
    rows = connection.exec_driver_sql("SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {str(name): re.sub(r"\s+", "", str(text)) for name, text in rows}


def test_the_migrations_make_exactly_the_schema_of_a_new_database(tmp_path: Path) -> None:
    """Both directions: nothing is missing in the one or the other; tables, columns, indices, triggers."""
    migrated, made = create_engine("sqlite://"), create_engine("sqlite://")
    with migrated.connect() as connection, connection.begin():
        migrate._run(connection, migrate.SCRIPTS)
        first = schema(connection)
        assert connection.exec_driver_sql("SELECT * FROM alembic_version").all() == [
            (tables.revision_of(tables.SCHEMA_VERSION),)
        ]
    with made.connect() as connection, connection.begin():
        tables.metadata.create_all(connection)
        for trigger in tables.TRIGGERS:
            connection.exec_driver_sql(trigger)
        assert schema(connection) == first
        connection.exec_driver_sql("DROP TRIGGER nodes_once")
        assert schema(connection) != first
    assert len(first) == 29
    Ledger.open(tmp_path).close()
    with raw(tmp_path) as real:
        names = {f"{kind} {name}" for kind, name in real.execute("SELECT type, name FROM sqlite_schema WHERE sql")}
    assert names <= first.keys()


def test_a_database_of_this_version_without_a_stamp_is_stamped_without_a_backup(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 1)
    assert migrate.migrate(state) is None
    assert not (state / backup.FOLDER).exists()
    with raw(state) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("0001",)]


def test_revisions_are_named_by_their_schema_versions() -> None:
    directory = ScriptDirectory(str(migrate.SCRIPTS))
    found = [one.revision for one in directory.walk_revisions()]
    assert sorted(found) == [tables.revision_of(number) for number in range(1, tables.SCHEMA_VERSION + 1)]
    for path in (migrate.SCRIPTS / "versions").glob("v*.py"):
        assert f'revision: Final = "{path.name[1:5]}"' in path.read_text("utf-8")
        assert "acceptd.record.tables" not in path.read_text("utf-8")


def test_the_first_revision_makes_exactly_what_these_tests_call_version_1(state: Path) -> None:
    with create_engine(f"sqlite:///{state / database.FILE_NAME}").connect() as connection:
        found = schema(connection)
    engine = create_engine("sqlite://")
    with engine.connect() as connection, connection.begin():
        migrate._run(connection, migrate.SCRIPTS, "0001")
        assert schema(connection) == found | {"table alembic_version": schema(connection)["table alembic_version"]}


def test_a_database_of_before_alembic_is_migrated_and_stamped_and_goes_on(state: Path) -> None:
    done = migrate.migrate(state)
    assert done is not None
    assert (done.before, done.after) == (1, 2)
    with raw(state) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("0002",)]
        said = connection.execute("SELECT value FROM meta WHERE key = 'readable_from'").fetchall()
        assert said == [(str(tables.READABLE_FROM),)], "as a new database has it"
    assert audit.verify(state) == []
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 11


@pytest.mark.usefixtures("version_3")
def test_an_older_database_is_migrated_after_a_backup_and_keeps_its_tree(state: Path) -> None:
    before = sqlite3.connect(state / database.FILE_NAME).execute("SELECT leaf, leaf_hash FROM entries").fetchall()
    done = run(state, scripts(state, ADDS))
    assert done is not None
    assert done.backup is not None
    assert (done.before, done.after, done.backup.name) == (1, 3, "ledger-v1-20261129T151700Z.sqlite3")
    assert stat.S_IMODE(done.backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(done.backup.parent.stat().st_mode) == 0o700
    assert os.listdir(done.backup.parent) == [done.backup.name]
    for place in (done.backup, state / database.FILE_NAME):
        with contextlib.closing(sqlite3.connect(place)) as connection:
            assert connection.execute("SELECT leaf, leaf_hash FROM entries").fetchall() == before
            there = connection.execute("SELECT name FROM sqlite_schema WHERE name = 'more'").fetchall()
            assert there == ([] if place == done.backup else [("more",)])
    assert run(state, scripts(state, ADDS)) is None
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 11
    assert audit.verify(state) == []


@pytest.mark.usefixtures("version_3")
def test_the_backup_opens_as_the_state_that_it_was(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(state, scripts(state, ADDS))
    assert done is not None
    assert done.backup is not None
    (state / database.FILE_NAME).unlink()
    shutil.copy(done.backup, state / database.FILE_NAME)
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 1)
    assert audit.verify(state) == []


@pytest.mark.usefixtures("version_3")
def test_everything_else_says_what_to_do_with_an_older_database(state: Path) -> None:
    before = dump(state)
    with pytest.raises(StateError, match="schema version 1 is older than this acceptd's 3") as told:
        Ledger.open(state, create=False)
    assert "acceptd ledger migrate" in told.value.remedy
    assert "\n" not in str(told.value)
    assert dump(state) == before, "and it changes nothing"
    assert not (state / backup.FOLDER).exists()
    assert audit.verify(state)[0].message == str(told.value)


def test_a_newer_database_is_refused_and_left_alone(state: Path) -> None:
    migrate.migrate(state)
    with raw(state) as connection:
        connection.execute("UPDATE meta SET value = '4' WHERE key = 'schema_version'")
        connection.execute("UPDATE meta SET value = '3' WHERE key = 'readable_from'")
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    for opening in (lambda: Ledger.open(state, create=False), lambda: migrate.migrate(state)):
        with pytest.raises(StateError, match="schema version 4 is newer than this acceptd's 2") as told:
            opening()
        assert told.value.remedy == "use the acceptd that wrote it, or a later one"


@pytest.mark.usefixtures("version_3")
def test_an_older_acceptd_works_on_a_newer_schema_that_says_so_and_on_no_other(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling upgrade: the schema first, then each node; `readable_from` says which code may still work."""
    assert run(state, scripts(state, ADDS)) is not None
    monkeypatch.setattr(tables, "SCHEMA_VERSION", 2)
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 11
    assert migrate.migrate(state) is None, "and it is not brought back"
    for said in ("'3'", "''", "'2x'", "x'32'", "NULL"):
        with raw(state) as connection:
            connection.execute("DELETE FROM meta WHERE key = 'readable_from'")
            if said != "NULL":
                connection.execute(f"INSERT INTO meta VALUES ('readable_from', {said})")
        with pytest.raises(StateError, match="schema version 3 is newer than this acceptd's 2"):
            Ledger.open(state, create=False)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE alembic_version SET version_num = '0000'",
        "DELETE FROM alembic_version",
        "INSERT INTO alembic_version VALUES ('0003')",
        "UPDATE meta SET value = '0' WHERE key = 'schema_version'",
        "UPDATE meta SET value = '01x' WHERE key = 'schema_version'",
        "UPDATE meta SET value = x'31' WHERE key = 'schema_version'",
    ],
)
def test_a_version_that_was_edited_by_hand_is_no_version(state: Path, edit: str) -> None:
    migrate.migrate(state)
    with raw(state) as connection:
        connection.execute(edit)
    with pytest.raises(StateError):
        Ledger.open(state, create=False)
    with pytest.raises(StateError):
        migrate.migrate(state)
    assert audit.verify(state) != []


TOUCHES = {
    "update": "op.execute(\"UPDATE entries SET recorded_at = '2020-01-01T00:00:00Z' WHERE seq = 3\")",
    "delete": 'op.execute("DELETE FROM nodes")',
    "append": "op.execute(\"INSERT INTO entries SELECT 11, 'note', NULL, NULL, leaf, leaf_hash, recorded_at "
    'FROM entries WHERE seq = 3")',
    # What no trigger sees: they are dropped first, the table is exchanged, a column is added, evidence goes.
    "untriggered": 'op.execute("DROP TRIGGER entries_no_update")\n'
    "    op.execute(\"UPDATE entries SET submission = 'x' WHERE seq = 3\")",
    "exchanged": 'op.execute("CREATE TABLE other AS SELECT * FROM entries")\n'
    '    op.execute("DROP TABLE entries")\n    op.execute("ALTER TABLE other RENAME TO entries")',
    "column": 'op.add_column("entries", sa.Column("more", sa.Text))',
    "evidence": 'op.execute("DELETE FROM evidence")',
}


@pytest.mark.usefixtures("version_3")
@pytest.mark.parametrize("how", TOUCHES)
def test_a_migration_that_touches_the_truth_is_refused_and_rolled_back(state: Path, how: str) -> None:
    before = dump(state)
    with pytest.raises(LedgerError, match=r"append-only|changed entries, tree or evidence"):
        run(state, scripts(state, f"    {TOUCHES[how]}\n"))
    assert dump(state) == before
    with raw(state) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (11,)
        assert connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone() == ("1",)


@pytest.mark.usefixtures("version_3")
def test_a_projection_may_be_migrated(state: Path) -> None:
    body = '    op.execute("DELETE FROM findings")\n    op.drop_index("findings_code", "findings")\n'
    assert run(state, scripts(state, body)) is not None


@pytest.mark.usefixtures("version_3")
def test_a_migration_that_fails_half_way_changes_nothing(state: Path) -> None:
    before = dump(state)
    for body in (f"{ADDS}    raise RuntimeError('half-way')\n", f'{ADDS}    op.execute("SELEC 1")\n'):
        with pytest.raises((RuntimeError, LedgerError)):
            run(state, scripts(state, body))
        assert dump(state) == before
        (backups,) = (state / backup.FOLDER).iterdir()
        backups.unlink()


@pytest.mark.usefixtures("version_3")
def test_a_damaged_log_is_not_migrated(state: Path) -> None:
    with raw(state) as connection:
        connection.execute("DROP TRIGGER entries_no_update")
        connection.execute("UPDATE entries SET leaf = x'00' WHERE seq = 4")
    with pytest.raises(LedgerError, match="nothing was migrated"):
        run(state, scripts(state, ADDS))
    assert not (state / backup.FOLDER).exists()


@pytest.mark.usefixtures("version_3")
def test_nobody_writes_between_the_backup_and_the_migration(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def writes(name: str) -> None:
        if name != "record.migrate.backed-up":
            return
        with contextlib.closing(sqlite3.connect(state / database.FILE_NAME, timeout=0.05)) as other:
            try:
                other.execute("INSERT INTO meta VALUES ('late', 'write')")
            except sqlite3.OperationalError as error:
                tried.append(str(error))

    monkeypatch.setattr(migrate, "failpoint", writes)
    assert run(state, scripts(state, ADDS)) is not None
    assert tried == ["database is locked"]


@pytest.mark.usefixtures("version_3")
def test_of_two_that_migrate_one_does_it(state: Path) -> None:
    place = scripts(state, ADDS)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(run(state, place))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(one is None for one in found) == [False, True]
    assert len(list((state / backup.FOLDER).iterdir())) == 1


@pytest.mark.usefixtures("version_3")
def test_without_room_for_the_backup_nothing_is_migrated(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "free_bytes", lambda _place: 1 << 20)
    before = dump(state)
    with pytest.raises(StateError, match=r"needs \d+ bytes, 1048576 are free"):
        run(state, scripts(state, ADDS))
    assert dump(state) == before
    assert list((state / backup.FOLDER).iterdir()) == []


def test_a_backup_is_one_snapshot_under_a_writer_and_replaces_nothing(state: Path, tmp_path: Path) -> None:
    migrate.migrate(state)
    stop = threading.Event()

    def write() -> None:
        with Ledger.open(state, create=False) as ledger:
            while not stop.is_set():
                ledger.append("note", {})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            made = online_backup(state / database.FILE_NAME, tmp_path / "kept", f"{number}.sqlite3")
            with contextlib.closing(sqlite3.connect(made.path)) as connection:
                last = connection.execute("SELECT max(seq) FROM entries").fetchone()[0]
            assert made.rows["entries"] == last + 1
    finally:
        stop.set()
        writer.join(60)
    (tmp_path / "kept" / ".tmp-0123456789abcdef").write_bytes(b"of a killed one")
    with pytest.raises(StateError, match=r"0\.sqlite3: the backup cannot be written: File exists"):
        online_backup(state / database.FILE_NAME, tmp_path / "kept", "0.sqlite3")
    assert sorted(os.listdir(tmp_path / "kept")) == [f"{number}.sqlite3" for number in range(5)]


def test_a_backup_of_a_damaged_database_is_refused(state: Path, tmp_path: Path) -> None:
    path = state / database.FILE_NAME
    data = path.read_bytes()
    path.write_bytes(data.replace(b"what was measured", b"") + bytes(17))  # a page that moved: no form of SQLite's
    with pytest.raises(LedgerError):
        online_backup(path, tmp_path / "kept", "x.sqlite3")
    assert os.listdir(tmp_path / "kept") == []
