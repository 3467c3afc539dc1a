"""A disk that fails: one system call of a run of the record and the releases returns an error (by strace).

``python -m tests.crash.disk_errors`` lets every call of every kind fail once, each in a fresh state; the tests
take a few of them. After each the run has either ended with one line or gone on without what failed; then the
log verifies, all that was acknowledged is there, and the same work goes through.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import LedgerError
from acceptd.record import audit
from acceptd.record.keys import load_keyring
from acceptd.release import audit as release_audit
from acceptd.release.reconcile import reconcile
from acceptd.release.signers import Auditor
from tests.release_world import World

ROOT = Path(__file__).resolve().parents[2]
STRACE = shutil.which("strace")
CALLS = (
    "fsync",
    "fdatasync",
    "pwrite64",
    "write",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "ftruncate",
    "openat",
)
ERRORS = {"fsync": ("EIO", "ENOSPC"), "pwrite64": ("EIO", "ENOSPC"), "write": ("EIO", "ENOSPC")}
"""``openat`` fails with EMFILE, the others with EIO where nothing else is said."""

# Each acknowledgement is one line, written only after the call has returned; write(2) of it goes around the
# injection by `os.writev`.
WORK = """
import os, sys
from pathlib import Path
from acceptd.errors import AcceptdError
from acceptd.record import anchor, checkpoint
from acceptd.record.keys import load_keyring, load_signer
from acceptd.record.queue import Queue
from tests.release_world import World

root, submission = Path(sys.argv[1]), sys.argv[2]

def ack(text):
    os.writev(1, [text.encode() + b"\\n"])

def end(text):
    os.writev(2, [text.encode() + b"\\n"])
    os._exit(1)

os.writev(1, [b"begin\\n"])
try:
    world = World(root)
    queue = Queue(world.ledger)
    queue.add(submission, team="mosaic", name="d", path="/p", kind="directory")
    ack("queued")
    queue.note_start(submission, "sealed")
    queue.advance(submission, "sealed")
    first = world.accepted(submission)
    ack(f"verdict {first.verdict_seq}")
    signer, keyring = load_signer(world.state, "ledger"), load_keyring(world.state)
    place = anchor.Directory(root / "anchor")
    done = checkpoint.write(world.state, world.ledger, signer, keyring, place)
    ack(f"checkpoint {done.size}")
    world.promote(first)
    ack(f"promoted {first.digest}")
    world.revoke(first.digest)
    ack(f"revoked {first.digest}")
    done = checkpoint.write(world.state, world.ledger, signer, keyring, place)
    ack(f"checkpoint {done.size}")
except (AcceptdError, OSError) as error:
    end(f"acceptd: {error}")
try:
    world.close()
except (AcceptdError, OSError) as error:
    end(f"acceptd: {error}")
os._exit(0)
"""


@dataclass(frozen=True)
class Ran:
    """How a run went: whether the call was reached, what was acknowledged, what the user saw."""

    injected: bool
    code: int
    acknowledged: list[str]
    told: list[str]


def prepare(root: Path) -> None:
    """Make a state with a release, as the runs find it."""
    root.mkdir()
    world = World(root)
    world.released("0.9.0")
    world.close()
    (root / "anchor").mkdir()


def run(root: Path, submission: str, call: str = "", error: str = "EIO", when: int = 1) -> Ran:
    """Run the work on ``root``; with ``call``, its ``when``-th passing below the state fails."""
    command = [sys.executable, "-c", WORK, str(root), submission]
    trace = root.parent / f"{root.name}.trace"
    if call:
        assert STRACE is not None
        inject = f"inject={call}:error={error}:when={when}"
        # Of openat(2) only what concerns the state; nothing else here makes the other calls.
        paths = [word for path in watched(root) for word in ("-P", str(path))] if call == "openat" else []
        command = [
            STRACE,
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-o",
            str(trace),
            "-e",
            f"trace={call}",
            "-e",
            inject,
            *paths,
            *command,
        ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    injected = bool(call) and "(INJECTED)" in trace.read_text(errors="replace")
    lines = done.stdout.splitlines()
    assert not call or lines[:1] == ["begin"], done.stderr
    return Ran(injected, done.returncode, lines[1:], done.stderr.splitlines())


def watched(root: Path) -> list[Path]:
    """Return what a run writes to: the database and its companions, directories of documents, the anchor."""
    state = root / "state"
    names = ["ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm"]
    return [*(state / name for name in names), state, state / "checkpoints", root / "anchor"]


def check(root: Path, ran: Ran) -> None:
    """Assert that the state is whole, that what was acknowledged stands, and that work goes on."""
    if ran.code != 0:
        assert len(ran.told) == 1, ran.told
        assert "Traceback" not in ran.told[0]
        assert re.match("acceptd: ", ran.told[0]), ran.told
    state = root / "state"
    world = World(root)
    world.ledger.settle(lambda _reason: None)
    reconcile(state, world.ledger, world.keys, terms=world.terms)
    entries = {entry.seq: entry for entry in world.ledger.entries()}
    for line in ran.acknowledged:
        what, _, detail = line.partition(" ")
        if what == "verdict":
            assert entries[int(detail)].type == "verdict"
        elif what == "checkpoint":
            assert int(detail) <= len(entries)
        elif what == "promoted":
            assert any(entry.type == "activated" for entry in entries.values())
        elif what == "revoked":
            assert any(entry.type == "revoked" and entry.body["digest"] == detail for entry in entries.values())
    assert [one for one in audit.verify(state) if one.what != "queue"] == []
    found = release_audit.examine(state, world.ledger, Auditor(load_keyring(state)))
    if not any(line.startswith("verdict") for line in ran.acknowledged):
        # This work stores the bundle before its verdict is on record: what then stands without one is told.
        found = [one for one in found if one.what != "store"]
    assert found == [], found
    world.close()
    again = run(root, "s-again")
    assert again.code == 0, again.told


def sweep(calls: list[str], most: int, every: int = 1) -> dict[str, collections.Counter[str]]:
    """Let each call fail at each of its passings; return how the runs ended, by call and error."""
    counts: dict[str, collections.Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="acceptd-errors-") as name:
        base = Path(name) / "base"
        prepare(base)
        for call in calls:
            for error in ERRORS.get(call, ("EMFILE",) if call == "openat" else ("EIO",)):
                counted = counts.setdefault(f"{call} {error}", collections.Counter())
                for when in range(1, most + 1, every):
                    root = Path(name) / "root"
                    shutil.copytree(base, root, symlinks=True)
                    ran = run(root, "s-1", call, error, when)
                    if not ran.injected:
                        shutil.rmtree(root)
                        break
                    try:
                        check(root, ran)
                    except (AssertionError, LedgerError) as wrong:
                        counted["WRONG"] += 1
                        print(f"{call} {error} {when}: {wrong!r} {ran}", flush=True)
                    counted["ended with one line" if ran.code else "went on without it"] += 1
                    shutil.rmtree(root)
                print(f"{call} {error}: {dict(counted)}", flush=True)
    return counts


def main() -> int:
    """Run the sweep; 1 where one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="*", default=list(CALLS))
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--every", type=int, default=1, help="only every so manieth passing")
    chosen = parser.parse_args()
    if STRACE is None:
        print("strace is not installed: nothing was proved", file=sys.stderr)
        return 77
    counts = sweep(chosen.calls, chosen.most, chosen.every)
    return int(any(counted["WRONG"] for counted in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
