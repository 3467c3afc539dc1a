"""What an audit says where it cannot look, and of what others do meanwhile: never that all is well."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import LedgerError
from acceptd.record import audit, checkpoint, keystore
from acceptd.record.audit import Kept, verify
from acceptd.record.auditing import pool, tree
from acceptd.record.auditing.parts import Part, Work
from acceptd.record.auditing.report import Report
from acceptd.record.database import FILE_NAME, MOVED
from acceptd.record.log import Ledger
from tests.audit_world import AT, audited, edit, found

pytestmark = pytest.mark.unit


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return audited(tmp_path / "state")


def messages(state: Path, **more: Any) -> list[str]:
    return [one.message for one in audit.examine(state, **more).differences]


def test_a_checkpoint_that_was_kept_elsewhere_and_is_nobodys_is_told_with_its_place(state: Path) -> None:
    """Whoever hands an auditor a note of his own has proved nothing by it, and the audit does not pass it over."""
    note = checkpoint.note_of(state, 7)
    assert messages(state, kept=[Kept("mail of monday", note)]) == []
    forged = note.replace(b"\n7\n", b"\n6\n")
    [one] = audit.examine(state, kept=[Kept("mail of monday", forged)]).differences
    assert (one.what, one.where) == ("checkpoint", "mail of monday")


def test_a_checkpoint_that_is_pruned_while_it_is_read_is_no_difference(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pruned(*_: Any) -> Any:
        checkpoint_file = state / checkpoint.DIRECTORY / checkpoint.file_name(7)
        checkpoint_file.unlink(missing_ok=True)
        raise LedgerError("No such file or directory")

    monkeypatch.setattr(tree.checkpoint, "read", pruned)
    assert verify(state) == []


def test_a_ledger_that_says_that_it_was_moved_is_audited_and_told_as_what_does_not_go_on(state: Path) -> None:
    edit(state, f"INSERT INTO meta (key, value) VALUES ('{MOVED}', '/elsewhere')")
    [one] = verify(state)
    assert (one.what, one.where) == ("database", "meta")
    assert "was moved to '/elsewhere': it is not what goes on" in one.message


def test_a_log_that_begins_with_another_ones_name_is_found(state: Path) -> None:
    edit(state, "UPDATE meta SET value = 'acceptd/0123456789abcdef0123456789abcdef' WHERE key = 'origin'")
    assert ("entry", "entry 0") in found(state)


def test_rotations_that_cannot_be_read_are_a_difference_and_the_rest_is_audited_all_the_same(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = Ledger.entries

    def broken(self: Ledger, **wanted: Any) -> Any:
        if wanted.get("kind") == keystore.ENTRY:
            raise LedgerError("it is damaged")
        return entries(self, **wanted)

    monkeypatch.setattr(Ledger, "entries", broken)
    assert found(state) == {("keys", "rotations")}
    edit(state, "UPDATE entries SET leaf_hash = zeroblob(32) WHERE seq = 1")
    assert {where for _, where in found(state)} >= {"rotations", "entry 1"}


def test_while_a_rotation_is_half_done_its_files_are_no_difference(state: Path) -> None:
    (state / "rotations.json").write_bytes(b"{}")
    assert found(state) != set()
    (state / "keys/ledger.next.pem").write_bytes(b"")
    assert found(state) == set()


@pytest.mark.parametrize("number", [0, 1])
def test_a_host_that_starts_no_process_verifies_nothing_and_leaves_none(
    number: int, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = subprocess.Popen, []

    def started(*words: Any, **named: Any) -> Any:
        if len(begun) == number:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        begun.append(begin(*words, **named))
        return begun[-1]

    monkeypatch.setattr(pool.subprocess, "Popen", started)
    [told] = messages(state, workers=2)
    assert "Resource temporarily unavailable; nothing is verified" in told
    assert [one.returncode is not None for one in begun] == [True] * number


def test_a_process_that_ends_before_it_is_asked_verifies_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = pool._Worker.ask

    def late(self: pool._Worker, part: Part) -> Any:
        self._process.kill()
        self._process.wait()
        return ask(self, part)

    monkeypatch.setattr(pool._Worker, "ask", late)
    [told] = messages(state, workers=1)
    assert "nothing is verified" in told


def test_a_part_of_a_database_that_cannot_be_read_says_so_instead_of_being_empty(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"\xa5" * 8192)
    raw = sqlite3.connect(path, isolation_level=None)
    came = Work(raw, path, "acceptd/0", None).do(Part("entries", 0, 4))
    raw.close()
    assert "error" in came
    report = Report()
    report.merge(came)
    assert [one.what for one in report.found] == ["database"]


def test_the_head_of_an_audit_ends_before_a_part_that_could_not_be_read(state: Path) -> None:
    """It would claim a tree over entries that nobody has seen."""
    raw = sqlite3.connect(state / FILE_NAME, isolation_level=None)
    report = Report()
    one = tree.Tree([], report)
    one.take(raw, Part("entries", 0, 4), {"error": "it is damaged"})
    one.take(raw, Part("entries", 4, 7), {"first": AT, "last": AT, "marks": {}, "hashes": [], "size": 3})
    assert one.finish(raw).size == 0
    raw.close()
    assert report.found == [], "the part has said it already"
