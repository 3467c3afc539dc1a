"""Two versions of the schema at once: an older node goes on where it may, and else ends with one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from acceptd.cli.fleet import app
from acceptd.errors import StateError, UsageError
from acceptd.fleet.beat import Beat
from acceptd.fleet.look import look
from acceptd.fleet.nodes import Nodes, Told
from acceptd.fleet.ready import make_ready
from acceptd.fleet.standing import troubles
from acceptd.fleet.tasks import Tasks
from acceptd.record import tables
from tests.fleet.postgres import Server
from tests.fleet.record_world import Record, make_record

pytestmark = pytest.mark.acceptance

W1 = Told("w1", "worker", "host-1", queues=("cpu",), slots=2)
NEXT = tables.SCHEMA_VERSION + 1


@pytest.fixture
def record(tmp_path: Path, postgres: Server) -> Record:
    made = make_record(tmp_path / "state", postgres)
    make_ready(made.state)
    return made


def migrated(record: Record, *, readable_from: int) -> None:
    """Leave the database as a later acceptd's migration does: a column more, its version, and who may go on."""
    record.ask("ALTER TABLE submissions ADD COLUMN later text NOT NULL DEFAULT 'new'")
    record.ask(f"UPDATE meta SET value = '{NEXT}' WHERE key = 'schema_version'")
    record.ask(f"UPDATE alembic_version SET version_num = '{NEXT:04d}'")
    record.ask(f"UPDATE meta SET value = '{readable_from}' WHERE key = 'readable_from'")


def test_a_node_of_the_version_before_goes_on_and_status_says_to_upgrade_it(record: Record) -> None:
    migrated(record, readable_from=tables.SCHEMA_VERSION)
    with record.open(create=False) as ledger, Tasks(record.server.url(record.name)) as tasks:
        heard = Nodes(ledger).beat(W1, "boot", first=True)
        assert (heard.outdated, Nodes(ledger).beat(W1, "boot").outdated) == ("", "")
        assert ledger.append("note", {"n": 1}).seq == 1
        assert tasks.examine("s1", 1, "cpu", "cpu", "mosaic/m1") == "queued"
        found = {one.what: one for one in troubles(look(ledger))}
    assert f"works on schema {NEXT} with acceptd" in found["w1"].says
    assert found["w1"].remedy == "drain it, upgrade it, undrain it"


def test_a_node_that_starts_on_a_record_that_it_cannot_work_on_refuses_in_one_line(record: Record) -> None:
    migrated(record, readable_from=NEXT)
    with pytest.raises(StateError, match=f"schema version {NEXT} is newer than this acceptd's") as told:
        record.open(create=False)
    assert "use the acceptd that wrote it, or a later one" in told.value.remedy
    done = CliRunner().invoke(app, ["status", "--state", str(record.state)])
    assert isinstance(done.exception, StateError)


def test_a_node_that_runs_while_the_record_is_migrated_beyond_it_ends_with_the_reason(record: Record) -> None:
    ended: list[str] = []
    with record.open(create=False) as ledger:
        beat = Beat(Nodes(ledger), lambda: W1, lambda _wish: None, on_outdated=ended.append, seconds=0.05)
        beat._beat()
        assert ended == []
        migrated(record, readable_from=NEXT)
        beat._beat()
        beat._beat()
    assert len(ended) == 1
    assert f"schema version {NEXT} is newer" in ended[0]


def test_a_migration_that_would_leave_a_node_behind_waits_until_it_is_stopped(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    with record.open(create=False) as ledger:
        Nodes(ledger).beat(W1, "boot", first=True)
    monkeypatch.setattr(tables, "SCHEMA_VERSION", NEXT)
    monkeypatch.setattr(tables, "READABLE_FROM", NEXT)
    monkeypatch.setattr("acceptd.fleet.ready.migrate", lambda _state: pytest.fail("it was migrated"))
    with pytest.raises(UsageError, match=f"w1 could not work on schema {NEXT}") as told:
        make_ready(record.state)
    assert "drain and stop" in told.value.remedy
    record.ask("UPDATE fleet_nodes SET seen_at = '2020-01-01T00:00:00Z'")  # it is gone
    called: list[Path] = []
    monkeypatch.setattr("acceptd.fleet.ready.migrate", called.append)
    make_ready(record.state)
    assert called == [record.state]


def test_a_record_that_was_moved_away_ends_the_nodes_that_still_run_on_it(record: Record) -> None:
    with record.open(create=False) as ledger:
        nodes = Nodes(ledger)
        nodes.beat(W1, "boot", first=True)
        record.ask("INSERT INTO meta VALUES ('moved_to', 'elsewhere')")
        assert "moved to 'elsewhere'" in nodes.beat(W1, "boot").outdated
