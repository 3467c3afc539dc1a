"""kill -9 at every named place of the record: what was acknowledged stands, the rest left no trace."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

import pytest

from acceptd.record import anchor, audit, checkpoint, failpoint, merkle
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Death, Queue
from tests import commands

pytestmark = pytest.mark.crash

# Each acknowledgement is one line, written only after the call has returned.
WORK = """
import sys
from pathlib import Path
from acceptd.record import attest, checkpoint
from acceptd.record.entry import NewEntry
from acceptd.record.keys import load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue

state, submission = Path(sys.argv[1]), sys.argv[2]
signer, keyring = load_signer(state, "ledger"), load_keyring(state)
ledger = Ledger.open(state)
queue = Queue(ledger)

def ack(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

queue.add(submission, team="mosaic", name="d", path="/p", kind="directory")
ack("add")
for state_name in ("sealed", "examined"):
    queue.note_start(submission, state_name)
    queue.advance(submission, state_name)
    ack(state_name)
findings = []
statement = attest.verdict_statement(submission=submission, verdict="accepted", bundle_id="mosaic/m",
    bundle_digest="ab" * 32, files=[], findings=findings, predicate={})
body = {"verdict": "accepted", "judged_at": "2026-11-29T15:17:00Z", "reason": "r", "findings": findings,
    "bundle_digest": "ab" * 32, "statement": attest.sign_statement(statement, signer)}
queue.note_start(submission, "judged")
queue.advance(submission, "judged", entries=[NewEntry("verdict", body), NewEntry("note", {"of": submission})])
ack("judged")
checkpoint.write(state, ledger, signer, keyring)
ack("checkpoint")
queue.advance(submission, "done")
ack("done")
ledger.append("note", {"last": submission})
ack("note")
ledger.close()
"""

STEPS = ["add", "sealed", "examined", "judged", "checkpoint", "done", "note"]
# failpoint, the last step acknowledged before it, the state and the entries beyond the first that stand after it
PLACES = [
    ("record.queue.add.before-commit", None, None, []),
    ("record.append.after-commit@1", None, "claimed", []),
    ("record.queue.sealed.before-commit", "add", "claimed", []),
    ("record.queue.sealed.after-commit", "add", "sealed", []),
    ("record.queue.examined.before-commit", "sealed", "sealed", []),
    ("record.append.after-insert", "examined", "examined", []),
    ("record.append.after-insert@2", "examined", "examined", []),
    ("record.queue.judged.before-commit", "examined", "examined", []),
    ("record.append.before-commit@7", "examined", "examined", []),
    ("record.queue.judged.after-commit", "examined", "judged", ["verdict", "note"]),
    ("record.checkpoint.before-write", "judged", "judged", ["verdict", "note"]),
    ("record.checkpoint.after-write", "judged", "judged", ["verdict", "note"]),
    ("record.queue.done.before-commit", "checkpoint", "judged", ["verdict", "note"]),
    ("record.queue.done.after-commit", "checkpoint", "done", ["verdict", "note"]),
    ("record.append.after-insert@3", "done", "done", ["verdict", "note"]),
]


def run(state: Path, submission: str, place: str | None) -> tuple[int, list[str]]:
    environment = {} if place is None else {failpoint.VARIABLE: place}
    made = commands.run(str(state), submission, code=WORK, **environment)
    assert made.stderr == ""
    return made.returncode, made.stdout.split()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    create_keys(tmp_path)
    Ledger.open(tmp_path).close()
    return tmp_path


@pytest.mark.parametrize(("place", "last", "stands", "types"), PLACES, ids=[place[0] for place in PLACES])
def test_a_kill_there_loses_nothing_acknowledged(
    state: Path, place: str, last: str | None, stands: str | None, types: list[str]
) -> None:
    code, acknowledged = run(state, "s-1", place)
    assert code == -signal.SIGKILL, "the failpoint was reached"
    assert acknowledged == (STEPS[: STEPS.index(last) + 1] if last else [])
    with Ledger.open(state, create=False) as ledger:
        entries = list(ledger.entries())
        assert [entry.type for entry in entries] == ["log", *types]
        assert ledger.tree() == (len(entries), merkle.root_of(entry.leaf_hash for entry in entries))
        found = Queue(ledger).get("s-1")
        assert (found.state if found else None) == stands
    assert audit.verify(state) == []
    code, acknowledged = run(state, "s-2", None)
    assert (code, acknowledged) == (0, STEPS), "the log goes on"
    assert audit.verify(state) == []


def test_deaths_in_one_state_are_counted_over_restarts(state: Path) -> None:
    run(state, "s-1", "record.queue.examined.before-commit")
    with Ledger.open(state) as ledger:
        queue = Queue(ledger)
        assert queue.recover() == [Death("s-1", "examined", 1)]
        assert [item.id for item in queue.pending()] == ["s-1"]
        assert queue.note_start("s-1", "examined") == 1
        assert queue.recover() == [Death("s-1", "examined", 2)]


def test_keys_killed_in_the_making_are_whole_or_absent(tmp_path: Path) -> None:
    """The rename of ``keys/`` is the one step; a stray temporary directory does not block the next try."""
    make = "import sys, pathlib, acceptd.record.keys as keys; keys.create_keys(pathlib.Path(sys.argv[1]))"
    for module, name in (("acceptd.record.keys.os", "rename"), ("acceptd.record.keys", "replace_file")):
        here = tmp_path / name
        here.mkdir()
        killing = "import os, signal, acceptd.record.keys\n"
        killing += f"{module}.{name} = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        made = commands.run(str(here), code=killing + make)
        assert made.returncode == -signal.SIGKILL
        assert not (here / "keyring.json").exists()
        keyring = create_keys(here)
        assert load_signer(here, "ledger").public_key() in keyring.keys


def test_a_database_killed_in_the_making_is_never_seen(tmp_path: Path) -> None:
    make = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom acceptd.record.log import Ledger\n"
        "os.link = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\nLedger.open(Path(sys.argv[1]))"
    )
    made = commands.run(str(tmp_path), code=make)
    assert made.returncode == -signal.SIGKILL
    assert not (tmp_path / FILE_NAME).exists()
    with Ledger.open(tmp_path) as ledger:
        assert ledger.tree().size == 1


def test_a_failpoint_of_another_name_or_form_does_nothing(state: Path) -> None:
    for place in ("record.append", "record.append.before-commit@9999", "RECORD.APPEND.BEFORE-COMMIT", "", "*"):
        code, acknowledged = run(state, f"s-{len(place)}", place)
        assert (code, acknowledged) == (0, STEPS)
    assert failpoint.parse("a.b@0") is None
    assert failpoint.parse("a.b@12") == ("a.b", 12)
    assert failpoint.parse("a") is None


def test_a_checkpoint_written_before_the_kill_still_binds(state: Path) -> None:
    run(state, "s-1", "record.checkpoint.after-write")
    with Ledger.open(state) as ledger:
        signer = load_signer(state, "ledger")
        keyring = load_keyring(state)
        last = checkpoint.latest(state, keyring, ledger.origin)
        assert last is not None
        assert last.size == ledger.tree().size
        ledger.append("note", {})
        assert checkpoint.write(state, ledger, signer, keyring).size == last.size + 1


ELSEWHERE = {
    "record.heldout.spent": "tests/unit/test_record_evaluations.py",
    "record.backup.copied": "tests/crash/test_migrate_kill.py",
    "record.move.before-mark": "tests/fleet/test_record_copies.py",
    "record.move.written": "tests/fleet/test_record_copies.py",
    "record.migrate.before-commit": "tests/crash/test_migrate_kill.py",
    "record.migrate.after-commit": "tests/crash/test_migrate_kill.py",
    "record.migrate.backed-up": "tests/crash/test_migrate_kill.py",
}
"""Failpoints of the record that another file kills at."""


def test_every_named_failpoint_of_the_record_has_its_kill() -> None:
    root = Path(__file__).parents[2]
    named: set[str] = set()
    for path in (root / "acceptd" / "record").rglob("*.py"):
        named |= set(re.findall(r"failpoint\(\s*f?\"([^\"]+)\"", path.read_text()))
    killed = {place.partition("@")[0] for place, *_ in PLACES} | ANCHORED
    for name in sorted(named):
        if name in ELSEWHERE:
            assert name in (root / ELSEWHERE[name]).read_text(), name
        else:  # a name with a state in it stands for each state that the work above goes through
            pattern = re.escape(name).replace(r"\{state\}", "(sealed|examined|judged|done)")
            assert [one for one in killed if re.fullmatch(pattern, one)], f"{name}: no test kills there"


ANCHORED: Final = {"record.checkpoint.anchored"}


def test_a_kill_once_the_anchor_has_the_note_leaves_both_places_in_step(state: Path, tmp_path: Path) -> None:
    place = tmp_path / "volume"
    place.mkdir()
    code = (
        "import sys\nfrom pathlib import Path\nfrom acceptd.record import anchor, checkpoint\n"
        "from acceptd.record.keys import load_keyring, load_signer\nfrom acceptd.record.log import Ledger\n"
        "state = Path(sys.argv[1])\nledger = Ledger.open(state)\nledger.append('note', {})\n"
        "checkpoint.write(state, ledger, load_signer(state, 'ledger'), load_keyring(state), "
        "anchor.Directory(Path(sys.argv[2])))\n"
    )
    killing = {failpoint.VARIABLE: "record.checkpoint.anchored"}
    made = commands.run(str(state), str(place), code=code, **killing)
    assert made.returncode == -signal.SIGKILL
    kept = anchor.Directory(place)
    with Ledger.open(state) as ledger:
        note = kept.last(ledger.origin)
        assert note == checkpoint.note_of(state, 2)
        ledger.append("note", {"after": "the kill"})
        signer, keyring = load_signer(state, "ledger"), load_keyring(state)
        assert checkpoint.write(state, ledger, signer, keyring, kept).size == 3
