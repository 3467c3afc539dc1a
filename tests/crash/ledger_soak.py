"""Writers and readers on one ledger at once, in processes and threads: ``python -m tests.crash.ledger_soak``.

Writers note each entry that was acknowledged; readers prove, export, look and verify. In the end every
acknowledged entry stands where it was said to, and the order, the tree and the audit are whole.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from acceptd.record import audit, checkpoint, merkle
from acceptd.record.keys import create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from bench.ledger_state import verdict

ROOT = Path(__file__).resolve().parents[2]
READS = ("proof", "export", "status", "verify")


@dataclass(frozen=True)
class Soaked:
    """What came of it."""

    acknowledged: int
    entries: int
    reads: dict[str, int]
    troubles: list[str]


def write(state: Path, name: int, until: float) -> list[tuple[int, str]]:
    """Append verdicts with queue rows until then; return (seq, submission) of each acknowledged one."""
    signer, keyring = load_signer(state, "ledger"), load_keyring(state)
    done: list[tuple[int, str]] = []
    with Ledger.open(state, create=False) as ledger:
        queue = Queue(ledger)
        while time.monotonic() < until:
            new = verdict(name * 1_000_000 + len(done), signer)
            assert new.submission is not None
            queue.add(new.submission, team="mosaic", name="d", path="/p", kind="directory")
            queue.note_start(new.submission, "judged")
            (entry,) = queue.advance(new.submission, "judged", entries=[new])
            done.append((entry.seq, new.submission))
            if name == 0 and len(done) % 10 == 0:  # one notary, as a daemon has
                checkpoint.write(state, ledger, signer, keyring)
    return done


def read(state: Path, how: str, until: float) -> int:
    """Read in one way until then; return how often. Every proof must hold and every audit be clean."""
    count = 0
    with Ledger.open(state, create=False) as ledger:
        while count == 0 or time.monotonic() < until:
            size = ledger.tree().size
            if how == "proof":
                assert ledger.proof(size * 7 // 11).holds()
                old, new, path = ledger.consistency(max(1, size // 2))
                assert merkle.verify_consistency(old.size, old.root, new.size, new.root, path)
            elif how == "export":
                numbers = [line["seq"] for line in ledger.export()]
                assert numbers == list(range(len(numbers))), "in order, without a gap"
                assert len(numbers) >= size
            elif how == "status":
                rows = len(Queue(ledger).pending())
                assert sum(Queue(ledger).counts().values()) >= rows
            else:
                found = audit.verify(state)
                assert found == [], found[:3]
            count += 1
    return count


def many(work: str, state: Path, names: list[str], seconds: float) -> list[str]:
    """Do ``work`` once for each name, each in a thread of this process; return a line of JSON each."""
    lines: list[str] = []
    until = time.monotonic() + seconds

    def one(name: str) -> None:
        try:
            came = write(state, int(name), until) if work == "write" else read(state, name, until)
            lines.append(json.dumps({"name": name, "came": came}))
        except BaseException as error:
            lines.append(json.dumps({"name": name, "trouble": f"{type(error).__name__}: {error}"}))

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lines


def soak(state: Path, seconds: float, writers: int = 8, readers: int = 20) -> Soaked:
    """Run writers in processes of two threads each, and readers in processes of five; return what came of it."""
    create_keys(state)
    Ledger.open(state).close()
    groups: list[tuple[str, list[str]]] = []
    groups += [("write", [str(n) for n in range(at, min(at + 2, writers))]) for at in range(0, writers, 2)]
    kinds = [READS[n % len(READS)] for n in range(readers)]
    groups += [("read", kinds[at : at + 5]) for at in range(0, readers, 5)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.ledger_soak", "--part", work, str(state), str(seconds), *names],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for work, names in groups
    ]  # fmt: skip
    lines: list[dict[str, object]] = []
    troubles: list[str] = []
    for process in running:
        out, err = process.communicate()
        lines += [json.loads(line) for line in out.splitlines()]
        troubles += [f"a process ended with {process.returncode}: {err}"] if process.returncode or err else []
    troubles += [f"{line['name']}: {line['trouble']}" for line in lines if "trouble" in line]
    acknowledged: list[tuple[int, str]] = []
    reads = dict.fromkeys(READS, 0)
    for line in lines:
        came = line.get("came")
        if isinstance(came, list):
            acknowledged += [(int(seq), str(name)) for seq, name in came]
        elif isinstance(came, int):
            reads[str(line["name"])] += came
    with Ledger.open(state, create=False) as ledger:
        entries = list(ledger.entries())
        standing = {entry.seq: entry.submission for entry in entries}
        troubles += [f"entry {seq} of {name} is lost" for seq, name in acknowledged if standing.get(seq) != name]
        if [entry.seq for entry in entries] != list(range(len(entries))):
            troubles.append("the order has gaps")
        if ledger.tree() != (len(entries), merkle.root_of(entry.leaf_hash for entry in entries)):
            troubles.append("the tree is not that of the entries")
    troubles += [f"{one.what} {one.where}: {one.message}" for one in audit.verify(state)]
    return Soaked(len(acknowledged), len(entries), reads, troubles)


def main() -> int:
    """Soak, or be one process of it."""
    if sys.argv[1:2] == ["--part"]:
        work, state, seconds, *names = sys.argv[2:]
        print("\n".join(many(work, Path(state), names, float(seconds))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    with tempfile.TemporaryDirectory(prefix="acceptd-soak-") as name:
        found = soak(Path(name), parser.parse_args().seconds)
    print(json.dumps({**found.__dict__, "troubles": found.troubles[:20]}, indent=2))
    return int(bool(found.troubles) or found.acknowledged + 1 != found.entries)


if __name__ == "__main__":
    sys.exit(main())
