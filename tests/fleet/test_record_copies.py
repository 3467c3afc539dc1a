"""The record moves between a file and PostgreSQL, is backed up and restored, and stays what it was."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from acceptd.backup import make as making
from acceptd.backup import restore as restoring
from acceptd.cli import ledger_move
from acceptd.cli.setup import init
from acceptd.config import Paths
from acceptd.errors import LedgerError, StateError, UsageError
from acceptd.record import audit, copies, database
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.record.queue import Queue
from tests.fleet.postgres import OWNER, Server

pytestmark = pytest.mark.acceptance

FINDING = {
    "code": "a/b",
    "severity": "warn",
    "audience": "team",
    "stage": "s",
    "where": "w\x00",
    "message": "\x01m",
}


def filled(ledger: Ledger) -> None:
    """Rows in every table, some of text that PostgreSQL would refuse."""
    queue = Queue(ledger)
    for number in range(7):
        queue.add(f"s-{number}", team="a", name="n\x00\x01é", path="/c", kind="directory", uid=2**32 - 2)
    body = {"verdict": "accepted", "judged_at": "2026-11-29T15:17:00Z", "reason": "r", "team": "a", "model": "a/b"}
    ledger.append("verdict", {**body, "bundle_digest": "0" * 64, "findings": [FINDING]}, submission="s-1")
    ledger.append("intent", {"model": "a/b", "channel": "c", "number": 1, "digest": "0" * 64})
    ledger.append("activated", {"model": "a/b", "channel": "c", "number": 1})
    ledger.append("revoked", {"digest": "0" * 64, "reason": "r"})
    ledger.append("revoked", {"digest": "0" * 64, "reason": "again"})
    ledger.append_many([copies_entry(number) for number in range(300)])
    queue.note_start("s-2", "claimed")
    queue.bump_deaths("s-2")
    with ledger.transaction() as change:
        change.put_evidence(bytes(range(256)) * 50)
        change.put_evidence(b"")


def copies_entry(number: int):  # type: ignore[no-untyped-def]
    from acceptd.record.entry import NewEntry

    return NewEntry("note", {"n": number, "text": "\x00é"})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    place = tmp_path / "state"
    init(place, ["a"], None)
    with Ledger.open(place) as ledger:
        filled(ledger)
    return place


def told(state: Path) -> tuple[object, ...]:
    with Ledger.open(state, create=False) as ledger:
        queue = Queue(ledger)
        head, rows = ledger.tree(), queue.find()
        return ledger.origin, head, list(ledger.export()), rows, queue.deaths("s-2", "claimed"), ledger.proof(5)


def name_in_settings(state: Path, url: str) -> None:
    (state / "acceptd.toml").write_text(f'[record]\nurl = "{url}"\n')


def test_a_ledger_moves_to_postgresql_and_back_and_is_the_same(
    state: Path, postgres: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    before, verified = told(state), audit.verify(state)
    url = postgres.url(postgres.fresh_database())
    capsys.readouterr()
    ledger_move.move(url, state)
    assert "moved to PostgreSQL database" in capsys.readouterr().out
    with pytest.raises(StateError, match="was moved to"):
        Ledger.open(state, create=False)
    assert [one.where for one in audit.verify(state)] == ["entry 1", "meta"], "nor is it verified in silence"
    name_in_settings(state, url)
    assert told(state) == before
    assert audit.verify(state) == verified
    assert [one.message for one in verified] == ["the verdict has no signed statement"]
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 306
    with pytest.raises(StateError, match="before an earlier move"):
        ledger_move.move("file", state)
    (state / "ledger.sqlite3").rename(state / "old.sqlite3")
    after = told(state)
    ledger_move.move("file", state)
    with pytest.raises(StateError, match="was moved to"):
        Ledger.open(state, create=False)
    name_in_settings(state, "")
    assert told(state) == after
    assert audit.verify(state) == verified
    assert sorted(os.listdir(state / "backups")) == []
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 307


def test_a_ledger_moves_from_one_database_to_another(state: Path, postgres: Server) -> None:
    first, second = (postgres.url(postgres.fresh_database()) for _ in range(2))
    before = told(state)
    ledger_move.move(first, state)
    name_in_settings(state, first)
    ledger_move.move(second, state)
    name_in_settings(state, second)
    assert told(state) == before


def test_a_place_that_is_not_empty_is_refused_and_nothing_is_marked(state: Path, postgres: Server) -> None:
    name = postgres.fresh_database()
    Ledger.open(state, place=Place(state, postgres.url(name))).close()
    before = told(state)
    with pytest.raises(StateError, match="holds a ledger already"):
        ledger_move.move(postgres.url(name), state)
    strange = postgres.fresh_database()
    postgres.execute("CREATE TABLE nodes (n int)", database=strange, user=OWNER)
    with pytest.raises(StateError, match="'nodes' that is none of a ledger's"):
        ledger_move.move(postgres.url(strange), state)
    with pytest.raises(StateError, match="is there already"):
        ledger_move.move("file", state)
    for wrong in ("postgresql://a:b@c/d", "", "here.sqlite3"):
        with pytest.raises(UsageError, match="--to"):
            ledger_move.move(wrong, state)
    assert told(state) == before


@pytest.mark.parametrize("place", ["record.move.written", "record.move.before-mark"])
def test_a_move_that_was_killed_is_ended_by_the_next_one(state: Path, postgres: Server, place: str) -> None:
    url = postgres.url(postgres.fresh_database())
    before = told(state)
    child = os.fork()
    if child == 0:
        os.environ["ACCEPTD_FAILPOINT"] = place
        try:
            copies.move(Place(state), Place(state, url))
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert told(state) == before, "the one that was left is not marked yet"
    ledger_move.move(url, state)
    with pytest.raises(StateError, match="was moved to"):
        Ledger.open(state, create=False)
    name_in_settings(state, url)
    assert told(state) == before


def test_a_ledger_that_went_on_after_a_killed_move_is_not_taken_for_the_one_that_was_copied(
    state: Path, postgres: Server
) -> None:
    url = postgres.url(postgres.fresh_database())
    child = os.fork()
    if child == 0:
        os.environ["ACCEPTD_FAILPOINT"] = "record.move.before-mark"
        try:
            copies.move(Place(state), Place(state, url))
        finally:
            os._exit(9)
    os.waitpid(child, 0)
    with Ledger.open(state, create=False) as ledger:
        ledger.append("note", {})
    with pytest.raises(StateError, match="holds a ledger already"):
        ledger_move.move(url, state)
    with Ledger.open(state, create=False) as ledger:
        assert ledger.append("note", {}).seq == 307


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("UPDATE entries SET leaf = CAST(leaf AS TEXT) WHERE seq = 9", "not that of the entries"),
        ("UPDATE entries SET leaf = x'00' WHERE seq = 9", "not that of the entries"),
        ("UPDATE entries SET submission = CAST('s' AS BLOB) WHERE seq = 9", "not what was read"),
        ("UPDATE verdicts SET seq = 'x'", "bigint"),
    ],
)
def test_a_damaged_ledger_is_not_moved(state: Path, postgres: Server, edit: str, words: str) -> None:
    with contextlib.closing(sqlite3.connect(state / database.FILE_NAME)) as raw:
        raw.execute("DROP TRIGGER entries_no_update")
        raw.execute(edit)
        raw.commit()
    name = postgres.fresh_database()
    with pytest.raises(LedgerError, match=words):
        copies.move(Place(state), Place(state, postgres.url(name)))
    assert postgres.execute("SELECT to_regclass('entries')", database=name) == [(None,)]


def test_a_state_on_postgresql_is_backed_up_and_restored_into_an_empty_database(
    state: Path, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (postgres.url(postgres.fresh_database()) for _ in range(2))
    ledger_move.move(first, state)
    name_in_settings(state, first)
    (state / "ledger.sqlite3").unlink()
    before, verified = told(state), audit.verify(state)
    made = making.make(Paths(state), tmp_path / "kept", with_keys=True)
    assert made.entries == 306
    with pytest.raises(StateError, match="holds a ledger already") as refused:
        restoring.restore(tmp_path / "kept", tmp_path / "again")
    assert "ACCEPTD_RECORD_URL" in refused.value.remedy
    monkeypatch.setenv("ACCEPTD_RECORD_URL", second)
    again = tmp_path / "again"
    restoring.restore(tmp_path / "kept", again)
    assert not (again / "ledger.sqlite3").exists()
    assert told(again) == before
    assert audit.verify(again) == verified


def test_a_database_in_another_encoding_is_refused(state: Path, postgres: Server) -> None:
    name = postgres.fresh_database()
    postgres.drop(name)
    postgres.execute(f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(StateError, match="is in LATIN1, the record in UTF-8"):
        ledger_move.move(postgres.url(name), state)
