"""ONNX's backend cases through ``check --suite``: mean wall clock per case beside a cold python.

The cold python imports onnxruntime, loads the tiny classifier and runs it once; it is measured before and after
the suite in one run, so that a drifting machine hits both. The target is a ratio (design, section 10). The suite's
own start is in its mean: with a sample it weighs more than with all 2,033 cases (``--cases 0``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from acceptd import local
from bench.submission import ROOT, cold, environment
from examples import evidence_classifier as classifier
from tools.backend_suite import write_suite

TARGET: Final = 0.35
CACHE: Final = ROOT / ".cache" / "backend"
RULES: Final = ("--set", "operators.mode=any", "--set", "manifest.inferred=accept")


def sample(suite: Path, count: int, out: Path) -> list[Path]:
    """Copy ``count`` cases, spread evenly over the sorted paths, to ``out``; all where ``count`` is 0."""
    cases = local.find_cases(suite)
    chosen = cases if not count else [cases[number * len(cases) // count] for number in range(count)]
    for case in chosen:
        shutil.copytree(case, out / case.relative_to(suite))
    return chosen


def whole(suite: Path) -> float:
    """Return the seconds of one ``acceptd check --suite``, its start and its end included."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "acceptd", "check", "--suite", str(suite), *RULES],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:  # 1: some are rejected, as they should be
        raise SystemExit(f"check --suite ended with {done.returncode}: {done.stderr[-400:]}")
    return time.perf_counter() - start


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one comparison."""
    with tempfile.TemporaryDirectory(prefix="bench-suite-") as place:
        suite = CACHE
        if not suite.is_dir():
            suite = Path(place, "all")
            write_suite(suite)
        bundle = classifier.write_bundle(Path(place, "tiny"))
        chosen = sample(suite, count, Path(place, "sample"))
        colds = [cold(bundle / "model.onnx") for _ in range(rounds)]
        seconds = whole(Path(place, "sample"))
        colds += [cold(bundle / "model.onnx") for _ in range(rounds)]
    beside = statistics.median(colds)
    return {
        "cases": len(chosen),
        "suite_s": round(seconds, 3),
        "per_case_ms": round(seconds / len(chosen) * 1000, 2),
        "cold_ms": round(beside * 1000, 2),
        "ratio": round(seconds / len(chosen) / beside, 3),
        "target": TARGET,
    }


def main() -> int:
    """Measure, print, and write ``bench/results/suite.json``."""
    parser = argparse.ArgumentParser(description="check --suite per case beside a cold python.")
    parser.add_argument("--cases", type=int, default=200, help="how many cases; 0: all (default 200)")
    parser.add_argument("--rounds", type=int, default=5, help="cold pythons before, and after (default 5)")
    given = parser.parse_args()
    figures = measure(given.cases, given.rounds)
    results = ROOT / "bench" / "results"
    results.mkdir(exist_ok=True)
    (results / "suite.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
