"""States with very many entries, as a daemon would have written them, made in bulk: `ledger verify` accepts them.

Of ten submissions seven are accepted and promoted (a verdict, an intent, an activation), two rejected and one
held: 24 entries, ten of them with a signed statement. Only the way to the disk differs from a daemon's: many
entries to a transaction, no fsync, and the tree computed over all of them at once.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acceptd.record import attest, checkpoint, merkle, projections
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import Entry, NewEntry, encode, unique_key
from acceptd.record.keys import Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger

AT = "2026-11-29T11:57:00Z"
BATCH = 20_000
MODELS = 500
EVIDENCE_BYTES = 33_000
"""What the demo's submissions leave as evidence, on average."""
LIBRARIES = 85
"""Native libraries that a statement names with their digests: with these it is as long as the demo's."""

_FINDING = {
    "code": "run/crash", "severity": "reject", "audience": "team", "stage": "run", "where": "main",
    "message": "the model ended its process by a signal: SIGFPE", "count": 1, "evidence": {"signal": "SIGFPE"},
}  # fmt: skip


def verdict(number: int, signer: Signer, *, real: bool = False, evidence: str = "") -> NewEntry:
    """Return one verdict with its statement: short, or as long as the demo's (22 KB)."""
    submission, digest = f"s-{number:09d}", f"{number:064x}"
    word = ("rejected", "rejected", "held", *["accepted"] * 7)[number % 10]
    findings = [] if word == "accepted" else [_FINDING, {**_FINDING, "code": "contract/none", "severity": "hold"}]
    predicate: dict[str, Any] = {
        "timings_ms": {"seal": 3.1, "inspect": 20.5, "run": 31.25}, "walls": {"seccomp": "enforced"},
        "acceptd": "0.1.0", "policy": "default", "goldens": {"main": {"rtol": 0.0, "atol": 0.000001, "cases": 3}},
    }  # fmt: skip
    if real:
        names = [f"numpy.libs/library-{one}.so" for one in range(LIBRARIES)]
        predicate["runtimes"] = {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
        predicate["declared"] = {f"field-{one}": "what the manifest declares" for one in range(20)}
    statement = attest.verdict_statement(
        submission=submission, verdict=word, bundle_id=f"mosaic/model-{number % MODELS}", bundle_digest=digest,
        files=[("model.onnx", digest), ("bundle.toml", digest)], findings=findings, predicate=predicate,
    )  # fmt: skip
    body = {
        "verdict": word, "judged_at": AT, "reason": "every required stage is complete", "team": "mosaic",
        "model": f"mosaic/model-{number % MODELS}", "bundle_digest": digest, "findings": findings,
        "statement": attest.sign_statement(statement, signer),
    }  # fmt: skip
    if evidence:
        body["evidence_digest"] = evidence
    return NewEntry("verdict", body, submission)


def grow(state: Path, entries: int, *, real: bool = False) -> None:
    """Make a log of ``entries`` entries with a checkpoint at its end. A state that has so many stays as it is."""
    if not (state / "keys").is_dir():
        state.mkdir(parents=True, exist_ok=True)
        create_keys(state)
    signer = load_signer(state, "ledger")
    with Ledger.open(state, clock=lambda: AT) as ledger:
        size = ledger.tree().size
        if size < entries:
            assert size == 1, "a state is made in one go"
            _fill(state, signer, entries, real)
    with Ledger.open(state) as ledger:
        checkpoint.write(state, ledger, signer, load_keyring(state))


def _fill(state: Path, signer: Signer, entries: int, real: bool) -> None:
    raw = sqlite3.connect(state / FILE_NAME, isolation_level=None)
    raw.execute("PRAGMA synchronous=OFF")
    raw.execute("PRAGMA cache_size=-200000")
    hashes = [row[0] for row in raw.execute("SELECT leaf_hash FROM entries ORDER BY seq")]
    releases = projections.changes
    sql: dict[Any, tuple[str, dict[str, Any]]] = {}
    raw.execute("BEGIN")
    # Kept for the filling alone: a channel's active release is looked up once for every activation.
    raw.execute("CREATE INDEX filling ON releases (model, channel) WHERE state = 'active'")
    for seq, (new, blob) in enumerate(_entries(signer, entries, real), len(hashes)):
        if seq == entries:
            break
        leaf = encode(seq, new, AT)
        found = Entry(seq, new.type, AT, new.submission, dict(new.body), leaf, merkle.leaf_hash(leaf))
        hashes.append(found.leaf_hash)
        key = unique_key(new.type, new.submission, new.body)
        row = (seq, new.type, new.submission, key, leaf, found.leaf_hash, AT)
        raw.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if blob:
            name = hashlib.sha256(blob).hexdigest()
            raw.execute("INSERT INTO evidence VALUES (?, ?, ?, ?)", (name, len(blob), blob, AT))
        if new.type == "verdict":
            _insert(raw, "verdicts", [projections.verdict_row(found)])
            _insert(raw, "findings", projections.finding_rows(found))
        else:
            for change in releases(projections.STORED, new.type, seq, AT, new.body):
                if change.statement not in sql:
                    sql[change.statement] = projections.plain_sql(change)
                text, fixed = sql[change.statement]
                raw.execute(text, fixed | change.values)
        if seq % BATCH == 0:
            raw.execute("COMMIT")
            raw.execute("BEGIN")
            print(f"  {seq} entries made", file=sys.stderr, flush=True)
    for level, nodes in enumerate(merkle.levels(hashes)[1:], 1):
        raw.executemany("INSERT INTO nodes VALUES (?, ?, ?)", ((level, at, one) for at, one in enumerate(nodes)))
    raw.execute("DROP INDEX filling")
    raw.execute("COMMIT")
    raw.close()


def _entries(signer: Signer, entries: int, real: bool) -> Iterator[tuple[NewEntry, bytes]]:
    for number in range(entries):
        blob = number.to_bytes(8, "big") * (EVIDENCE_BYTES // 8) if real else b""
        new = verdict(number, signer, real=real, evidence=hashlib.sha256(blob).hexdigest() if real else "")
        yield new, blob
        if new.body["verdict"] == "accepted":
            at = {"model": new.body["model"], "channel": "production", "number": number // MODELS + 1}
            yield NewEntry("intent", {**at, "digest": new.body["bundle_digest"], "kind": "promote"}), b""
            yield NewEntry("activated", at), b""


def _insert(raw: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
