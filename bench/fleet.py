"""A whole fleet beside the embedded daemon, on one machine: throughput with one worker and two, overhead of a
bundle.

Usage: python -m bench.fleet [--rounds 4] [--burst 40] [--alone 20] [--moto] [--place DIR]

All sides stand at once, with the same keys and rules, on bundles of one kind, and are measured in turn (A B A B
…): a machine that drifts hits them alike, and what is idle beats and sleeps. Each worker examines one submission
at a time, and so does the embedded daemon with one lane. PostgreSQL is Debian's on disk with fsync, the object
store a directory. ``alone``: from the drop to the verdict in the outbox, nothing else to do. ``burst``: many drops
at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import psutil

from bench import figures
from bench.fleet_parts import machine
from examples import evidence_classifier as classifier
from tests.fleet import embedded, house
from tests.fleet.house import Fleet
from tests.fleet.inboxes import Inboxes
from tests.fleet.mixed import ACCEPTED, Piece
from tests.fleet.postgres import Server
from tests.fleet.processes import Bell, Running
from tests.fleet.s3 import ENVIRONMENT, S3

TEAM: Final = "atlas"
PATIENCE: Final = 900.0
STEPS: Final = ("claimed", "sealed", "ordered", "examined", "judged", "promoted", "finished")
"""Events that the nodes log of one submission, in their order."""
STATISTICS: Final = (
    "SELECT xact_commit, pg_database_size(current_database()), pg_current_wal_lsn() - '0/0'::pg_lsn "
    "FROM pg_stat_database WHERE datname = current_database()"
)


@dataclass
class Side:
    """One way to have bundles judged, with its processes by role and what was measured of it."""

    name: str
    boxes: Inboxes
    bell: Bell
    processes: dict[str, Callable[[], int]]
    """The process whose family does a part of the work, by the part's name."""
    alone_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    """Processor seconds of one submission in a burst, by part; ``machine`` is all that the machine was busy."""

    def answer(self, pieces: Sequence[Piece]) -> float:
        """Drop pieces that lie ready and wait for their verdicts; return the seconds."""
        staged = [(piece, self.boxes.written(piece)) for piece in pieces]
        start = time.perf_counter()
        drops = [self.boxes.placed(piece, made) for piece, made in staged]
        self.bell.until(lambda: self.boxes.answered(drops), f"{self.name}: {len(drops)} verdicts", PATIENCE)
        return time.perf_counter() - start

    def burst(self, pieces: Sequence[Piece]) -> None:
        """Measure one burst."""
        before = self.cpu()
        spent = self.answer(pieces)
        for part, used in self.cpu().items():
            self.cpu_s.setdefault(part, []).append((used - before[part]) / len(pieces))
        self.rates.append(len(pieces) / spent)

    def cpu(self) -> dict[str, float]:
        """Return the processor seconds that each part has used until now."""
        times = psutil.cpu_times()
        busy = sum(times) - times.idle - times.iowait
        return {"machine": busy, **{part: family_seconds(pid()) for part, pid in self.processes.items()}}

    def told(self) -> dict[str, Any]:
        """Return the medians."""
        return {
            "alone_ms": round(statistics.median(self.alone_s) * 1000, 1),
            "alone_ms_p90": round(sorted(self.alone_s)[int(0.9 * (len(self.alone_s) - 1))] * 1000, 1),
            "burst_per_s": round(statistics.median(self.rates), 2),
            "bursts_per_s": [round(one, 2) for one in self.rates],
            "cpu_ms": {part: round(statistics.median(rows) * 1000, 1) for part, rows in self.cpu_s.items()},
        }


