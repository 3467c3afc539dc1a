"""States with very many entries, as a daemon would have written them, made in bulk: `ledger verify` accepts them.

Of ten submissions seven are accepted and promoted (a verdict, an intent, an activation), two rejected and one
held: 24 entries, ten of them with a signed statement. Only the way to the disk differs from a daemon's: every core
signs, many entries go into a transaction, no fsync, no trigger, and the tree is computed over all of them at once.
"""

from __future__ import annotations

import collections
import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

from acceptd.record import attest, checkpoint, merkle, projections, tables
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import Entry, NewEntry, encode, unique_key
from acceptd.record.keys import Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger

AT = "2026-11-29T11:57:00Z"
MODELS = 500
CHUNK = 400
"""Submissions that are signed and inserted together; a multiple of ten."""
EVIDENCE_BYTES = 33_000
"""What the demo's submissions leave as evidence, on average."""


@dataclass(frozen=True, slots=True)
class Mix:
    """How long a verdict's statement is: by the native libraries it names with their digests."""

    libraries: int
    declared: int = 0
    evidence: bool = False


MIXES: Final = {
    "short": Mix(0),  # 1 KB of payload: nothing but what every statement holds
    "model": Mix(48, 8),  # 6.5 KB: a small model's
    "demo": Mix(170, 20, evidence=True),  # 22 KB, with evidence: the demo's
}

_FINDING = {
    "code": "run/crash", "severity": "reject", "audience": "team", "stage": "run", "where": "main",
    "message": "the model ended its process by a signal: SIGFPE", "count": 1, "evidence": {"signal": "SIGFPE"},
}  # fmt: skip


