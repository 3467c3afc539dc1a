"""The ledger at a hundred and at a million entries: append, proof, full verification, memory.

Usage: python -m bench.ledger [--entries N] [--state DIR] [--mix MIX] [--workers N]

What the entries are, :mod:`bench.ledger_state` says, and how long the verdicts of each mix.
The appends that are measured are single verdicts, each with its own commit and fsync, of both sizes in turn
(A B A B), so that a busy disk meets both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acceptd.record import audit
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Signer, load_signer
from acceptd.record.log import Ledger
from bench.ledger_state import MIXES, grow, verdict

SMALL = 100
ROUNDS = 5
APPENDS = 60
"""Appends of one size in one round."""


def timed(ledger: Ledger, first: int, signer: Signer) -> list[float]:
    """Append APPENDS single verdicts; return the milliseconds of each."""
    found = []
    for number in range(first, first + APPENDS):
        new = verdict(number, signer, place=(ledger.origin, ledger.tree().size))
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


def verification(state: Path, workers: int | None, *, alone: bool) -> dict[str, Any]:
    """Measure one full audit: wall clock, processor time, and the largest resident sets.

    Those are null unless ``alone``: where this process made the log before, the kernel's figures are of that too
    (``ru_maxrss`` outlives a fork and an exec). Run it again with the same ``--state``.
    """
    before = spent()
    start = time.perf_counter()
    found = audit.examine(state, workers=workers, told=_told)
    wall = time.perf_counter() - start
    print(file=sys.stderr)
    assert found.differences == (), found.differences[:3]
    size = os.stat(state / FILE_NAME).st_size
    return {
        "verify_entries": found.head.size,
        "verify_mib": size >> 20,
        "verify_s": round(wall, 2),
        "verify_cpu_s": round(spent() - before, 2),
        "verify_entries_per_s": round(found.head.size / wall),
        "verify_mib_per_s": round((size >> 20) / wall, 1),
        "verify_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10 if alone else None,
        "verify_worker_peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10 if alone else None,
    }


def spent() -> float:
    """Return the processor seconds of this process and of its ended children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def _told(text: str) -> None:
    print(f"\r  {text} ", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--state", type=Path, help="keep the large log here, and go on from it")
    parser.add_argument("--mix", choices=MIXES, default="short", help="how long the verdicts' statements are")
    parser.add_argument("--workers", type=int, help="processes that verify (default: one for each core)")
    parser.add_argument("--make-only", action="store_true", help="make the large log and stop")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as name:
        small = Path(name) / "small"
        large = chosen.state or Path(name) / "large"
        there = (large / FILE_NAME).exists()
        grow(small, SMALL, mix=chosen.mix)
        start = time.perf_counter()
        grow(large, chosen.entries, mix=chosen.mix)
        made = round(time.perf_counter() - start, 1)
        if chosen.make_only:
            return 0
        result = {"machine": platform.platform(), "python": platform.python_version(), "entries": chosen.entries}
        result |= {"mix": chosen.mix, "made_s": made}
        result |= verification(large, chosen.workers, alone=there) | proofs(large) | appends(small, large)
        if chosen.state is None:
            shutil.rmtree(large)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
