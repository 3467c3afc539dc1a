"""The audit in parts: what several processes find is what one finds, and none that ends early passes for done."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from acceptd.record import audit, checkpoint, projections, tables
from acceptd.record.auditing import pool
from acceptd.record.auditing.parts import Part
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import Entry
from acceptd.record.keys import create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from bench.ledger_state import AT, grow, verdict

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LEAVES", 4)
    monkeypatch.setattr(audit, "ROWS", 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen verdicts, two releases and checkpoints here and there."""
    here = tmp_path_factory.mktemp("made") / "state"
    here.mkdir()
    keyring = create_keys(here)
    signer = load_signer(here, "ledger")
    with Ledger.open(here, clock=lambda: AT) as ledger:
        for number in range(13):
            new = verdict(number, signer)
            with ledger.transaction() as change:
                change.append(new.type, new.body, submission=new.submission)
                change.put_evidence(b"facts of %d" % number)
            if number % 5 == 0:
                checkpoint.write(here, ledger, signer, keyring)
        for number in (1, 2):
            at = {"model": "mosaic/m", "channel": "production", "number": number}
            ledger.append("intent", {**at, "digest": "ab" * 32})
            ledger.append("activated", at)
            checkpoint.write(here, ledger, signer, keyring)
    return here


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "state"))


def edit(state: Path, statement: str) -> None:
    raw = sqlite3.connect(state / FILE_NAME)
    kept = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in kept:
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(statement)
    for _, sql in kept:
        raw.execute(sql)
    raw.commit()
    raw.close()


def places(found: audit.Audit) -> list[tuple[str, str]]:
    return sorted({(one.what, one.where) for one in found.differences})


def test_rows_made_anew_have_the_order_of_their_tables() -> None:
    """The audit compares them place by place."""
    finding = dict.fromkeys(("code", "severity", "audience", "stage", "where", "message"), "x")
    body = {"verdict": "held", "judged_at": AT, "reason": "", "findings": [finding]}
    entry = Entry(1, "verdict", AT, "s-1", body, b"", b"")
    assert list(projections.verdict_row(entry)) == [column.name for column in tables.verdicts.columns]
    assert list(projections.finding_rows(entry)[0]) == [column.name for column in tables.findings.columns]


def test_an_honest_log_is_whole_over_the_edges_of_parts(state: Path) -> None:
    with Ledger.open(state) as ledger:
        assert audit.examine(state, workers=0) == audit.Audit(ledger.tree(), ())
        assert audit.examine(state, workers=2) == audit.Audit(ledger.tree(), ())


RELEASE = "releases: model=mosaic/m, channel=production, number=1"
EDITS: dict[str, tuple[str, str]] = {
    "UPDATE entries SET leaf = zeroblob(9) WHERE seq = 9": ("entry", "entry 9"),
    "UPDATE nodes SET hash = zeroblob(32) WHERE level = 1 AND idx = 5": ("tree", "node 5 of level 1"),
    "UPDATE nodes SET hash = zeroblob(32) WHERE level = 3 AND idx = 1": ("tree", "node 1 of level 3"),
    "UPDATE nodes SET hash = zeroblob(32) WHERE level = 4 AND idx = 0": ("tree", "node 0 of level 4"),
    "DELETE FROM findings WHERE submission = 's-000000011'": (
        "projection",
        "findings: submission=s-000000011, position=0",
    ),
    "UPDATE releases SET state = 'active' WHERE number = 1": ("projection", RELEASE),
    "UPDATE evidence SET data = x'00' WHERE rowid = 7": ("evidence", hashlib.sha256(b"facts of 6").hexdigest()),
    "UPDATE entries SET seq = 1000000000000 WHERE seq = 16": ("entry", "entry 1000000000000"),
    "DELETE FROM entries WHERE seq BETWEEN 12 AND 15": ("entry", "entry 12"),
}


def test_several_processes_find_in_every_part_what_one_finds(state: Path) -> None:
    for statement in list(EDITS)[:-2]:  # the last two leave gaps: behind a gap is no tree to compare
        edit(state, statement)
    alone, beside = audit.examine(state, workers=0), audit.examine(state, workers=2)
    assert places(alone) == places(beside)
    assert alone.head == beside.head
    assert set(list(EDITS.values())[:-2]) <= set(places(alone))


@pytest.mark.parametrize("statement", list(EDITS))
def test_an_edit_in_any_part_is_found_with_its_place(state: Path, statement: str) -> None:
    edit(state, statement)
    assert EDITS[statement] in places(audit.examine(state, workers=0))


def test_where_a_row_lies_says_nothing_and_costs_nothing(state: Path) -> None:
    edit(state, "UPDATE evidence SET rowid = 9000000000000000 WHERE rowid = 7")
    assert places(audit.examine(state, workers=0)) == []


@pytest.mark.parametrize("row", [-(2**63), 2**63 - 1])
def test_a_row_moved_to_either_end_of_what_sqlite_can_number_is_looked_at(state: Path, row: int) -> None:
    with Ledger.open(state) as ledger:
        Queue(ledger).add("s-000000003", team="mosaic", name="d", path="/p", kind="directory")
    edit(state, f"UPDATE evidence SET rowid = {row}, data = x'00' WHERE rowid = 7")
    edit(state, f"UPDATE submissions SET rowid = {row}, team = 'other'")
    due = {EDITS["UPDATE evidence SET data = x'00' WHERE rowid = 7"], ("queue", "submission s-000000003")}
    assert set(places(audit.examine(state, workers=0))) == due


