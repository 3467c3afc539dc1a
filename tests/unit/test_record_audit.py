"""The audit finds every tampering, each with its place: one test a manner of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import StateError
from acceptd.record import attest, audit, checkpoint, merkle
from acceptd.record.audit import verify
from acceptd.record.auditing import report
from acceptd.record.canonical import canonical, digest
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Keyring, Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

pytestmark = pytest.mark.unit

AT = "2026-11-29T15:17:00Z"
DIGEST = "ab" * 32
NULLS = "NULL, NULL, NULL, NULL"
LEAF = "CAST(leaf AS TEXT)"
LOG = "acceptd/" + "ab" * 16
FINDING = {
    "code": "run/crash",
    "severity": "reject",
    "audience": "team",
    "stage": "run",
    "where": "main",
    "message": "SIGFPE",
}


def verdict(signer: Signer | None, submission: str, word: str = "rejected", **more: Any) -> dict[str, Any]:
    findings = [FINDING] if word == "rejected" else []
    body = {"verdict": word, "judged_at": AT, "reason": "r", "findings": findings, "bundle_digest": DIGEST, **more}
    if signer is not None:
        body["statement"] = attest.sign_statement(
            attest.verdict_statement(
                submission=submission,
                verdict=word,
                bundle_id="mosaic/m",
                bundle_digest=DIGEST,
                files=[],
                findings=findings,
                predicate={},
            ),
            signer,
        )
    return body


def intent(number: int) -> dict[str, Any]:
    return {"model": "mosaic/m", "channel": "production", "number": number, "digest": DIGEST}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A ledger with verdicts, a release, a revocation, evidence, a queue and a checkpoint of all of it."""
    here = tmp_path / "state"
    here.mkdir()
    keyring = create_keys(here)
    signer = load_signer(here, "ledger")
    with Ledger.open(here, clock=lambda: AT) as ledger:
        queue = Queue(ledger)
        for number in range(1, 4):
            queue.add(f"s-{number}", team="mosaic", name="d", path="/p", kind="directory")
            word = "accepted" if number == 3 else "rejected"
            ledger.append("verdict", verdict(signer, f"s-{number}", word), submission=f"s-{number}")
            queue.advance(f"s-{number}", "done")
        ledger.append("intent", intent(1))
        ledger.append("activated", intent(1))
        ledger.append("revoked", {"digest": DIGEST, "reason": "leak"})
        with ledger.transaction() as change:
            change.put_evidence(b"facts")
        checkpoint.write(here, ledger, signer, keyring)
    return here


def edit(state: Path, *statements: str, triggers: bool = True) -> None:
    """Edit the database as an attacker would who takes the triggers away and puts them back."""
    raw = sqlite3.connect(state / FILE_NAME)
    kept = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in kept:
        raw.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        raw.execute(statement)
    if triggers:
        for _, sql in kept:
            raw.execute(sql)
    raw.commit()
    raw.close()


def found(state: Path) -> set[tuple[str, str]]:
    return {(difference.what, difference.where) for difference in verify(state)}


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


def test_an_entry_rewritten_with_its_hash_breaks_the_tree_the_checkpoint_and_the_statement(state: Path) -> None:
    def rewrite(entry: dict[str, Any]) -> None:
        entry["body"]["verdict"], entry["body"]["findings"] = "accepted", []

    rewrite_entry(state, 1, rewrite)
    differences = found(state)
    assert ("tree", "node 0 of level 1") in differences
    assert ("checkpoint", "size 7") in differences
    assert ("statement", "entry 1") in differences
    assert ("projection", "verdicts: submission=s-1") in differences


def rewrite_entry(state: Path, seq: int, change: Callable[[dict[str, Any]], None]) -> None:
    raw = sqlite3.connect(state / FILE_NAME)
    (leaf,) = raw.execute("SELECT leaf FROM entries WHERE seq = ?", (seq,)).fetchone()
    raw.close()
    value = json.loads(leaf)
    change(value)
    data = canonical(value)
    leaf_hash = merkle.leaf_hash(data).hex()
    edit(state, f"UPDATE entries SET leaf = x'{data.hex()}', leaf_hash = x'{leaf_hash}' WHERE seq = {seq}")


def test_a_finding_hidden_with_the_whole_tree_recomputed_is_still_found(state: Path) -> None:
    """Whoever can write the database can compute every hash; the signatures are what is missing."""

    def hide(entry: dict[str, Any]) -> None:
        entry["body"]["findings"] = []

    rewrite_entry(state, 1, hide)
    raw = sqlite3.connect(state / FILE_NAME)
    hashes = [value for (value,) in raw.execute("SELECT leaf_hash FROM entries ORDER BY seq")]
    raw.close()
    frontier, statements = merkle.Frontier(), ["DELETE FROM findings WHERE submission = 's-1'"]
    for value in hashes:
        frontier, completed = frontier.append(value)
        statements += [
            f"UPDATE nodes SET hash = x'{node.hash.hex()}' WHERE level = {node.level} AND idx = {node.index}"
            for node in completed
        ]
    edit(state, *statements)
    shutil.rmtree(state / "checkpoints")
    assert found(state) == {("statement", "entry 1")}