def family_seconds(pid: int) -> float:
    """Return the processor seconds of a process and of all that came of it: those that ended count with who
    waited."""
    total = 0.0
    first = psutil.Process(pid)
    for one in [first, *first.children(recursive=True)]:
        try:
            total += sum(one.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue  # its parent has its seconds when it has waited for it
    return total


class Bundles:
    """Bundles of one kind, each of a model of its own, so that none waits for another's release."""

    def __init__(self) -> None:
        self._count = 0

    def next(self, count: int) -> list[Piece]:
        """Return so many more."""
        made = []
        for _ in range(count):
            self._count += 1
            model = f"{TEAM}/bench-{self._count:06d}"
            write = partial(classifier.write_bundle, version="1.0.0", model_id=model, sets=3)
            made.append(Piece(f"bench-{self._count:06d}", TEAM, 1, "valid", write, ACCEPTED, model))
        return made


def embedded_side(stack: ExitStack, home: Path, template: Path, policies: Path, lanes: int) -> Side:
    """Start an embedded daemon with so many lanes."""
    name = f"embedded, {lanes} lane{'s' * (lanes > 1)}"
    state = embedded.copied(template, home / f"embedded-{lanes}" / "state")
    embedded.configure(state, policies, f"workers = {lanes}")
    bell = Bell()
    boxes = Inboxes(state, home / f"embedded-{lanes}" / "stage", bell)
    stack.callback(boxes.close)
    daemon = Running(["daemon", "--state", str(state)], home / f"embedded-{lanes}.log", bell)
    stack.callback(daemon.kill)
    daemon.ready()
    return Side(name, boxes, bell, {"daemon": lambda: daemon.pid})


def fleet_side(fleet: Fleet, workers: int, server: Server) -> Side:
    """Start a fleet; its database server is its own, and counted too."""
    fleet.start()

    def pid_of(name: str) -> int:
        process = fleet[name].process
        assert process is not None
        return process.pid

    parts: dict[str, Callable[[], int]] = {name: partial(pid_of, name) for name in fleet.nodes}
    return Side(
        f"fleet, {workers} worker{'s' * (workers > 1)}", fleet.boxes, fleet.bell, parts | {"database": server.pid}
    )


def steps(fleet: Fleet) -> dict[str, float]:
    """Return the median milliseconds between the events that the nodes logged of each submission, drops alone."""
    events: dict[str, dict[str, float]] = {}
    for node in fleet.nodes.values():
        assert node.process is not None
        for one in list(node.process.events):
            if one.get("submission") and one.get("event") in STEPS:
                stamp = datetime.fromisoformat(one["timestamp"]).timestamp()
                events.setdefault(one["submission"], {}).setdefault(one["event"], stamp)
    found: dict[str, list[float]] = {}
    for one in events.values():
        there = [step for step in STEPS if step in one]
        for before, step in pairwise(there):
            found.setdefault(f"{before} to {step}", []).append((one[step] - one[before]) * 1000)
    return {name: round(statistics.median(rows), 1) for name, rows in found.items()}


def measure(
    home: Path, rounds: int, burst: int, alone: int, *, moto: bool
) -> tuple[list[figures.Line], dict[str, Any]]:
    """Measure every side in turn; return the lines and everything else that was found."""
    bundles = Bundles()
    with ExitStack() as stack:
        s3 = S3() if moto else None
        if s3 is not None:
            stack.callback(s3.close)
        template = embedded.initialise(home / "template")
        fleets: dict[int, Fleet] = {}
        servers: dict[int, Server] = {}
        for workers in (1, 2):
            place = home / f"fleet-{workers}"
            if s3 is not None:
                objects = [f'url = "s3://{s3.bucket()}/bench"', f'endpoint = "{s3.endpoint}"']
            else:
                objects = house.shared(home / f"objects-{workers}")
            servers[workers] = Server(fsync=True, on_disk=True)
            stack.callback(servers[workers].close)
            fleet = Fleet(
                place, template, server=servers[workers], objects=objects, environment=ENVIRONMENT,
                workers=workers, settings=(),
            )  # fmt: skip
            stack.callback(fleet.close)
            fleets[workers] = fleet
        policies = fleets[2].policies
        sides = [embedded_side(stack, home, template, policies, lanes) for lanes in (1, 2)]
        sides += [fleet_side(fleet, workers, servers[workers]) for workers, fleet in fleets.items()]
        for side in sides:
            side.answer(bundles.next(6))  # warm-up, not counted
        for _ in range(alone):
            for side in sides:
                side.alone_s.append(side.answer(bundles.next(1)))
        between = steps(fleets[1])
        before = database(servers[2], fleets[2])
        for _ in range(rounds):
            for side in sides:
                side.burst(bundles.next(burst))
        after = database(servers[2], fleets[2])
        for fleet in fleets.values():
            fleet.stop()
    one_s, two_s = (side.alone_s for side in (sides[0], sides[2]))
    lines = [
        figures.against(
            "fleet/alone", "one drop through a fleet, drop to verdict", [one * 1000 for one in two_s],
            "an embedded daemon", [one * 1000 for one in one_s],
        ),
        figures.against(
            "fleet/workers", f"a fleet with 2 workers on these cores, bursts of {burst}", sides[3].rates,
            "with 1 worker", sides[2].rates, unit="/s",
        ),
        figures.against(
            "fleet/rate", f"a fleet with 2 workers on these cores, bursts of {burst}", sides[3].rates,
            "an embedded daemon with 2 lanes", sides[1].rates, unit="/s",
        ),
    ]  # fmt: skip
    count = rounds * burst
    found = {side.name: side.told() for side in sides}
    one = {key: round((after[key] - before[key]) / count, 1) for key in after}
    return lines, {
        "machine": machine(),
        "rounds": rounds,
        "burst": burst,
        "objects": "moto" if moto else "directory",
        "sides": found,
        "overhead_ms": round(
            (statistics.median(sides[2].alone_s) - statistics.median(sides[0].alone_s)) * 1000, 1
        ),
        "overhead_ratio": round(
            statistics.median(a / b for a, b in zip(sides[2].alone_s, sides[0].alone_s, strict=True)), 2
        ),
        "two_workers_ratio": round(
            statistics.median(a / b for a, b in zip(sides[3].rates, sides[2].rates, strict=True)), 2
        ),
        "steps_ms": between,
        "database_each": one,
        "load_after": os.getloadavg()[0],
    }


def database(server: Server, fleet: Fleet) -> dict[str, float]:
    """Return what the database of a fleet has done until now."""
    commits, size, wal = server.execute(STATISTICS, database=fleet.database)[0]
    return {"transactions": float(commits), "bytes": float(size), "wal_bytes": float(wal)}


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--burst", type=int, default=40)
    parser.add_argument("--alone", type=int, default=20)
    parser.add_argument("--moto", action="store_true", help="an S3-compatible server in place of a directory")
    parser.add_argument("--place", type=Path, default=Path("/var/tmp"))
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir=given.place))
    place.chmod(0o755)  # cells walk through it
    try:
        lines, found = measure(place, given.rounds, given.burst, given.alone, moto=given.moto)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(found, indent=1))
    return figures.save("fleet", lines, detail=found)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
