"""What the ledger refuses to open, to prove or to go on with, each in one line that says why."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import LedgerError, LedgerLostError, LedgerStorageError, StateError
from acceptd.record import backup
from acceptd.record.copies import move
from acceptd.record.database import FILE_NAME, MOVED
from acceptd.record.entry import NewEntry
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from tests.log_world import AT, opened

pytestmark = pytest.mark.unit


def edited(state: Path, *statements: str) -> None:
    """Change the file as somebody with a tool of SQLite does, past every trigger."""
    with contextlib.closing(sqlite3.connect(state / FILE_NAME, isolation_level=None)) as raw:
        names = [row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]
        for statement in (*(f"DROP TRIGGER {name}" for name in names), *statements):
            raw.execute(statement)


def filled(state: Path, entries: int = 5) -> None:
    with opened(state) as ledger:
        ledger.append_many([NewEntry("note", {"n": number}) for number in range(entries)])


def verdict(word: str) -> dict[str, Any]:
    return {"verdict": word, "judged_at": AT, "reason": "r", "findings": []}


def test_a_log_without_its_name_is_not_opened_not_even_to_look_at(tmp_path: Path) -> None:
    """Without it nobody can say that a checkpoint is of another log."""
    filled(tmp_path)
    edited(tmp_path, "DELETE FROM meta WHERE key = 'origin'")
    for options in ({}, {"read_only": True}, {"damaged": True}):
        with pytest.raises(LedgerError, match=r"the log has lost its name \(meta\.origin\)"):
            opened(tmp_path, **options)


def test_a_log_that_lost_its_entries_is_opened_for_an_audit_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    edited(tmp_path, "DELETE FROM entries", "DELETE FROM nodes")
    with pytest.raises(LedgerError, match="the log has lost its entries"):
        opened(tmp_path)
    with opened(tmp_path, damaged=True) as ledger:
        assert ledger.tree().size == 0


def test_a_tree_that_lost_a_node_proves_nothing_and_takes_no_entry(tmp_path: Path) -> None:
    filled(tmp_path)
    edited(tmp_path, "DELETE FROM nodes")
    with pytest.raises(LedgerError, match="the tree has lost its node 0 of level 2"):
        opened(tmp_path)
    with opened(tmp_path, damaged=True) as ledger:
        with pytest.raises(LedgerError, match="the tree has lost its node"):
            ledger.append("note", {})
        with pytest.raises(LedgerError, match="the tree has lost its node"):
            ledger.proof(0, 6)


@pytest.mark.parametrize(("old", "new"), [(7, None), (3, 2), (-1, 4), (2, 99)])
def test_there_is_no_proof_from_a_size_that_the_log_never_had(tmp_path: Path, old: int, new: int | None) -> None:
    filled(tmp_path)
    with opened(tmp_path) as ledger, pytest.raises(LedgerError, match="the log has 6 entries: no proof from"):
        ledger.consistency(old, new)


def test_several_entries_are_one_transaction_and_one_that_is_malformed_takes_all_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        made = ledger.append_many([NewEntry("note", {"n": 1}), NewEntry("note", {"n": 2})])
        assert [one.seq for one in made] == [1, 2]
        with pytest.raises(LedgerError):
            ledger.append_many([NewEntry("note", {"n": 3}), NewEntry("verdict", {}, "s-1")])
        assert ledger.tree().size == 3


def test_evidence_is_known_by_its_digest_alone_and_never_given_out_changed(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with ledger.transaction() as change:
            digest = change.put_evidence(b"measured")
            change.append("note", {"evidence": digest})
        assert ledger.holds_evidence(digest)
        assert not ledger.holds_evidence("0" * 64)
        assert ledger.evidence("0" * 64) is None
    edited(tmp_path, "UPDATE evidence SET data = x'00'")
    with opened(tmp_path) as ledger:
        assert ledger.holds_evidence(digest), "it is not read"
        with pytest.raises(LedgerError, match=f"evidence {digest} is not what its digest says"):
            ledger.evidence(digest)


def test_projections_made_anew_say_what_the_entries_say(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append("verdict", verdict("rejected"), submission="s-1")
        ledger.append("verdict", verdict("accepted"), submission="s-2")

        def kept() -> list[tuple[Any, ...]]:
            with ledger.reading() as connection:
                query = "SELECT submission, verdict FROM verdicts ORDER BY submission"
                return [tuple(row) for row in connection.exec_driver_sql(query)]

        before = kept()
        edited(tmp_path, "UPDATE verdicts SET verdict = 'accepted'")
        assert kept() != before
        ledger.rebuild()
        assert kept() == before == [("s-1", "rejected"), ("s-2", "accepted")]


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_change_that_was_lost_with_its_server_is_tried_again_and_no_other_failure_is(failures: int) -> None:
    tried: list[int] = []

    def do() -> str:
        tried.append(1)
        if len(tried) <= failures:
            raise LedgerLostError("the server went away")
        return "written"

    assert Ledger._again(do) == "written"
    assert len(tried) == failures + 1

    def refused() -> str:
        tried.append(1)
        raise LedgerStorageError("no space left on device")

    tried.clear()
    with pytest.raises(LedgerStorageError, match="no space left"):
        Ledger._again(refused)
    assert tried == [1]


# -- copies


def test_a_ledger_that_was_moved_away_goes_on_nowhere_but_there(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    filled(here)
    with opened(here) as ledger:
        head, origin = ledger.tree(), ledger.origin
    whole = move(Place(here), Place(there))
    assert (whole.size, whole.root) == (head.size, head.root)
    with pytest.raises(StateError, match="this ledger was moved to") as caught:
        opened(here)
    assert str(there / FILE_NAME) in caught.value.message
    with opened(here, damaged=True) as left:
        assert left.tree() == head, "who audits what was left still can"
    with opened(there) as ledger:
        assert (ledger.tree(), ledger.origin) == (head, origin)
        ledger.append("note", {})
    with pytest.raises(StateError, match="this ledger was moved to"):
        move(Place(here), Place(tmp_path / "third"))
    with pytest.raises(StateError, match="the record is there already"):
        move(Place(there), Place(there))


def test_a_move_that_was_killed_before_its_mark_is_ended_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    filled(here)

    def killed(name: str) -> None:
        raise KeyboardInterrupt(name)

    with monkeypatch.context() as patched:
        patched.setattr("acceptd.record.copies.failpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            move(Place(here), Place(there))
    with opened(here) as ledger:
        assert ledger.tree().size == 6, "nothing was marked: it goes on here"
    move(Place(here), Place(there))
    with opened(there) as ledger:
        assert ledger.tree().size == 6
    with pytest.raises(StateError, match="moved"):
        opened(here)


@pytest.mark.parametrize("kind", ["another", "went on", "moved on"])
def test_a_move_to_where_a_ledger_lies_is_refused_and_marks_nothing(kind: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    filled(here)
    if kind == "another":
        filled(there, 2)
    else:
        backup.online_backup(here / FILE_NAME, there, FILE_NAME)
    if kind == "went on":
        with opened(there) as ledger:
            ledger.append("note", {})
    if kind == "moved on":
        edited(there, f"INSERT INTO meta (key, value) VALUES ('{MOVED}', 'elsewhere')")
    words = "as it was before an earlier move" if kind == "moved on" else "holds a ledger already"
    with pytest.raises(StateError, match=words) as caught:
        move(Place(here), Place(there))
    assert caught.value.remedy
    with opened(here) as ledger:
        assert ledger.tree().size == 6


def test_a_damaged_ledger_is_neither_moved_nor_copied(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    filled(here)
    edited(here, "UPDATE entries SET leaf = x'7b7d' WHERE seq = 2")
    with pytest.raises(LedgerError, match="the tree is not that of the entries; nothing moved"):
        move(Place(here), Place(there))
    assert not there.exists()


def test_a_copy_that_lost_rows_on_its_way_is_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    rows = backup._rows
    seen: list[dict[str, int]] = []

    def fewer(connection: sqlite3.Connection) -> dict[str, int]:
        found = dict(rows(connection))
        seen.append(found)
        return found | ({"entries": 4} if len(seen) > 1 else {})

    monkeypatch.setattr(backup, "_rows", fewer)
    with pytest.raises(LedgerError, match="the copy of the database has 4 rows in entries, not 6"):
        backup.online_backup(tmp_path / FILE_NAME, tmp_path / "backups", "copy.sqlite3")
    assert not (tmp_path / "backups/copy.sqlite3").exists()
