"""Tiny classifier, drop to promoted with a warm daemon, beside a cold python that loads and runs it once.

Both are measured in turn (A B A B …) in one run, so that a drifting machine hits both alike. The target
is a ratio at p50 (design, section 10). ``make bench`` writes the figures to ``bench/results``.
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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from examples import evidence_classifier as classifier

ROOT = Path(__file__).resolve().parent.parent
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
def daemon(state: Path) -> Iterator[Path]:
    """Yield the log of a daemon that is ready."""
    run = [sys.executable, "-m", "acceptd"]
    subprocess.run(
        [*run, "init", "--team", TEAM, "--state", str(state)], cwd=ROOT, check=True, capture_output=True
    )
    log = state / "daemon.log"
    with log.open("wb") as file:
        process = subprocess.Popen([*run, "daemon", "--state", str(state)], cwd=ROOT, stderr=file, stdout=file)
    try:
        while b'"event": "ready"' not in log.read_bytes():
            if process.poll() is not None:
                raise SystemExit(log.read_text())
            time.sleep(0.01)
        yield log
    finally:
        process.terminate()
        process.wait(60)


def warm(state: Path, bundle: Path) -> tuple[float, float]:
    """Drop ``bundle``; return (start as epoch seconds, seconds until its verdict stands in the outbox)."""
    outbox = state / "outbox" / TEAM
    known = set(os.listdir(outbox))
    began, start = time.time(), time.perf_counter()
    bundle.rename(state / "inbox" / TEAM / bundle.name)
    while True:
        fresh = set(os.listdir(outbox)) - known
        if any((outbox / name / "verdict.json").exists() for name in fresh):
            return began, time.perf_counter() - start
        time.sleep(0.0005)


def timeline(log: Path, starts: list[float]) -> dict[str, float]:
    """Return the median milliseconds between the daemon's own log events of each submission."""
    events: dict[str, dict[str, float]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("submission") and entry["event"] in {"claimed", "sealed", "judged", "promoted"}:
            stamp = datetime.fromisoformat(entry["timestamp"]).timestamp()
            events.setdefault(entry["submission"], {})[entry["event"]] = stamp
    whole = [one for one in events.values() if len(one) == 4][-len(starts) :]
    rows: dict[str, list[float]] = {}
    for begin, one in zip(starts, whole, strict=True):
        previous = begin
        for name in ("claimed", "sealed", "judged", "promoted"):
            rows.setdefault(name, []).append((one[name] - previous) * 1000)
            previous = one[name]
    return {name: round(statistics.median(values), 2) for name, values in rows.items()}


def stages(state: Path) -> dict[str, float]:
    """Return the median milliseconds of each stage, as the verdicts say."""
    rows: dict[str, list[float]] = {}
    for file in (state / "outbox" / TEAM).glob("*/verdict.json"):
        for name, value in json.loads(file.read_bytes())["timings_ms"].items():
            rows.setdefault(name, []).append(float(value))
    return {name: round(statistics.median(values), 2) for name, values in rows.items()}


def percentile(values: list[float], share: float) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


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


def measure(rounds: int, burst: int) -> dict[str, Any]:
    """Run everything in a throw-away state directory."""
    home = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir="/var/tmp"))
    try:
        state, stage = home / "state", home / "stage"
        model = classifier.write_bundle(home / "reference") / "model.onnx"
        bundles = [classifier.write_bundle(stage / f"b{n}", version=f"1.{n}.0") for n in range(rounds + 3)]
        with daemon(state) as log:
            for bundle in bundles[:3]:  # warm-up, not counted
                warm(state, bundle)
                cold(model)
            cold_s, warm_s, starts = [], [], []
            for bundle in bundles[3:]:
                cold_s.append(cold(model))
                began, spent = warm(state, bundle)
                warm_s.append(spent)
                starts.append(began)
            line, stage_ms = timeline(log, starts), stages(state)
            rate = throughput(state, stage, burst)
        ratios = [one / other for one, other in zip(warm_s, cold_s, strict=True)]
        return {
            "rounds": rounds,
            "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
            "cold_python_ms": {"p50": percentile(cold_s, 0.5) * 1000, "p95": percentile(cold_s, 0.95) * 1000},
            "drop_to_promoted_ms": {"p50": percentile(warm_s, 0.5) * 1000, "p95": percentile(warm_s, 0.95) * 1000},
            "ratio_p50": statistics.median(ratios),
            "throughput_per_s": rate,
            "timeline_ms": line,
            "stages_ms": stage_ms,
        }
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--burst", type=int, default=60)
    given = parser.parse_args()
    found = measure(given.rounds, given.burst)
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    (folder / "submission.json").write_text(json.dumps(found, indent=1) + "\n")
    for name in ("cold_python_ms", "drop_to_promoted_ms"):
        print(f"{name:22} p50 {found[name]['p50']:7.1f}   p95 {found[name]['p95']:7.1f}")
    print(f"{'ratio at p50':22} {found['ratio_p50']:.2f} (paired, median of {found['rounds']}; target 0.5)")
    print(f"{'throughput':22} {found['throughput_per_s']:.1f} verdicts a second")
    print("\nwhere the time goes (medians, ms)")
    for title, rows in (("from the drop", found["timeline_ms"]), ("inside `judged`", found["stages_ms"])):
        print(f"  {title}")
        for name, value in rows.items():
            print(f"    {name:12} {value:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
