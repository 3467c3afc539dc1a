"""The audit finds every tampering, each with its place: one test a manner of it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import StateError
from acceptd.record import audit, tables
from acceptd.record.audit import verify
from acceptd.record.auditing import report
from acceptd.record.canonical import digest
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Keyring, create_keys, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from tests.audit_world import AT, DIGEST, FINDING, audited, edit, found, verdict

pytestmark = pytest.mark.unit
NULLS = "NULL, NULL, NULL, NULL"
LEAF = "CAST(leaf AS TEXT)"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return audited(tmp_path / "state")


def test_an_honest_ledger_has_no_difference(state: Path) -> None:
    assert verify(state) == []
    with Ledger.open(state, clock=lambda: AT) as ledger:
        ledger.append("note", {"after": "the checkpoint"})
        ledger.rebuild()
        assert audit.examine(state) == audit.Audit(ledger.tree(), ())


def test_the_audit_changes_nothing(state: Path) -> None:
    def snapshot() -> dict[str, list[Any]]:
        raw = sqlite3.connect(state / FILE_NAME)
        names = [name for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: raw.execute(f"SELECT * FROM {name}").fetchall() for name in names}
        raw.close()
        return rows

    before = snapshot()
    verify(state)
    assert snapshot() == before


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        (
            f"UPDATE entries SET leaf = CAST(replace({LEAF}, 'run/crash', 'run/fine!') AS BLOB) WHERE seq = 1",
            "entry 1",
        ),
        (f"UPDATE entries SET leaf = {LEAF} WHERE seq = 2", "entry 2"),
        ("UPDATE entries SET leaf_hash = zeroblob(32) WHERE seq = 2", "entry 2"),
        ("UPDATE entries SET type = 'note' WHERE seq = 3", "entry 3"),
        ("UPDATE entries SET submission = 's-9' WHERE seq = 3", "entry 3"),
        ("UPDATE entries SET unique_key = NULL WHERE seq = 3", "entry 3"),
        ("UPDATE entries SET unique_key = 'intent/mosaic/m/production/9' WHERE seq = 4", "entry 4"),
        ("UPDATE entries SET recorded_at = '2020-01-01T00:00:00Z' WHERE seq = 5", "entry 5"),
        ("DELETE FROM entries WHERE seq = 3", "entry 3"),
        ("UPDATE entries SET seq = 70 WHERE seq = 6", "entry 6"),
    ],
)
def test_an_edited_column_or_a_removed_row_is_found_with_its_entry(
    state: Path, statement: str, where: str
) -> None:
    edit(state, statement)
    assert ("entry", where) in found(state)


def test_swapped_rows_are_found(state: Path) -> None:
    edit(
        state,
        "UPDATE entries SET seq = 100 WHERE seq = 1",
        "UPDATE entries SET seq = 1 WHERE seq = 2",
        "UPDATE entries SET seq = 2 WHERE seq = 100",
    )
    assert {("entry", "entry 1"), ("entry", "entry 2")} <= found(state)


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("DELETE FROM findings WHERE submission = 's-2'", "findings: submission=s-2, position=0"),
        ("UPDATE findings SET severity = 'info' WHERE submission = 's-2'", "findings: submission=s-2, position=0"),
        ("UPDATE verdicts SET verdict = 'accepted' WHERE submission = 's-1'", "verdicts: submission=s-1"),
        (f"INSERT INTO verdicts VALUES ('s-9', 9, 'accepted', {NULLS}, '', '')", "verdicts: submission=s-9"),
        ("UPDATE releases SET digest = 'other'", "releases: model=mosaic/m, channel=production, number=1"),
        ("UPDATE releases SET number = 2", "releases: model=mosaic/m, channel=production, number=2"),
        ("DELETE FROM revocations", f"revocations: digest={DIGEST}"),
    ],
)
def test_an_edited_projection_is_found_with_its_row_and_rebuilt(state: Path, statement: str, where: str) -> None:
    edit(state, statement)
    differences = found(state)
    assert ("projection", where) in differences
    assert {what for what, _ in differences} <= {"projection", "queue"}
    with Ledger.open(state) as ledger:
        ledger.rebuild()
    assert verify(state) == []


def test_edited_nodes_and_evidence_are_found(state: Path) -> None:
    edit(state, "UPDATE nodes SET hash = zeroblob(32) WHERE level = 2", "UPDATE evidence SET data = x'00'")
    assert found(state) >= {("tree", "node 0 of level 2"), ("evidence", hashlib.sha256(b"facts").hexdigest())}
    edit(state, "DELETE FROM nodes WHERE level = 2 AND idx = 0")
    assert ("tree", "node 0 of level 2") in found(state)
    edit(state, "INSERT INTO nodes VALUES (2, 0, zeroblob(32))", "INSERT INTO nodes VALUES (5, 9, zeroblob(32))")
    assert ("tree", "nodes") in found(state)


def test_missing_and_strange_triggers_are_found(state: Path) -> None:
    edit(state, triggers=False)
    assert {where for what, where in found(state) if what == "database"} == {
        "trigger entries_no_update",
        "trigger entries_no_delete",
        "trigger entries_next",
        "trigger entries_once",
        "trigger nodes_no_update",
        "trigger nodes_no_delete",
        "trigger nodes_once",
        "trigger evidence_no_update",
    }


def test_a_trigger_that_does_an_attackers_work_is_found(state: Path) -> None:
    raw = sqlite3.connect(state / FILE_NAME)
    raw.execute("CREATE TRIGGER quiet AFTER INSERT ON findings BEGIN DELETE FROM findings; END")
    raw.commit()
    raw.close()
    assert ("database", "trigger quiet") in found(state)


def test_a_revocation_taken_out_of_the_index_that_readers_use_is_found(state: Path) -> None:
    """The entry stands, whole and in its tree, and nobody who asks by type sees it."""
    edit(
        state,
        "DROP INDEX entries_type",
        "CREATE INDEX entries_type ON entries (type, seq) WHERE type != 'revoked'",
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = substr(sql, 1, instr(sql, ' WHERE') - 1) WHERE name = 'entries_type'",
    )
    with Ledger.open(state) as ledger:
        assert list(ledger.entries(kind="revoked")) == [], "the attack works"
    differences = verify(state)
    assert {one.what for one in differences} == {"database"}
    assert "missing from index entries_type" in differences[0].message


def test_a_view_in_the_place_of_a_table_is_found(state: Path) -> None:
    columns = ", ".join(column.name for column in tables.verdicts.columns)
    edit(
        state,
        "ALTER TABLE verdicts RENAME TO shown",
        f"CREATE VIEW verdicts AS SELECT {columns} FROM shown WHERE random() IS NOT 1",
    )
    assert ("database", "view verdicts") in found(state)


def test_another_instances_file_is_found(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Ledger.open(other).close()
    shutil.copy(other / FILE_NAME, state / FILE_NAME)
    assert found(state) == {("checkpoint", "size 7")}


def test_a_swapped_keyring_is_found(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = create_keys(other)
    assert {d.what for d in verify(state, stranger)} == {"checkpoint", "statement"}
    (state / "keyring.json").unlink()
    assert found(state) == {("keys", "keyring.json")}
    assert verify(state, Keyring.of(load_signer(state, role).public_key() for role in ("ledger", "release"))) == []


def test_a_changed_checkpoint_file_is_found(state: Path) -> None:
    path = state / "checkpoints" / "0000000000000007.note"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\n7\n", b"\n6\n"))
    assert found(state) == {("checkpoint", "size 7")}
    path.rename(path.with_name("0000000000000006.note"))
    path.with_name("0000000000000006.note").write_bytes(data)
    assert found(state) == {("checkpoint", "size 6")}


def test_a_submission_that_is_done_without_a_verdict_is_found(state: Path) -> None:
    with Ledger.open(state) as ledger:
        Queue(ledger).add("s-9", team="mosaic", name="d", path="/p", kind="directory", state="done")
    assert found(state) == {("queue", "submission s-9")}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE submissions SET data = '{' WHERE id = 's-2'",
        "UPDATE submissions SET data = x'7b7d' WHERE id = 's-2'",
        "UPDATE submissions SET bundle_digest = 'other' WHERE id = 's-2'",
    ],
)
def test_an_edited_queue_is_found_where_it_contradicts_the_log(state: Path, statement: str) -> None:
    edit(state, statement)
    assert found(state) == {("queue", "submission s-2")}


def test_a_damaged_file_is_a_difference_and_a_missing_one_an_error(state: Path) -> None:
    path = state / FILE_NAME
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    assert {what for what, _ in found(state)} == {"database"}
    path.unlink()
    with pytest.raises(StateError, match="no ledger"):
        verify(state)


def test_the_number_of_differences_is_capped(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_DIFFERENCES", 3)
    edit(state, "UPDATE entries SET leaf_hash = zeroblob(32)")
    differences = verify(state)
    assert len(differences) == 4
    assert "more than 3" in differences[3].message


QUEUED: dict[str, Any] = {
    "document": {"findings": [FINDING], "reason": "r"},
    "sealed": {"digest": DIGEST},
    "profiles": [{"profile": "cpu"}],
}


@pytest.mark.parametrize(
    ("key", "forged"),
    [
        ("document", {"findings": [], "reason": "r"}),
        ("sealed", {"digest": "cd" * 32}),
        ("profiles", [{"profile": "cuda"}]),
    ],
)
def test_a_report_that_hides_a_finding_and_what_else_a_promotion_takes_from_the_queue_is_found(
    state: Path, key: str, forged: object
) -> None:
    """What reviewers read lies in the queue: a verdict binds it, all but what it gained afterwards."""
    with Ledger.open(state, clock=lambda: AT) as ledger:
        queue = Queue(ledger)
        queue.add("s-9", team="mosaic", name="d", path="/p", kind="directory")
        digests = {"report_digest": digest(QUEUED["document"]), "profiles_digest": digest(QUEUED["profiles"])}
        ledger.append("verdict", verdict(load_signer(state, "ledger"), "s-9", **digests), submission="s-9")
        afterwards = {"drop": "d", "release": {"number": 1}, "promotion_trouble": "none"}
        queue.advance("s-9", "done", **(QUEUED | {"document": {**QUEUED["document"], **afterwards}}))
        assert verify(state) == []
        changed: dict[str, Any] = {key: forged}
        queue.advance("s-9", "done", **changed)
    assert found(state) == {("queue", "submission s-9")}


def test_evidence_that_was_taken_away_is_found(state: Path) -> None:
    """No trigger has to go for that, and without it nobody can judge the submission again."""
    with Ledger.open(state, clock=lambda: AT) as ledger:
        with ledger.transaction() as change:
            kept = change.put_evidence(b"what was measured")
        body = verdict(load_signer(state, "ledger"), "s-9", evidence_digest=kept)
        ledger.append("verdict", body, submission="s-9")
    assert verify(state) == []
    raw = sqlite3.connect(state / FILE_NAME)
    raw.execute("DELETE FROM evidence WHERE digest = ?", (kept,))
    raw.commit()
    raw.close()
    assert found(state) == {("evidence", kept)}
