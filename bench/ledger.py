"""The ledger at a hundred and at a million entries: append, proof, full verification, memory.

What the entries are, :mod:`bench.ledger_state` says, and how long the verdicts of each mix.
The appends that are measured are single verdicts, each with its own commit and fsync, of both sizes in turn
(A B A B), so that a busy disk meets both alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acceptd.record import attest, audit
from acceptd.record.auditing import quick
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Signer, load_keyring, load_signer
from acceptd.record.log import Ledger
from bench import figures
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


def appends(small: Path, large: Path) -> tuple[list[float], list[float]]:
    """Return the median milliseconds of an append of each round, at both sizes in turn."""
    both: dict[str, list[list[float]]] = {"small": [], "large": []}
    with Ledger.open(small) as one, Ledger.open(large) as other:
        logs = {"small": (one, load_signer(small, "ledger")), "large": (other, load_signer(large, "ledger"))}
        for _ in range(ROUNDS):
            for name, (ledger, signer) in logs.items():
                both[name].append(timed(ledger, 10**8 + ledger.tree().size, signer))
    found = {name: [statistics.median(one) for one in rounds] for name, rounds in both.items()}
    return found["small"], found["large"]


def proofs(state: Path) -> tuple[list[float], list[float]]:
    """Return the milliseconds of inclusion and of consistency proofs over the whole log."""
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
    return inclusion, consistency


def signatures(state: Path) -> list[float]:
    """Return the milliseconds that one verdict's signature takes to verify, the way that an audit does it."""
    signer, ring = load_signer(state, "ledger"), quick.keyring(load_keyring(state))
    found = []
    for number in range(200):
        envelope = verdict(number, signer).body["statement"]
        start = time.perf_counter()
        attest.verify_statement(envelope, ring)
        found.append((time.perf_counter() - start) * 1000)
    return found


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
        found = verification(large, chosen.workers, alone=there)
        inclusion, consistency = proofs(large)
        few, many = appends(small, large)
        each = signatures(large)
        if chosen.state is None:
            shutil.rmtree(large)
    lines = [
        figures.against(
            "ledger/append", f"ledger append at {chosen.entries:,} entries, each with its fsync", many,
            f"the same at {SMALL}", few, bound=1.2, source="design",
        ),
        figures.alone(
            "ledger/inclusion", f"inclusion proof of one of {chosen.entries:,} entries", inclusion,
            bound=10.0, source="issue 6",
        ),
        figures.alone(
            "ledger/consistency", f"consistency proof to {chosen.entries:,} entries", consistency,
            bound=10.0, source="issue 6",
        ),
        figures.alone(
            "ledger/verify", f"full verification of {found['verify_entries']:,} entries", [found["verify_s"]],
            unit="s", bound=60.0, source="issue 6",
        ),
    ]  # fmt: skip
    lines.append(
        figures.alone(
            "ledger/verify/cpu", "the same, processor time of all processes", [found["verify_cpu_s"]], unit="s"
        )
    )
    lines.append(
        figures.alone("ledger/signature", "one verdict's statement verified, its signature with it", each)
    )
    if there:
        peak = [float(found["verify_peak_mib"])]
        lines.append(figures.alone("ledger/memory", "largest resident set meanwhile", peak, unit="MiB"))
    return figures.save("ledger", lines, detail={"mix": chosen.mix, "made_s": made, **found})


if __name__ == "__main__":
    sys.exit(main())