def test_the_tail_cut_cleanly_is_found_by_the_checkpoint_alone(state: Path) -> None:
    edit(
        state,
        "DELETE FROM entries WHERE seq = 6",
        "DELETE FROM revocations",
        # 7 entries complete the nodes of 6: only entry 6 itself, which completes none, is cut.
    )
    assert found(state) == {("checkpoint", "size 7")}


def test_a_verdict_that_nobody_signed_is_found(state: Path) -> None:
    with Ledger.open(state, clock=lambda: AT) as ledger:
        ledger.append("verdict", verdict(None, "s-4"), submission="s-4")
        stranger = Signer.of("ledger", Ed25519PrivateKey.generate())
        ledger.append("verdict", verdict(stranger, "s-5"), submission="s-5")
        release = load_signer(state, "release")
        ledger.append("verdict", verdict(release, "s-6"), submission="s-6")
    assert found(state) == {("statement", f"entry {seq}") for seq in (7, 8, 9)}


def test_a_statement_of_another_submission_or_bundle_is_found(state: Path) -> None:
    signer = load_signer(state, "ledger")
    with Ledger.open(state, clock=lambda: AT) as ledger:
        ledger.append("verdict", verdict(signer, "s-3", "accepted"), submission="s-4")
        ledger.append("verdict", verdict(signer, "s-5", bundle_digest="cd" * 32), submission="s-5")
        ledger.append("verdict", {**verdict(signer, "s-6", "rejected"), "verdict": "accepted"}, submission="s-6")
    messages = {d.where: d.message for d in verify(state)}
    assert "submission is 's-3'" in messages["entry 7"]
    assert "not about the bundle" in messages["entry 8"]
    assert "verdict is 'rejected'" in messages["entry 9"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"team": "stranger"}, "is of the team"),
        ({"model": "mosaic/other"}, "is of the model"),
        ({"verdict": "accepted"}, "holds the verdict"),
        ({"manifest": {"labels": ["reject", "accept"]}}, "another manifest"),
        ({"options": {"optimisation": "all"}}, "another options"),
    ],
)
def test_a_queue_that_says_otherwise_than_the_verdict_is_found(
    state: Path, change: dict[str, Any], words: str
) -> None:
    signer = load_signer(state, "ledger")
    kept: dict[str, Any] = {
        "team": "mosaic", "model": "mosaic/m", "verdict": "rejected", "manifest": {"labels": ["accept", "reject"]},
        "options": {"optimisation": "disable"},
    }  # fmt: skip
    digests = {f"{what}_digest": digest(kept[what]) for what in ("manifest", "options")}
    body = verdict(signer, "q-1", team="mosaic", model="mosaic/m", **digests)
    with Ledger.open(state, clock=lambda: AT) as ledger:
        queue = Queue(ledger)
        for name, fields in (("q-1", kept), ("q-2", kept | change)):
            queue.add(name, name="d", path="/x", kind="directory", **fields)
        ledger.append("verdict", body, submission="q-1")
        ledger.append(
            "verdict",
            verdict(signer, "q-2", team="mosaic", model="mosaic/m", **digests),
            submission="q-2",
        )
    differences = {(d.what, d.where): d.message for d in verify(state)}
    assert set(differences) == {("queue", "submission q-2")}
    assert words in differences["queue", "submission q-2"]


def test_what_a_statement_says_of_policy_model_or_bundle_is_held_against_its_entry(state: Path) -> None:
    body = verdict(load_signer(state, "ledger"), "s-3", model="mosaic/m", policy="strict")
    value = attest.verify_statement(body["statement"], load_keyring(state))
    value["predicate"]["policy"] = "default"
    assert any(said.startswith("policy is") for said in attest.statement_differences(value, "s-3", body, LOG, 5))
    value["predicate"]["policy"] = "strict"
    assert list(attest.statement_differences(value, "s-3", body, LOG, 5)) == []
    assert list(attest.statement_differences(value, "s-3", {**body, "model": "mosaic/other"}, LOG, 5))
    value["subject"].insert(0, {"name": "mosaic/m", "digest": {"sha256": "cd" * 32}})  # ours stands second now
    assert any("not about the bundle" in said for said in attest.statement_differences(value, "s-3", body, LOG, 5))


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
