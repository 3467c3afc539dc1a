"""The cell's own figures: what a job costs, how far a memory bomb gets, how late a time limit is.

Cost: the same work (load and run a 309-byte model) in a warm job, in a cold bubblewrap + python that
imports onnxruntime, and in this process, measured in turn (A B C A B C …). Must (issue 3): a memory bomb
stops within 10 % or 64 MiB of its budget, and a job is dead within 250 ms of a time limit.
The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import sandbox
from acceptd.cell import launcher
from acceptd.cell.client import Cell
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy
from bench import figures
from examples import evidence_classifier as classifier

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

    def costs(self, rounds: int) -> dict[str, list[float]]:
        """Return milliseconds of each way to do the same work."""
        limits = job_limits("attack", LimitsTable(run_cpu_seconds=10))
        inside = f"{launcher.SEALED_INSIDE}/bench/model.onnx"
        ways: dict[str, Callable[[], float | None]] = {
            "warm job, empty": lambda: self._done("note(ok=True)", limits),
            "warm job": lambda: self._done(f"MODEL = '/m/model.onnx'\n{WORK}", limits),
            "cold bubblewrap": lambda: self._cold(f"MODEL = {inside!r}\n{WORK}"),
            "in this process": lambda: exec(WORK, {"MODEL": str(self._sealed / "bench/model.onnx")}),
        }
        return figures.in_turn(ways, rounds, warm=3)

    def _done(self, source: str, limits: JobLimits) -> None:
        record = self.job(source, limits)
        if record.ending != "done":
            raise SystemExit(f"a trivial job ended as {record.ending}: {record.cause} {record.message}")

    def _cold(self, source: str) -> None:
        package = Path(sandbox.__file__).parent
        command = launcher.bwrap_arguments(launcher.find_bwrap(), self._sealed, package, 0, 0)
        command[command.index("-m") :] = ["-c", source]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def bombs(self, rounds: int) -> dict[str, list[float]]:
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
            found[name] = over
        return found

    def delays(self, rounds: int) -> dict[str, list[float]]:
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
                # On a host so busy that it computed for less than half of its time, such a job counts as lost.
                if (record.ending, record.cause) not in {("limit", limit), ("lost", "wall")}:
                    raise SystemExit(f"{name}: ended as {record.ending} {record.cause} {record.message}")
                if limit == "cpu":
                    told = record.notes[0].facts
                    late.append((end - told["at"] - (CPU_SECONDS - told["cpu"])) * 1000)
                else:
                    late.append((record.wall_s - WALL_SECONDS) * 1000)
            found[name] = late
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


def measure(rounds: int, repeats: int) -> int:
    """Measure all three, print and keep the figures."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    with bench() as one:
        costs = one.costs(rounds)
        figures.progress("cell: memory bombs")
        over = one.bombs(repeats)
        figures.progress("cell: time limits")
        late = one.delays(repeats)
    job = costs["warm job"]
    lines = [
        figures.against(
            f"cell/{name}", "load and run the tiny model in a warm job of the cell", job, beside, costs[name]
        )
        for name, beside in (
            ("cold bubblewrap", "in a cold bubblewrap and python"),
            ("in this process", "in a process that imported all"),
        )
    ]
    lines.append(figures.alone("cell/empty", "a warm job that does nothing", costs["warm job, empty"]))
    lines += [
        figures.alone(
            f"cell/bomb/{name}", f"memory bomb, {name}: past its budget of {BUDGET // MIB} MiB", values,
            unit="MiB", bound=OVERSHOOT / MIB, by="most", source="issue 3",
        )
        for name, values in over.items()
    ]  # fmt: skip
    lines += [
        figures.alone(
            f"cell/late/{name}", f"time limit, {name}: until the job is dead", values, bound=LATE_MS, by="most",
            source="issue 3",
        )
        for name, values in late.items()
    ]  # fmt: skip
    return figures.save("cell", lines, detail={"uid": os.getuid()})


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of the cost of a job")
    parser.add_argument("--repeats", type=int, default=5, help="of each bomb and each time limit")
    given = parser.parse_args()
    return measure(given.rounds, given.repeats)


if __name__ == "__main__":
    sys.exit(main())
