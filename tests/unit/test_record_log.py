"""The ledger: what is appended stays, in order, once, provable; and what it refuses."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import DuplicateEntryError, LedgerError, StateError, UsageError
from acceptd.record import merkle
from acceptd.record.canonical import canonical
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import Filter, NewEntry
from acceptd.record.log import Ledger
from tests.audit_world import edit
from tests.log_world import AT, opened

pytestmark = pytest.mark.unit
DIGEST = "ab" * 32
REST = "leaf, leaf_hash, recorded_at"


def verdict(word: str = "rejected", **more: Any) -> dict[str, Any]:
    finding = {
        "code": "run/crash",
        "severity": "reject",
        "audience": "team",
        "stage": "run",
        "where": "main",
        "message": "SIGFPE",
    }
    return {"verdict": word, "judged_at": AT, "reason": "run/crash", "findings": [finding], **more}


def intent(number: int, **more: Any) -> dict[str, Any]:
    return {"model": "mosaic/m", "channel": "production", "number": number, "digest": DIGEST, **more}


def test_the_leaf_is_the_documented_canonical_json(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        done = ledger.append("note", {"b": 1, "a": "é"}, submission="s-1")
        entry = ledger.entry(done.seq)
        assert (
            entry.leaf
            == (
                '{"at":"2026-11-29T15:17:00Z","body":{"a":"é","b":1},"seq":1,"submission":"s-1","type":"note","v":1}'
            ).encode()
        )
        assert done.leaf_hash == entry.leaf_hash == merkle.leaf_hash(entry.leaf)
        assert (done.seq, done.at) == (1, AT)


def test_the_first_entry_names_the_log_and_stays_after_reopening(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        origin, head = ledger.origin, ledger.tree()
        assert re.fullmatch(r"acceptd/[0-9a-f]{32}", origin), "as the manual and every checkpoint write it"
        assert ledger.entry(0).body == {"origin": origin}
    with opened(tmp_path) as again:
        assert again.origin == origin
        assert again.tree() == head
        assert head.size == 1


def test_tree_and_proofs_hold_over_all_entries(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        hashes = [ledger.entry(0).leaf_hash]
        heads = {1: ledger.tree().root}
        for number in range(40):
            hashes.append(ledger.append("note", {"n": number}).leaf_hash)
            heads[number + 2] = ledger.tree().root
        assert ledger.tree() == (41, merkle.root_of(hashes))
        for seq in range(41):
            proof = ledger.proof(seq)
            assert proof.holds()
            assert (proof.leaf_hash, proof.size, proof.root) == (hashes[seq], 41, heads[41])
            assert ledger.proof(seq, seq + 1).root == heads[seq + 1]
        before, after, path = ledger.consistency(23)
        assert (before.root, after.root) == (heads[23], heads[41])
        assert merkle.verify_consistency(23, before.root, 41, after.root, path)
        for seq, size in ((41, None), (-1, None), (3, 3), (0, 42)):
            with pytest.raises(LedgerError, match="there is no entry"):
                ledger.proof(seq, size)


def test_a_proof_travels_as_json_that_a_stranger_can_check(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append_many([NewEntry("note", {"n": number}) for number in range(4)])
        proof = ledger.proof(2, 4)
        told = proof.as_json()
        assert set(told) == {"seq", "leaf", "leaf_hash", "size", "root", "path"}
        assert (told["seq"], told["size"]) == (2, 4)
        leaf = base64.b64decode(told["leaf"], validate=True)
        assert leaf == ledger.entry(2).leaf
        path = [bytes.fromhex(step) for step in told["path"]]
        assert told["leaf_hash"] == merkle.leaf_hash(leaf).hex()
        assert merkle.verify_inclusion(merkle.leaf_hash(leaf), 2, 4, path, bytes.fromhex(told["root"]))
        assert told["root"] == merkle.root_of([ledger.entry(seq).leaf_hash for seq in range(4)]).hex()
        assert not replace(proof, leaf=ledger.entry(3).leaf).holds()
        assert not replace(proof, seq=3).holds()


def test_several_entries_stand_together_or_not_at_all(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        done = ledger.append_many([NewEntry("note", {"n": n}) for n in range(5)])
        assert [item.seq for item in done] == [1, 2, 3, 4, 5]
        head = ledger.tree()
        with pytest.raises(LedgerError, match="non-finite"):
            ledger.append_many([NewEntry("note", {}), NewEntry("note", {"x": float("nan")})])
        with pytest.raises(KeyError), ledger.transaction() as change:
            change.append("note", {"first": change.append("note", {}).seq, **verdict()["missing"]})
        assert ledger.tree() == head
        assert ledger.append("note", {}).seq == 6
        assert ledger.tree().root == merkle.root_of(entry.leaf_hash for entry in ledger.entries())


def test_one_verdict_for_each_submission(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append("verdict", verdict(), submission="s-1")
        with pytest.raises(DuplicateEntryError):
            ledger.append("verdict", verdict("accepted"), submission="s-1")
        ledger.append("verdict", verdict("accepted"), submission="s-2")
        assert [entry.body["verdict"] for entry in ledger.entries(kind="verdict")] == ["rejected", "accepted"]


def test_a_release_number_is_taken_once_and_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with ledger.transaction() as change:
            assert change.next_release_number("mosaic/m", "production") == 1
            change.append("intent", intent(1))
        with pytest.raises(DuplicateEntryError):
            ledger.append("intent", intent(1, digest="cd" * 32))
        ledger.append("abandoned", intent(1))
        with ledger.transaction() as change:
            assert change.next_release_number("mosaic/m", "production") == 2
            assert change.next_release_number("mosaic/m", "staging") == 1
        ledger.append("intent", intent(1, channel="staging"))


@pytest.mark.parametrize(
    ("kind", "body", "submission"),
    [
        ("verdict", verdict(), None),
        ("verdict", verdict("approved"), "s"),
        ("verdict", {"verdict": "accepted"}, "s"),
        ("verdict", {**verdict(), "findings": [{"code": "x/y"}]}, "s"),
        ("verdict", {**verdict(), "findings": "none"}, "s"),
        ("verdict", {**verdict(), "judged_at": "yesterday"}, "s"),
        ("intent", intent(0), None),
        ("intent", intent(True), None),
        ("intent", intent(1, model="mosaic"), None),
        ("intent", intent(1, channel="current"), None),
        ("intent", intent(1, digest="AB" * 32), None),
        ("activated", intent(7), None),
        ("abandoned", intent(7), None),
        ("revoked", {"digest": DIGEST}, None),
        ("revoked", {"digest": "x", "reason": "r"}, None),
        ("Note", {}, None),
        ("note ", {}, None),
        ("note", {}, "../s"),
        ("note", {}, ""),
        ("note", {"n": 2**53}, None),
    ],
)
def test_malformed_entries_are_refused_and_leave_nothing(
    tmp_path: Path, kind: str, body: dict[str, Any], submission: str | None
) -> None:
    with opened(tmp_path) as ledger:
        with pytest.raises(LedgerError):
            ledger.append(kind, body, submission=submission)
        assert ledger.tree().size == 1


def test_a_failure_that_the_caller_swallows_cannot_commit_half_an_entry(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with (
            pytest.raises(LedgerError, match="half-way"),
            ledger.transaction() as change,
            contextlib.suppress(LedgerError),
        ):
            change.append("activated", intent(3))
        assert ledger.tree().size == 1


def test_entries_need_a_durable_transaction_and_transactions_do_not_nest(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with pytest.raises(LedgerError, match="not durable"), ledger.transaction(durable=False) as change:
            change.append("note", {})
        with ledger.transaction(), pytest.raises(LedgerError, match="inside another"):
            ledger.append("note", {})
        assert ledger.tree().size == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET leaf = x'00' WHERE seq = 1",
        "UPDATE entries SET recorded_at = '2020-01-01T00:00:00Z'",
        "DELETE FROM entries WHERE seq = 1",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 1",
        f"INSERT INTO entries SELECT 7, type, submission, NULL, {REST} FROM entries WHERE seq = 1",
        f"INSERT OR REPLACE INTO entries SELECT 3, type, submission, unique_key, {REST} FROM entries",
        "UPDATE nodes SET hash = zeroblob(32)",
        "DELETE FROM nodes",
        "INSERT OR REPLACE INTO nodes SELECT level, idx, zeroblob(32) FROM nodes",
        "UPDATE evidence SET data = x'00'",
    ],
)
def test_the_database_itself_refuses_to_change_history(tmp_path: Path, statement: str) -> None:
    with opened(tmp_path) as ledger:
        ledger.append("note", {})
        ledger.append("verdict", verdict(), submission="s-1")
        with ledger.transaction() as change:
            change.put_evidence(b"evidence")
        before = list(ledger.entries())
    raw = sqlite3.connect(tmp_path / FILE_NAME)
    try:
        with pytest.raises(sqlite3.IntegrityError, match=r"append-only|numbered|unique_key|never edited"):
            raw.execute(statement)
    finally:
        raw.close()
    with opened(tmp_path) as ledger:
        assert list(ledger.entries()) == before


def test_projections_follow_the_entries_in_the_same_transaction(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append("verdict", verdict(model="mosaic/m", team="mosaic", bundle_digest=DIGEST), submission="s-1")
        ledger.append("intent", intent(1, reason="first", verdict_seq=1))
        ledger.append("activated", intent(1))
        ledger.append("intent", intent(2, kind="rollback"))
        ledger.append("activated", intent(2))
        ledger.append("revoked", {"digest": DIGEST, "reason": "leak"})
        ledger.append("revoked", {"digest": DIGEST, "reason": "again"})
        made = projected(ledger)
        assert made["verdicts"] == [("s-1", 1, "rejected", "mosaic", "mosaic/m", DIGEST, None, AT, "run/crash")]
        assert made["findings"] == [("s-1", 0, "run/crash", "reject", "team", "run", "main", "SIGFPE", "{}", 1)]
        assert [row[2:6] for row in made["releases"]] == [
            (1, DIGEST, "superseded", "promote"),
            (2, DIGEST, "active", "rollback"),
        ]
        assert made["revocations"] == [(DIGEST, 6, AT, "leak")]
        ledger.rebuild()
        assert projected(ledger) == made


def projected(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    with ledger.reading() as connection:
        return {
            name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name} ORDER BY 1, 2, 3")]
            for name in ("verdicts", "findings", "releases", "revocations")
        }


def test_export_filters_stream_the_leaf_values(tmp_path: Path) -> None:
    times = iter([AT, *(f"2026-12-0{day}T00:00:00Z" for day in range(1, 6))])
    with Ledger.open(tmp_path, clock=lambda: next(times)) as ledger:
        ledger.append("verdict", verdict("rejected", team="mosaic", model="mosaic/m"), submission="s-1")
        ledger.append("verdict", {**verdict("accepted", team="other"), "findings": []}, submission="s-2")
        ledger.append("intent", intent(1))
        ledger.append("note", {})

        def seqs(**wanted: str) -> list[int]:
            return [line["seq"] for line in ledger.export(Filter(**wanted))]

        assert seqs() == [0, 1, 2, 3, 4]
        assert seqs(team="mosaic") == [1, 3]
        assert seqs(model="mosaic/m") == [1, 3]
        assert seqs(verdict="accepted") == [2]
        assert seqs(type="intent") == [3]
        assert seqs(code="run/crash") == [1]
        assert seqs(since="2026-12-03T00:00:00Z") == [3, 4]
        assert seqs(team="mosaic", type="verdict", verdict="accepted") == []
        with pytest.raises(UsageError, match="no time"):
            Filter(since="last week")
        for line, entry in zip(ledger.export(), ledger.entries(), strict=True):
            value = dict(line)
            assert value.pop("leaf_hash") == merkle.leaf_hash(canonical(value)).hex()
            assert canonical(value) == entry.leaf


def test_reading_by_pages_gives_every_entry_once(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.append_many([NewEntry("note", {"n": n}, "odd" if n % 2 else None) for n in range(1, 600)])
        assert [entry.seq for entry in ledger.entries()] == list(range(600))
        assert [entry.seq for entry in ledger.entries(after=511, before=514)] == [512, 513]
        assert [entry.body["n"] for entry in ledger.entries(submission="odd")] == list(range(1, 600, 2))


def test_evidence_is_kept_by_digest(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        with ledger.transaction() as change:
            digest = change.put_evidence(b"facts")
            assert change.put_evidence(b"facts") == digest
        assert ledger.evidence(digest) == b"facts"
        assert ledger.evidence(DIGEST) is None
        assert [ledger.holds_evidence(one) for one in (digest, DIGEST)] == [True, False]


@pytest.mark.parametrize("data", ["'other'", "x'00'", "7"], ids=["text", "bytes", "a number"])
def test_evidence_that_was_exchanged_is_never_given_out(tmp_path: Path, data: str) -> None:
    with opened(tmp_path) as ledger, ledger.transaction() as change:
        digest = change.put_evidence(b"facts")
    edit(tmp_path, f"UPDATE evidence SET data = {data}")
    with opened(tmp_path) as ledger:
        with pytest.raises(LedgerError, match=f"evidence {digest} is not what its digest says"):
            ledger.evidence(digest)
        assert ledger.holds_evidence(digest), "it is not read"


@pytest.mark.parametrize(
    ("column", "value"),
    [("leaf", "'text'"), ("leaf", "7"), ("leaf_hash", f"'{'a' * 32}'"), ("leaf_hash", "7")],
)
def test_an_entry_whose_bytes_became_text_or_a_number_is_refused_in_one_line(
    tmp_path: Path, column: str, value: str
) -> None:
    with opened(tmp_path) as ledger:
        ledger.append_many([NewEntry("note", {"n": number}) for number in range(3)])
    edit(tmp_path, "PRAGMA ignore_check_constraints = ON", f"UPDATE entries SET {column} = {value} WHERE seq = 2")
    with opened(tmp_path) as ledger:
        with pytest.raises(LedgerError, match="a leaf or a leaf hash that is not bytes"):
            list(ledger.export())
        with pytest.raises(LedgerError, match=r"entry 2 has no leaf that is bytes|has lost its node 2 of level 0"):
            ledger.proof(2)
        assert ledger.proof(1).holds(), "the others stand"


def test_the_database_file_is_private_and_never_opened_when_others_can_write_it(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    previous = os.umask(0)
    try:
        with opened(tmp_path) as ledger:
            ledger.append("note", {})
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(previous)
    assert modes
    assert set(modes.values()) == {0o600}
    path.chmod(0o620)
    with pytest.raises(StateError, match="writable by group"):
        opened(tmp_path)
    path.unlink()
    path.symlink_to("elsewhere")
    with pytest.raises(StateError, match="not a regular file"):
        opened(tmp_path)


def test_what_is_no_ledger_or_a_newer_one_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no ledger"):
        opened(tmp_path, create=False)
    with pytest.raises(StateError, match="cannot be created"):
        opened(tmp_path / "missing")
    path = tmp_path / FILE_NAME
    path.write_bytes(b"not a database" * 100)
    path.chmod(0o600)
    with pytest.raises(StateError, match="not a ledger"):
        opened(tmp_path)
    path.unlink()
    opened(tmp_path).close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    raw.commit()
    raw.close()
    with pytest.raises(StateError, match="schema version 99 is newer") as caught:
        opened(tmp_path)
    assert "\n" not in str(caught.value)