def test_each_checkpoint_is_compared_at_its_own_size(state: Path) -> None:
    keyring = load_keyring(state)
    with Ledger.open(state) as ledger:
        head = ledger.tree()
        last = checkpoint.latest(state, keyring, ledger.origin)
        assert last is not None
        for size in range(2, head.size + 1):
            forged = checkpoint.Checkpoint(ledger.origin, size, b"\x01" * 32)
            note = checkpoint.sign(forged, load_signer(state, "ledger"))
            found = audit.examine(state, kept=[audit.Kept("mine", note)], workers=0)
            assert places(found) == [("checkpoint", "mine")], size
        mine = audit.Kept("mine", checkpoint.note_of(state, last.size))
        assert audit.examine(state, kept=[mine], workers=0).differences == ()


def test_an_entry_appended_while_parts_are_under_way_is_audited_too(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = load_signer(state, "ledger")
    real = pool.Pool.each
    with Ledger.open(state, clock=lambda: AT) as ledger:

        def each(self: pool.Pool, parts: Any) -> Any:
            for done in real(self, parts):
                if done[0][:2] == ("entries", 4):
                    new = verdict(100, signer)
                    ledger.append(new.type, new.body, submission=new.submission)
                yield done

        monkeypatch.setattr(pool.Pool, "each", each)
        before = ledger.tree().size
        found = audit.examine(state, workers=0)
        assert found == audit.Audit(ledger.tree(), ())
        assert found.head.size > before


def test_a_process_that_ends_early_verifies_nothing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = pool._Worker.ask

    def dying(self: pool._Worker, part: Part) -> Any:
        if part.kind == "entries" and part.first == 8:
            self._process.kill()
        return ask(self, part)

    monkeypatch.setattr(pool._Worker, "ask", dying)
    found = audit.examine(state, workers=2)
    assert [one.what for one in found.differences] == ["database"]
    assert "nothing is verified" in found.differences[0].message


def test_an_interrupt_ends_the_audit_and_its_processes(tmp_path: Path) -> None:
    state = tmp_path / "state"
    grow(state, 3000)
    code = (
        "import sys, pathlib\nfrom acceptd.record import audit\naudit.LEAVES = 64\n"
        "told = lambda text: print(text, flush=True)\n"
        "audit.examine(pathlib.Path(sys.argv[1]), workers=2, told=told)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(state)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a run in the background ignores it
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert b"of 3,000" in process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of them
        _, told = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT or b"KeyboardInterrupt" in told
    deadline = time.monotonic() + 60
    while subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < deadline, "its processes live on"
        time.sleep(0.02)


def test_no_process_outlives_an_audit_that_is_killed(state: Path) -> None:
    work = subprocess.Popen(
        [sys.executable, "-m", "acceptd.record.auditing.worker"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with work:
        assert work.stdin is not None
        assert work.stdout is not None
        work.stdin.write(
            json.dumps({"path": str(state / FILE_NAME), "origin": "o", "keys": None}).encode() + b"\n"
        )
        work.stdin.write(b'["evidence", 0, 100, []]\n')
        work.stdin.flush()
        assert json.loads(work.stdout.readline()) == {"differences": []}
        work.stdin.close()
        assert work.wait(60) == 0


def test_releases_made_in_the_audit_are_those_a_daemon_makes(tmp_path: Path) -> None:
    """Whatever follows an intent, and a second revocation: the live projection and the audit's agree."""
    state = tmp_path / "state"
    state.mkdir()
    create_keys(state)
    with Ledger.open(state, clock=lambda: AT) as ledger:
        for channel in ("production", "canary"):
            for number in (1, 2, 3):
                ledger.append(
                    "intent",
                    {
                        "model": "mosaic/m",
                        "channel": channel,
                        "number": number,
                        "digest": "cd" * 32,
                        "reason": "r",
                    },
                )
        steps = [("activated", 1), ("activated", 2), ("abandoned", 3), ("activated", 1), ("activated", 3)]
        for kind, number in steps:
            ledger.append(kind, {"model": "mosaic/m", "channel": "canary", "number": number})
            assert audit.verify(state) == []
        for reason in ("first", "second"):
            ledger.append("revoked", {"digest": "cd" * 32, "reason": reason})
        assert audit.verify(state) == []
        with ledger.reading() as connection:
            rows = connection.exec_driver_sql("SELECT number, state FROM releases WHERE channel = 'canary'").all()
            assert [tuple(row) for row in rows] == [(1, "superseded"), (2, "superseded"), (3, "active")]
            assert connection.exec_driver_sql("SELECT reason FROM revocations").scalar() == "first"


@pytest.mark.parametrize("number", [13, 16], ids=["within a part", "at the beginning of one"])
def test_a_clock_that_was_set_back_is_found_with_its_entry(tmp_path: Path, number: int) -> None:
    state = tmp_path / "state"
    state.mkdir()
    create_keys(state)
    with Ledger.open(state, clock=lambda: AT) as ledger:
        for _ in range(number - 1):
            ledger.append("note", {})
    for at, found in (("2026-11-29T11:56:30Z", []), ("2026-11-28T11:57:00Z", [("entry", f"entry {number + 1}")])):
        with Ledger.open(state, clock=lambda at=at: at) as ledger:  # type: ignore[misc]
            ledger.append("note", {})
        assert places(audit.examine(state, workers=0)) == found
