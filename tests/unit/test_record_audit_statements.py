"""The audit of what was signed: statements, checkpoints and the tree against the entries."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.record import attest, merkle
from acceptd.record.audit import verify
from acceptd.record.canonical import canonical, digest
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Signer, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from tests.audit_world import AT, audited, edit, found, verdict

pytestmark = pytest.mark.unit
LOG = "acceptd/" + "ab" * 16


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return audited(tmp_path / "state")


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


@pytest.mark.parametrize("subject", [[["digest", {}]], ["x"], [{"name": "x", "digest": []}], [{"name": "x"}]])
def test_a_statement_about_nothing_that_a_ledger_key_signed_is_named_and_ends_no_audit(
    state: Path, subject: list[Any]
) -> None:
    signer = load_signer(state, "ledger")

    def about_nothing(entry: dict[str, Any]) -> None:
        payload, _ = attest.unverified(entry["body"]["statement"])
        entry["body"]["statement"] = attest.sign_statement(json.loads(payload) | {"subject": subject}, signer)

    rewrite_entry(state, 1, about_nothing)
    assert ("statement", "entry 1") in found(state)


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
