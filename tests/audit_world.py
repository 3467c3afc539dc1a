"""A ledger that tests tamper with, and what the audit says of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from acceptd.record import attest, checkpoint
from acceptd.record.audit import verify
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Signer, create_keys, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

AT = "2026-11-29T15:17:00Z"
DIGEST = "ab" * 32
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


def audited(here: Path) -> Path:
    """Make a ledger with verdicts, a release, a revocation, evidence, a queue and a checkpoint of all of it."""
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
