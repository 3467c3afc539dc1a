"""A ledger that tests tamper with, and what the audit says of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from acceptd.record import attest
from acceptd.record.audit import verify
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Signer

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
