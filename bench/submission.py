"""Tiny classifier, drop to promoted with a warm daemon, beside a cold python that loads and runs it once.

Both are measured in turn (A B A B …) in one run, so that a drifting machine hits both alike. The target
is a ratio at p50 (design, section 10). Also where that time goes, and how many verdicts a second come of a burst.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench import figures
from bench.figures import ROOT
from examples import evidence_classifier as classifier

TEAM = classifier.MODEL_ID.partition("/")[0]
COLD = """
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
session.run(None, {{"features": numpy.array([[0.9, 0.8, 0.75, 0.1]], numpy.float32)}})
"""


def cold(model: Path) -> float:
    """Return the seconds of one cold python that imports onnxruntime, loads and runs ``model``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", COLD.format(model=str(model))], check=True, env=environment())
    return time.perf_counter() - start


def environment() -> dict[str, str]:
    """Return the environment of both sides: telemetry off, one BLAS thread, bytecode kept as installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def daemon(state: Path, team: str = TEAM) -> Iterator[tuple[Path, int]]:
    """Yield the log of a daemon that is ready, and its process's number."""
    run = [sys.executable, "-m", "acceptd"]
    subprocess.run(
        [*run, "init", "--team", team, "--state", str(state)], cwd=ROOT, check=True, capture_output=True
    )
    log = state / "daemon.log"
    with log.open("wb") as file:
        process = subprocess.Popen([*run, "daemon", "--state", str(state)], cwd=ROOT, stderr=file, stdout=file)
    try:
        while b'"event": "ready"' not in log.read_bytes():
            if process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.01)
        yield log, process.pid
    finally:
        process.terminate()
        process.wait(60)


class Dropped(NamedTuple):
    """One drop: its beginning as epoch seconds, seconds until its verdict stood in the outbox, its name."""

    began: float
    spent: float
    submission: str


def warm(state: Path, bundle: Path, team: str = TEAM) -> Dropped:
    """Drop ``bundle`` and wait until its verdict stands in the outbox; SystemExit where it is not accepted."""
    outbox = state / "outbox" / team
    known = set(os.listdir(outbox))
    began, start = time.time(), time.perf_counter()
    bundle.rename(state / "inbox" / team / bundle.name)
    while True:
        for name in set(os.listdir(outbox)) - known:
            if (outbox / name / "verdict.json").exists():
                spent = time.perf_counter() - start
                found = json.loads((outbox / name / "verdict.json").read_bytes())
                if found["verdict"] != "accepted":
                    codes = ", ".join(one["code"] for one in found["findings"] if one["severity"] != "info")
                    raise SystemExit(f"{bundle.name}: {found['verdict']}: {found['reason']} ({codes})")
                return Dropped(began, spent, name)
        time.sleep(0.0005)


EVENTS = ("claimed", "sealed", "judged", "promoted")
"""What the daemon's log says of each submission, in order."""


def timelines(log: Path) -> dict[str, dict[str, float]]:
    """Return the moments, in epoch seconds, that the log tells of each submission."""
    events: dict[str, dict[str, float]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("submission") and entry["event"] in EVENTS:
            stamp = datetime.fromisoformat(entry["timestamp"]).timestamp()
            events.setdefault(entry["submission"], {})[entry["event"]] = stamp
    return events


def steps(log: Path, drops: list[Dropped]) -> list[tuple[str, float]]:
    """Return the median milliseconds between the events of these drops, and until their verdicts stood there."""
    events = timelines(log)
    rows: dict[str, list[float]] = {}
    for drop in drops:
        previous = drop.began
        for name in EVENTS:
            moment = events[drop.submission][name]
            rows.setdefault(f"until {name}", []).append((moment - previous) * 1000)
            previous = moment
        rows.setdefault("until told", []).append((drop.began + drop.spent - previous) * 1000)
    return [(name, statistics.median(values)) for name, values in rows.items()]


def verdicts(state: Path, team: str, last: int) -> list[dict[str, Any]]:
    """Return the last so many verdicts, in their order; all where ``last`` is 0."""
    files = sorted((state / "outbox" / team).glob("*/verdict.json"), key=lambda file: file.stat().st_mtime_ns)
    return [json.loads(file.read_bytes()) for file in files[-last:]]


def stages(state: Path, team: str = TEAM, last: int = 0) -> list[tuple[str, float]]:
    """Return the median milliseconds of each stage, as the verdicts say."""
    rows: dict[str, list[float]] = {}
    for one in verdicts(state, team, last):
        for name, value in one["timings_ms"].items():
            rows.setdefault(name, []).append(float(value))
    return [(name, statistics.median(values)) for name, values in rows.items()]


def jobs(state: Path, team: str = TEAM, last: int = 0) -> list[tuple[str, float]]:
    """Return the median milliseconds of processor time of each kind of job, as the verdicts say, and of all."""
    rows: dict[str, list[float]] = {}
    for one in verdicts(state, team, last):
        spent: dict[str, float] = {}
        for job in one["resources"]["jobs"]:
            spent[job["kind"]] = spent.get(job["kind"], 0.0) + job["cpu_ms"]
        for name, value in (*spent.items(), ("all jobs", sum(spent.values()))):
            rows.setdefault(name, []).append(value)
    return [(name, statistics.median(values)) for name, values in rows.items()]


def throughput(state: Path, stage: Path, count: int) -> float:
    """Drop ``count`` bundles at once; return verdicts a second."""
    bundles = [classifier.write_bundle(stage / f"t{n}", version=f"9.{n}.0") for n in range(count)]
    outbox = state / "outbox" / TEAM
    before = len(list(outbox.glob("*/verdict.json")))
    start = time.perf_counter()
    for bundle in bundles:
        bundle.rename(state / "inbox" / TEAM / bundle.name)
    while len(list(outbox.glob("*/verdict.json"))) < before + count:
        time.sleep(0.005)
    return count / (time.perf_counter() - start)


def measure(rounds: int, burst: int) -> int:
    """Run everything in a throw-away state directory, print and keep the figures."""
    home = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir="/var/tmp"))
    try:
        state, stage = home / "state", home / "stage"
        model = classifier.write_bundle(home / "reference") / "model.onnx"
        bundles = iter([classifier.write_bundle(stage / f"b{n}", version=f"1.{n}.0") for n in range(rounds + 3)])
        drops: list[Dropped] = []

        def dropped() -> float:
            drops.append(warm(state, next(bundles)))
            return drops[-1].spent

        with daemon(state) as (log, _):
            taken = figures.in_turn({"cold": lambda: cold(model), "drop": dropped}, rounds, warm=3)
            parts = [
                figures.part("tiny, from the drop to the verdict", steps(log, drops[3:])),
                figures.part("tiny, stages of the judgement", stages(state)),
            ]
            busy = jobs(state)
            parts.append(figures.part("tiny, processor time in its jobs", busy))
            rate = throughput(state, stage, burst)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    line = figures.against(
        "submission", "309 bytes of model, drop to promoted, warm daemon", taken["drop"],
        "a cold python that runs it", taken["cold"], bound=0.5, source="design",
    )  # fmt: skip
    many = figures.alone("throughput", f"{burst} such drops at once, verdicts a second", [rate], unit="/s")
    inside = figures.alone(
        "submission/jobs", "processor time in all jobs of one such verdict", [dict(busy)["all jobs"]]
    )
    return figures.save("submission", [line, inside, many], parts=parts)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--burst", type=int, default=60)
    given = parser.parse_args()
    return measure(given.rounds, given.burst)


if __name__ == "__main__":
    sys.exit(main())