def verdict(
    number: int, signer: Signer, *, mix: str = "short", evidence: str = "", place: tuple[str, int] | None = None
) -> NewEntry:
    """Return one verdict with its statement. ``place`` is the log and the entry that it names; None: as of old."""
    submission, digest = f"s-{number:09d}", f"{number:064x}"
    word = ("rejected", "rejected", "held", *["accepted"] * 7)[number % 10]
    findings = [] if word == "accepted" else [_FINDING, {**_FINDING, "code": "contract/none", "severity": "hold"}]
    predicate: dict[str, Any] = {
        "timings_ms": {"seal": 3.1, "inspect": 20.5, "run": 31.25}, "walls": {"seccomp": "enforced"},
        "acceptd": "0.1.0", "policy": "default", "goldens": {"main": {"rtol": 0.0, "atol": 0.000001, "cases": 3}},
    }  # fmt: skip
    size = MIXES[mix]
    if size.libraries:
        names = [f"numpy.libs/library-{one}.so" for one in range(size.libraries)]
        predicate["runtimes"] = {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
        predicate["declared"] = {f"field-{one}": "what the manifest declares" for one in range(size.declared)}
    predicate |= attest.bound(submission, word, findings)
    if place is not None:
        predicate["entry"] = {"log": place[0], "number": place[1]}
    model = f"mosaic/model-{number % MODELS}"
    subjects = attest.verdict_subjects(
        submission, model, digest, [("model.onnx", digest), ("bundle.toml", digest)]
    )
    kind = attest.FIRST_VERDICT_TYPE if place is None else attest.VERDICT_TYPE
    body = {
        "verdict": word, "judged_at": AT, "reason": "every required stage is complete", "team": "mosaic",
        "model": model, "bundle_digest": digest, "findings": findings,
        "statement": attest.sign_statement(attest.statement(subjects, predicate, kind), signer),
    }  # fmt: skip
    if evidence:
        body["evidence_digest"] = evidence
    return NewEntry("verdict", body, submission)


def grow(state: Path, entries: int, *, mix: str = "short") -> None:
    """Make a log of ``entries`` entries with a checkpoint at its end. A state that has so many stays as it is."""
    if not (state / "keys").is_dir():
        state.mkdir(parents=True, exist_ok=True)
        create_keys(state)
    signer = load_signer(state, "ledger")
    with Ledger.open(state, clock=lambda: AT) as ledger:
        size = ledger.tree().size
        if size < entries:
            assert size == 1, "a state is made in one go"
            _fill(state, ledger.origin, entries, mix)
    with Ledger.open(state) as ledger:
        checkpoint.write(state, ledger, signer, load_keyring(state))


class _Made(NamedTuple):
    """What some submissions leave: rows for three tables and the evidence, and what releases follow from."""

    entries: list[tuple[Any, ...]]
    verdicts: list[tuple[Any, ...]]
    findings: list[tuple[Any, ...]]
    evidence: list[bytes]
    events: list[tuple[str, int, dict[str, Any]]]


def _fill(state: Path, log: str, entries: int, mix: str) -> None:
    raw = sqlite3.connect(state / FILE_NAME, isolation_level=None)
    raw.execute("PRAGMA synchronous=OFF")
    raw.execute("PRAGMA cache_size=-200000")
    hashes = [row[0] for row in raw.execute("SELECT leaf_hash FROM entries ORDER BY seq")]
    sql: dict[Any, tuple[str, dict[str, Any]]] = {}
    raw.execute("BEGIN")
    for trigger in tables.TRIGGERS:
        raw.execute(f"DROP TRIGGER {trigger.split(maxsplit=3)[2]}")
    # Kept for the filling alone: a channel's active release is looked up once for every activation.
    raw.execute("CREATE INDEX filling ON releases (model, channel) WHERE state = 'active'")
    for made in _made(state, log, entries, mix):
        hashes += [row[5] for row in made.entries]
        for table, rows in (("entries", made.entries), ("verdicts", made.verdicts), ("findings", made.findings)):
            if rows:
                raw.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        for blob in made.evidence:
            name = hashlib.sha256(blob).hexdigest()
            raw.execute("INSERT INTO evidence VALUES (?, ?, ?, ?)", (name, len(blob), blob, AT))
        for kind, seq, body in made.events:
            for change in projections.changes(projections.STORED, kind, seq, AT, body):
                if change.statement not in sql:
                    sql[change.statement] = projections.plain_sql(change)
                text, fixed = sql[change.statement]
                raw.execute(text, fixed | change.values)
        if len(hashes) % (25 * 24 * CHUNK // 10) < 24 * CHUNK // 10:
            raw.execute("COMMIT")
            raw.execute("BEGIN")
            print(f"  {len(hashes):,} entries made", file=sys.stderr, flush=True)
    for level, nodes in enumerate(merkle.levels(hashes)[1:], 1):
        raw.executemany("INSERT INTO nodes VALUES (?, ?, ?)", ((level, at, one) for at, one in enumerate(nodes)))
    raw.execute("DROP INDEX filling")
    for trigger in tables.TRIGGERS:
        raw.execute(trigger)
    raw.execute("COMMIT")
    raw.close()


def _made(state: Path, log: str, entries: int, mix: str) -> Iterator[_Made]:
    """Yield what every core makes, in the order of the log, a few chunks ahead."""
    cores = len(os.sched_getaffinity(0))
    firsts = range(0, entries, CHUNK)  # more than enough submissions: each leaves an entry or more
    wanted = ((first, seq) for first in firsts if (seq := 1 + first // 10 * 24) < entries)
    if entries < CHUNK:
        signer = load_signer(state, "ledger")
        yield from (_chunk(signer, log, first, seq, entries, mix) for first, seq in wanted)
        return
    with ProcessPoolExecutor(cores, get_context("spawn"), initializer=_begin, initargs=(state,)) as pool:
        ahead: collections.deque[Future[_Made]] = collections.deque()
        for first, seq in wanted:
            ahead.append(pool.submit(_task, log, first, seq, entries, mix))
            if len(ahead) > 2 * cores:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


_SIGNER: list[Signer] = []


def _begin(state: Path) -> None:
    _SIGNER.append(load_signer(state, "ledger"))


def _task(log: str, first: int, seq: int, end: int, mix: str) -> _Made:
    return _chunk(_SIGNER[0], log, first, seq, end, mix)


def _chunk(signer: Signer, log: str, first: int, seq: int, end: int, mix: str) -> _Made:
    """Return what CHUNK submissions from ``first`` leave from the entry ``seq`` on, up to but not with ``end``."""
    made = _Made([], [], [], [], [])
    for number in range(first, first + CHUNK):
        blob = number.to_bytes(8, "big") * (EVIDENCE_BYTES // 8) if MIXES[mix].evidence else b""
        bound = hashlib.sha256(blob).hexdigest() if blob else ""
        judged = verdict(number, signer, mix=mix, evidence=bound, place=(log, seq))
        for new in (judged, *_promotion(number, judged)):
            if seq == end:
                return made
            leaf = encode(seq, new, AT)
            found = Entry(seq, new.type, AT, new.submission, dict(new.body), leaf, merkle.leaf_hash(leaf))
            key = unique_key(new.type, new.submission, new.body)
            made.entries.append((seq, new.type, new.submission, key, leaf, found.leaf_hash, AT))
            if new is judged:
                made.verdicts.append(tuple(projections.verdict_row(found).values()))
                made.findings.extend(tuple(row.values()) for row in projections.finding_rows(found))
                made.evidence.extend([blob] if blob else [])
            else:
                made.events.append((new.type, seq, dict(new.body)))
            seq += 1
    return made


def _promotion(number: int, judged: NewEntry) -> Iterator[NewEntry]:
    if judged.body["verdict"] == "accepted":
        at = {"model": judged.body["model"], "channel": "production", "number": number // MODELS + 1}
        yield NewEntry("intent", {**at, "digest": judged.body["bundle_digest"], "kind": "promote"})
        yield NewEntry("activated", at)
