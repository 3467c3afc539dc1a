"""The cell's own figures: what a job costs, how far a memory bomb gets, how late a time limit is.

Cost: the same work (load and run a 309-byte model) in a warm job, in a cold bubblewrap + python that
imports onnxruntime, and in this process, measured in turn (A B C A B C …). Must (issue 3): a memory bomb
stops within 10 % or 64 MiB of its budget, and a job is dead within 250 ms of a time limit.
``make bench`` writes the figures to ``bench/results/cell.json``; the exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import sandbox
from acceptd.cell import launcher
from acceptd.cell.client import Cell
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy
from examples import evidence_classifier as classifier

ROOT: Final = Path(__file__).resolve().parent.parent
MIB: Final = 1 << 20
BUDGET: Final = 256 * MIB
LATE_MS: Final = 250.0
OVERSHOOT: Final = max(64 * MIB, BUDGET // 10)
WORK: Final = """
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
session.run(None, {"features": numpy.array([[0.9, 0.8, 0.75, 0.1]], numpy.float32)})
"""
BOMBS: Final = {
    "large blocks": "keep = []\nwhile True: keep.append(bytearray(16 << 20))",
    "small objects": "keep = []\nwhile True: keep.append(bytes(200))",
    "anonymous maps": (
        "keep = []\ntry:\n    while True:\n"
        "        keep.append(mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
        "        for at in range(0, 8 << 20, 4096): keep[-1][at] = 1\n"
        "except OSError: raise MemoryError"
    ),
}
"""Each allocates and touches for ever, on a way of its own through the allocator."""
SPIN: Final = """
while time.process_time() < spec["mark"]: pass
note(at=time.monotonic(), cpu=time.process_time())
while True: pass
"""
LATE: Final = {
    "cpu, default action": ("cpu", SPIN),
    "cpu, SIGXCPU ignored": ("cpu", f"signal.signal(signal.SIGXCPU, signal.SIG_IGN){SPIN}"),
    "wall, asleep": ("wall", "time.sleep(3600)"),
    "wall, busy": ("wall", "while True: pass"),
}
"""What the job does, by the limit that must end it."""
WALL_SECONDS: Final = 0.4
CPU_SECONDS: Final = 1


def spread(values: list[float]) -> dict[str, float]:
    """Return median, quartiles and extremes, three decimals."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    found = {"median": middle, "q1": low, "q3": high, "min": min(values), "max": max(values)}
    return {name: round(value, 3) for name, value in found.items()} | {"n": len(values)}


class Bench:
    """One cell under test, its limits, and a cold start of the same outer wall."""

    def __init__(self, cell: Cell, sealed: Path) -> None:
        self._cell = cell
        self._sealed = sealed

    def job(self, source: str, limits: JobLimits) -> JobRecord:
        """Run attacker code under every wall that the default policy requires."""
        return self._cell.run(
            "attack",
            files={"model.onnx": "bench/model.onnx"},
            spec={"source": source, "mark": CPU_SECONDS / 2},
            limits=limits,
            required_walls=Policy().required_walls,
        )

    def costs(self, rounds: int) -> dict[str, dict[str, float]]:
        """Return milliseconds of each way to do the same work."""
        limits = job_limits("attack", LimitsTable(run_cpu_seconds=10))
        inside = f"{launcher.SEALED_INSIDE}/bench/model.onnx"
        ways: dict[str, Callable[[], None]] = {
            "warm job, empty": lambda: self._done("note(ok=True)", limits),
            "warm job": lambda: self._done(f"MODEL = '/m/model.onnx'\n{WORK}", limits),
            "cold bubblewrap": lambda: self._cold(f"MODEL = {inside!r}\n{WORK}"),
            "in this process": lambda: exec(WORK, {"MODEL": str(self._sealed / "bench/model.onnx")}),
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 3):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                if number >= 3:  # the first ones warm caches up
                    taken[name].append((time.perf_counter() - start) * 1000)
        return {name: spread(values) for name, values in taken.items()}

    def _done(self, source: str, limits: JobLimits) -> None:
        record = self.job(source, limits)
        if record.ending != "done":
            raise SystemExit(f"a trivial job ended as {record.ending}: {record.cause} {record.message}")

    def _cold(self, source: str) -> None:
        package = Path(sandbox.__file__).parent
        command = launcher.bwrap_arguments(launcher.find_bwrap(), self._sealed, package, 0, 0)
        command[command.index("-m") :] = ["-c", source]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def bombs(self, rounds: int) -> dict[str, dict[str, float]]:
        """Return the MiB by which the peak passed that of an empty job and the budget (negative: it did not)."""
        usual = job_limits("attack", LimitsTable())
        own = max(self.job("note(ok=True)", usual).peak_rss_bytes for _ in range(rounds))
        limits = job_limits("attack", LimitsTable(run_cpu_seconds=30, memory_bytes=BUDGET))
        found = {}
        for name, source in BOMBS.items():
            over = []
            for _ in range(rounds):
                record = self.job(source, limits)
                code = record.refused.code if record.refused else ""
                if code != "resources/memory-limit" and (record.ending, record.cause) != ("limit", "memory"):
                    raise SystemExit(f"{name}: a bomb ended as {record.ending} {record.cause} {record.message}")
                over.append((record.peak_rss_bytes - own - BUDGET) / MIB)
            found[name] = spread(over)
        return found

    def delays(self, rounds: int) -> dict[str, dict[str, float]]:
        """Return milliseconds from the limit to the return of ``run``: everything in the job is dead then.

        A job with a CPU limit tells the moment of half of it; the other half needs as much wall clock at
        least, so that on a busy host waiting counts as delay: measure on a quiet one. Below 0: the kernel
        counts CPU by ticks (on a host with load 14 it ended such a job at 0.84 of 1 s).
        """
        usual = job_limits("attack", LimitsTable(run_cpu_seconds=CPU_SECONDS))
        found = {}
        for name, (limit, source) in LATE.items():
            limits = replace(usual, wall_seconds=WALL_SECONDS) if limit == "wall" else usual
            late = []
            for _ in range(rounds):
                record = self.job(source, limits)
                end = time.monotonic()
                if (record.ending, record.cause) != ("limit", limit):
                    raise SystemExit(f"{name}: ended as {record.ending} {record.cause} {record.message}")
                if limit == "cpu":
                    told = record.notes[0].facts
                    late.append((end - told["at"] - (CPU_SECONDS - told["cpu"])) * 1000)
                else:
                    late.append((record.wall_s - WALL_SECONDS) * 1000)
            found[name] = spread(late)
        return found


