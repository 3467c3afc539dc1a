"""The ledger at a hundred and at a million entries: append, proof, full verification, memory.

Usage: python -m bench.ledger [--entries N] [--state DIR]

Entries are verdicts with signed statements, each a little different, as a daemon writes them, in
transactions of many; the appends that are measured are single ones, each with its own commit and fsync.
Of both sizes they are taken in turn (A B A B), so that a busy disk meets both alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acceptd.record import attest, audit, checkpoint
from acceptd.record.entry import NewEntry
from acceptd.record.keys import Signer, create_keys, load_keyring, load_signer
from acceptd.record.log import Ledger

SMALL = 100
BATCH = 2_000
ROUNDS = 5
APPENDS = 60
"""Appends of one size in one round."""


def verdict(number: int, signer: Signer) -> NewEntry:
    """Return one verdict with its statement, about the size of a real one."""
    submission, digest = f"s-{number:09d}", f"{number:064x}"
    findings = [
        {
            "code": "contract/none", "severity": "info", "audience": "reviewer", "stage": "judge",
            "where": "mosaic/model", "message": "no contract for this model", "count": 1,
        }
    ]  # fmt: skip
    statement = attest.verdict_statement(
        submission=submission, verdict="accepted", bundle_id="mosaic/model", bundle_digest=digest,
        files=[("model.onnx", digest), ("bundle.toml", digest)], findings=findings,
        predicate={"timings_ms": {"seal": 3.1, "inspect": 20.5, "run": 31.0}, "walls": {"seccomp": "enforced"}},
    )  # fmt: skip
    body = {
        "verdict": "accepted", "judged_at": "2026-11-29T11:57:00Z", "reason": "every required stage is complete",
        "team": "mosaic", "model": "mosaic/model", "bundle_digest": digest, "findings": findings,
        "statement": attest.sign_statement(statement, signer),
    }  # fmt: skip
    return NewEntry("verdict", body, submission)


def grow(state: Path, entries: int) -> None:
    """Make a log of ``entries`` entries with a checkpoint at its end; an older one is kept as far as it goes."""
    if not (state / "keys").is_dir():
        state.mkdir(parents=True, exist_ok=True)
        create_keys(state)
    signer = load_signer(state, "ledger")
    with Ledger.open(state) as ledger:
        size = ledger.tree().size
        while size < entries:
            some = [verdict(number, signer) for number in range(size, min(size + BATCH, entries))]
            ledger.append_many(some)
            size += len(some)
            if size % 50_000 < BATCH:
                print(f"  {size} entries", file=sys.stderr, flush=True)
        checkpoint.write(state, ledger, signer, load_keyring(state))


def timed(ledger: Ledger, first: int, signer: Signer) -> list[float]:
    """Append APPENDS single verdicts; return the milliseconds of each."""
    found = []
    for number in range(first, first + APPENDS):
        new = verdict(number, signer)
        start = time.perf_counter()
        ledger.append(new.type, new.body, submission=new.submission)
        found.append((time.perf_counter() - start) * 1000)
    return found


def appends(small: Path, large: Path) -> dict[str, Any]:
    """Measure appends at both sizes in turn."""
    both: dict[str, list[list[float]]] = {"small": [], "large": []}
    with Ledger.open(small) as one, Ledger.open(large) as other:
        logs = {"small": (one, load_signer(small, "ledger")), "large": (other, load_signer(large, "ledger"))}
        for _ in range(ROUNDS):
            for name, (ledger, signer) in logs.items():
                both[name].append(timed(ledger, 10**8 + ledger.tree().size, signer))
    medians = {name: [statistics.median(one) for one in rounds] for name, rounds in both.items()}
    ratios = [large / small for small, large in zip(medians["small"], medians["large"], strict=True)]
    return {
        "append_p50_ms": {name: round(statistics.median(rounds), 3) for name, rounds in medians.items()},
        "append_ratio": round(statistics.median(ratios), 3),
        "append_ratios": [round(one, 3) for one in ratios],
    }


def proofs(state: Path) -> dict[str, Any]:
    """Measure inclusion and consistency proofs over the whole log."""
    inclusion, consistency = [], []
    with Ledger.open(state) as ledger:
        size = ledger.tree().size
        for step in range(1, 101):
            at = size * step // 101
            start = time.perf_counter()
            proof = ledger.proof(at)
            inclusion.append((time.perf_counter() - start) * 1000)
            assert proof.holds()
            start = time.perf_counter()
            ledger.consistency(max(1, at))
            consistency.append((time.perf_counter() - start) * 1000)
    return {
        "inclusion_proof_ms": {"p50": round(statistics.median(inclusion), 3), "max": round(max(inclusion), 3)},
        "consistency_proof_ms": {
            "p50": round(statistics.median(consistency), 3),
            "max": round(max(consistency), 3),
        },
    }


def verification(state: Path) -> dict[str, Any]:
    """Measure one full audit: wall clock, processor time, and how far the resident set rose."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    found = audit.examine(state)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found.differences == (), found.differences[:3]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "verify_entries": found.head.size,
        "verify_s": round(wall, 2),
        "verify_cpu_s": round(spent + children.ru_utime + children.ru_stime, 2),
        "verify_rss_rise_mib": round((after.ru_maxrss - before.ru_maxrss) / 1024, 1),
    }


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--state", type=Path, help="keep the large log here, and go on from it")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as name:
        small = Path(name) / "small"
        large = chosen.state or Path(name) / "large"
        grow(small, SMALL)
        grow(large, chosen.entries)
        result = {"machine": platform.platform(), "python": platform.python_version(), "entries": chosen.entries}
        result |= verification(large) | proofs(large) | appends(small, large)
        if chosen.state is None:
            shutil.rmtree(large)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
