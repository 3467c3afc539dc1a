"""One byte changed in any column of any table: found, or the column stands in the list of those that say nothing.

The columns are read from the database itself, so a new one that nothing covers fails here.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.record import attest, audit, checkpoint
from acceptd.record.canonical import digest
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import create_keys, load_signer
from acceptd.record.leases import Leases
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
AT = "2026-11-29T15:17:00Z"
DIGEST = "ab" * 32
FINDING = {
    "code": "run/crash", "severity": "reject", "audience": "team", "stage": "run", "where": "main",
    "message": "SIGFPE", "evidence": {"signal": "SIGFPE"}, "count": 2,
}  # fmt: skip

UNCOVERED = {
    "evidence.stored_at": "when a blob came; its bytes are bound by its digest",
    "submissions.name": "the drop's own name; it is shown, and nothing is decided by it",
    "submissions.path": "where the drop lay; what was judged is bound by its digest",
    "submissions.kind": "how it came; what was judged is bound by its digest",
    "submissions.node": "the intake of a fleet that it came through; its signature binds what it sealed",
    "submissions.working": "whether a worker has it now",
    "submissions.received_at": "when it came; orders the queue",
    "submissions.updated_at": "when it was last moved on",
    "deaths.submission": "deaths of a daemon during work; more or fewer of them change no verdict",
    "deaths.state": "as above",
    "deaths.count": "as above",
    "given_up_leases.*": "what a daemon noted about its workers; these rows may be lost",
    "fleet_evidence.*": "what workers signed; each reader verifies it, and a verdict binds what counted",
    "fleet_nodes.*": "what nodes say about themselves; nothing is decided by it",
}
"""Columns whose edit `ledger verify` does not find, and why. docs/threat-model.md names the same."""


def ledger_of(state: Path) -> None:
    keyring = create_keys(state)
    signer = load_signer(state, "ledger")
    with Ledger.open(state, clock=lambda: AT) as ledger:
        queue = Queue(ledger)
        ledger.append("policy", {"digest": "cd" * 32, "name": "default"})
        for number, word in ((1, "rejected"), (2, "accepted")):
            name = f"s-{number}"
            queue.add(name, team="mosaic", name="d", path="/p", kind="directory", uid=7)
            findings = [FINDING] if word == "rejected" else []
            manifest = {"labels": ["accept"]}
            with ledger.transaction() as change:
                facts = change.put_evidence(b"facts of %d" % number)
            value = attest.verdict_statement(
                submission=name, verdict=word, bundle_id="mosaic/m", bundle_digest=DIGEST, files=[],
                findings=findings, predicate={"uid": 7},
            )  # fmt: skip
            body = {
                "verdict": word, "judged_at": AT, "reason": "r", "findings": findings, "bundle_digest": DIGEST,
                "team": "mosaic", "model": "mosaic/m", "policy_digest": "cd" * 32, "evidence_digest": facts,
                "uid": 7, "manifest_digest": digest(manifest), "statement": attest.sign_statement(value, signer),
            }  # fmt: skip
            ledger.append("verdict", body, submission=name)
            queue.advance(
                name, "done", bundle_digest=DIGEST, model="mosaic/m", verdict=word, manifest=manifest,
            )  # fmt: skip
        queue.add("s-3", team="mosaic", name="d", path="/p", kind="directory", node="intake-1")
        queue.note_start("s-3", "sealed")
        queue.bump_deaths("s-3")
        queue.note_start("s-3", "sealed")
        at = {"model": "mosaic/m", "channel": "production", "number": 1}
        ledger.append("intent", {**at, "digest": DIGEST, "verdict_seq": 3, "reason": "why"})
        ledger.append("activated", at)
        ledger.append("revoked", {"digest": DIGEST, "reason": "leak"})
        Leases(ledger, "boot").open(0.0)
        Leases(ledger, "boot").note(
            [
                {
                    "lease": 1, "submission": "s-1", "team": "mosaic", "profile": "p", "cores": 1,
                    "memory_bytes": 1, "reason": "r", "state": "abandoned", "at": 1.0, "seconds": 0.0,
                }
            ]
        )  # fmt: skip
        checkpoint.write(state, ledger, signer, keyring)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    state = tmp_path_factory.mktemp("honest") / "state"
    state.mkdir()
    ledger_of(state)
    assert audit.verify(state) == []
    yield state
    shutil.rmtree(state)


def changed(value: Any) -> Any:
    """The value with one byte of it changed, of the same type."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, str):
        middle = len(value) // 2
        return value[:middle] + ("0" if value[middle : middle + 1] != "0" else "1") + value[middle + 1 :]
    return (value or 0) + 65_536


def columns(raw: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return [(table, row[1]) for table in tables for row in raw.execute(f"PRAGMA table_info({table})")]


def dropped(raw: sqlite3.Connection) -> list[str]:
    """Take the triggers away, as whoever edits in place must; return what puts them back."""
    triggers = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    return [sql for _, sql in triggers]


def is_found(raw: sqlite3.Connection, state: Path, table: str, column: str) -> bool:
    """Change one value of the column, put the triggers back, audit, and change it back; whether it was found."""
    row = raw.execute(f"SELECT * FROM {table} WHERE {column} IS NOT NULL LIMIT 1").fetchone()
    assert row is not None, f"{table}.{column} has no value to change: give the ledger of this test one"
    info = raw.execute(f"PRAGMA table_info({table})").fetchall()
    keys = [item[1] for item in info if item[5]] or [column]
    held = dict(zip([item[1] for item in info], row, strict=True))
    now = held | {column: changed(held[column])}
    where = " AND ".join(f"{key} = ?" for key in keys)
    for before, after in ((held, now), (now, held)):
        triggers = dropped(raw)
        values = (after[column], *(before[key] for key in keys))
        assert raw.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", values).rowcount == 1
        for sql in triggers:
            raw.execute(sql)
        if after is now:
            found = audit.examine(state, workers=0).differences
            assert all(one.where for one in found), found
    return bool(found)


def test_one_byte_changed_in_any_column_of_any_table_is_found(honest: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(honest, state)
    raw = sqlite3.connect(state / FILE_NAME, isolation_level=None)
    raw.execute("PRAGMA ignore_check_constraints=ON")
    whole = {name.removesuffix(".*") for name in UNCOVERED if name.endswith(".*")}
    asked = [(table, column) for table, column in columns(raw) if table not in whole]
    missed = {f"{table}.{column}" for table, column in asked if not is_found(raw, state, table, column)}
    raw.close()
    assert audit.verify(state) == [], "all was put back"
    assert missed == {name for name in UNCOVERED if not name.endswith(".*")}


def test_the_threat_model_names_each_column_that_is_not_covered() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    for name in UNCOVERED:
        assert re.search(rf"`{re.escape(name)}`", text), name
