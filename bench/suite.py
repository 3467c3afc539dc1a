"""ONNX's backend cases through ``check --suite``: mean wall clock per case beside a cold python.

The cold python imports onnxruntime, loads the tiny classifier and runs it once. The suite is judged as a whole, as
often as asked for, with cold pythons before, between and after (A B A B …): each time's mean is held against the
colds around it. A suite's own start and end are in its mean. The target is a ratio (design, section 10).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from acceptd import local
from bench import figures
from bench.figures import ROOT
from bench.submission import cold, environment
from examples import evidence_classifier as classifier
from tools.backend_suite import write_suite

TARGET: Final = 0.35
CACHE: Final = ROOT / ".cache" / "backend"
RULES: Final = ("--set", "operators.mode=any", "--set", "manifest.inferred=accept")


def pick(suite: Path, count: int, out: Path) -> tuple[Path, int]:
    """Return a place of ``count`` cases, spread evenly over the sorted paths, and how many. 0: all, in place."""
    cases = local.find_cases(suite)
    if not count:
        return suite, len(cases)
    for number in range(count):
        case = cases[number * len(cases) // count]
        shutil.copytree(case, out / case.relative_to(suite))
    return out, count


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


def measure(count: int, times: int, rounds: int) -> int:
    """Measure, print and keep the figures."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    if not CACHE.is_dir():
        write_suite(CACHE)
    with tempfile.TemporaryDirectory(prefix="bench-suite-", dir="/var/tmp") as place:
        bundle = classifier.write_bundle(Path(place, "tiny"))
        suite, many = pick(CACHE, count, Path(place, "cases"))
        colds = [[cold(bundle / "model.onnx") for _ in range(rounds)]]
        each = []
        for number in range(times):
            each.append(whole(suite) / many * 1000)
            colds.append([cold(bundle / "model.onnx") for _ in range(rounds)])
            figures.progress(f"suite {number + 1}/{times}: {many} cases, {each[-1]:.1f} ms each")
    around = [statistics.median(colds[at] + colds[at + 1]) * 1000 for at in range(times)]
    line = figures.against(
        "suite", f"{many:,} ONNX backend cases, `check --suite`, mean per case", each,
        "a cold python that runs the tiny model", around, bound=TARGET, source="design",
    )  # fmt: skip
    return figures.save("suite", [line], detail={"cases": many, "times": times})


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description="check --suite per case beside a cold python.")
    parser.add_argument("--cases", type=int, default=200, help="how many cases; 0: all (default 200)")
    parser.add_argument("--times", type=int, default=1, help="how often they are judged (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="cold pythons before and after each (default 5)")
    given = parser.parse_args()
    return measure(given.cases, given.times, given.rounds)


if __name__ == "__main__":
    sys.exit(main())