@contextmanager
def bench() -> Iterator[Bench]:
    """Yield a bench with a warm cell and a sealed area of its own."""
    home = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir="/var/tmp"))
    try:
        home.chmod(0o755)
        sealed = home / "sealed"
        (sealed / "bench").mkdir(parents=True)
        model = classifier.write_bundle(home / "reference") / "model.onnx"
        shutil.copyfile(model, sealed / "bench" / "model.onnx")
        with Cell(sealed, spare=True, testing=True) as cell:
            yield Bench(cell, sealed)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measure(rounds: int, repeats: int) -> dict[str, Any]:
    """Measure all three."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    with bench() as one:
        costs, over, late = one.costs(rounds), one.bombs(repeats), one.delays(repeats)
    held = all(row["max"] * MIB <= OVERSHOOT for row in over.values())
    in_time = all(row["max"] <= LATE_MS for row in late.values())
    return {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "uid": os.getuid(),
        "cost_ms": costs,
        "memory_budget_mib": BUDGET // MIB,
        "memory_overshoot_mib": over,
        "memory_bound_mib": OVERSHOOT // MIB,
        "memory_bound_held": held,
        "time_limit_delay_ms": late,
        "time_bound_ms": LATE_MS,
        "time_bound_held": in_time,
    }


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of the cost of a job")
    parser.add_argument("--repeats", type=int, default=5, help="of each bomb and each time limit")
    given = parser.parse_args()
    found = measure(given.rounds, given.repeats)
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    (folder / "cell.json").write_text(json.dumps(found, indent=1) + "\n")
    for title, rows, verdict in (
        ("cost of load and run, ms", found["cost_ms"], ""),
        (
            f"memory past a budget of {found['memory_budget_mib']} MiB, MiB",
            found["memory_overshoot_mib"],
            f"bound {found['memory_bound_mib']}: {'held' if found['memory_bound_held'] else 'MISSED'}",
        ),
        (
            "from a time limit to the death, ms",
            found["time_limit_delay_ms"],
            f"bound {LATE_MS:.0f}: {'held' if found['time_bound_held'] else 'MISSED'}",
        ),
    ):
        print(f"{title:42} {'median':>9} {'q1':>9} {'q3':>9} {'max':>9}   {verdict}")
        for name, row in rows.items():
            print(f"  {name:40} {row['median']:9.2f} {row['q1']:9.2f} {row['q3']:9.2f} {row['max']:9.2f}")
    return 0 if found["memory_bound_held"] and found["time_bound_held"] else 1


if __name__ == "__main__":
    sys.exit(main())
