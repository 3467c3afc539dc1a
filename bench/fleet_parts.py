"""What each part of a fleet carries by itself: the record on SQLite and on PostgreSQL, objects, the seal.

Usage: python -m bench.fleet_parts [--submissions 200] [--mib 256] [--rounds 3] [--place DIR]

The two engines in turn (A B A B), with the same writes: those of one submission from its claim to its end, with an
entry, a row and evidence as a real one leaves them. PostgreSQL is Debian's, with its own defaults for durability
(fsync, synchronous_commit), on the same disk. The S3-compatible server is moto, which is no measure of a real one:
what counts there is what our side spends.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from acceptd.intake.seal import seal_directory
from acceptd.objectstore.objects import open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.policy import LimitsTable
from acceptd.record.entry import Appended, Filter
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Queue
from tests.fleet import embedded
from tests.fleet.mixed import mixed
from tests.fleet.postgres import Server
from tests.fleet.s3 import ENVIRONMENT, S3

MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """What one real submission left on record."""

    body: dict[str, Any]
    evidence: tuple[bytes, ...]
    data: dict[str, Any]


def sample(home: Path) -> Sample:
    """Judge one valid bundle and return what is on record of it."""
    template = embedded.initialise(home / "template")
    embedded.run(home / "run", template, embedded.rules(home / "policies"), mixed(1))
    with Ledger.open(home / "run" / "state", create=False) as ledger:
        entry = next(iter(ledger.export(Filter(type="verdict"))))
        row = Queue(ledger).get(entry["submission"])
        assert row is not None
        digests = [entry["body"]["evidence_digest"], entry["body"]["manifest_digest"]]
        blobs = tuple(blob for digest in digests if (blob := ledger.evidence(digest)) is not None)
        return Sample(entry["body"], blobs, row.data)


def work(queue: Queue, one: Sample, name: str) -> None:
    """Write what one submission writes: claimed, sealed, judged with its entry and evidence, promoted, done."""
    queue.add(name, team="mosaic", name=name, path=f"/inbox/{name}", kind="directory", uid=0)
    queue.advance(name, "sealed", sealed=one.data["sealed"], bundle_digest="ab" * 32, seal_ms=1.0)

    def entries(change: Transaction) -> list[Appended]:
        for blob in one.evidence:
            change.put_evidence(name.encode() + blob)
        return [change.append("verdict", {**one.body, "drop": name}, submission=name)]

    queue.advance(name, "judged", entries=entries, verdict="accepted", document=one.data["document"])
    queue.advance(name, "promoted")
    queue.advance(name, "done", document=one.data["document"])


@contextmanager
def on_sqlite(place: Path) -> Iterator[Path]:
    """Give a state whose record is a file."""
    state = place / f"sqlite-{time.monotonic_ns()}"
    state.mkdir()
    yield state


@contextmanager
def on_postgres(place: Path, server: Server) -> Iterator[Path]:
    """Give a state whose record is a database."""
    state = place / f"postgres-{time.monotonic_ns()}"
    state.mkdir()
    name = server.fresh_database()
    (state / "acceptd.toml").write_text(f'[record]\nurl = "{server.url(name)}"\n')
    yield state
    server.drop(name)


def record(state: Path, one: Sample, count: int, writers: int) -> dict[str, float]:
    """Return submissions and plain appends a second, by so many writers side by side."""
    with Ledger.open(state) as ledger:
        queue = Queue(ledger)
        work(queue, one, "first")  # statements compiled, connections made

        def submissions(writer: int) -> None:
            for number in range(count // writers):
                work(queue, one, f"s-{writer}-{number}")

        def appends(writer: int) -> None:
            for number in range(count // writers):
                ledger.append("note", {"writer": writer, "number": number})

        done = count // writers * writers
        return {
            "submissions_per_s": done / side_by_side(submissions, writers),
            "appends_per_s": done / side_by_side(appends, writers),
        }


def side_by_side(work: Callable[[int], None], count: int) -> float:
    """Return the seconds that so many threads need."""
    with ThreadPoolExecutor(count) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(count)))  # raises what one of them raised
        return time.perf_counter() - start


def large(place: Path, mib: int) -> Path:
    """Write a drop of one large file of random bytes and eight small ones."""
    place.mkdir(parents=True)
    with (place / "weights.bin").open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
    for number in range(8):
        (place / f"file-{number}.bin").write_bytes(os.urandom(4096))
    return place


class Measures:
    """Seconds and processor seconds of named steps; each is measured several times."""

    def __init__(self, mib: int) -> None:
        self._mib = mib
        self._rows: dict[str, list[tuple[float, float]]] = {}

    def of(self, name: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` and keep what it took of this process."""
        before, start = time.process_time(), time.perf_counter()
        found = work()
        spent = time.perf_counter() - start, time.process_time() - before
        self._rows.setdefault(name, []).append(spent)
        return found

    def told(self) -> dict[str, dict[str, float]]:
        """Return the medians: MiB a second, and processor seconds for a GiB."""
        told = {}
        for name, rows in self._rows.items():
            wall, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
            told[name] = {
                "mib_per_s": round(self._mib / wall, 1),
                "cpu_s_per_gib": round(cpu * 1024 / self._mib, 2),
            }
        return told


def objects(place: Path, mib: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure the seal, and putting and fetching in a directory and in moto, of a bundle of one large file."""
    os.environ.update(ENVIRONMENT)
    measures = Measures(mib)
    s3 = S3()
    try:
        for number in range(rounds):
            home = place / f"objects-{number}"
            drop = large(home / "drop", mib)
            sealed = measures.of("seal", partial(seal_directory, drop, home / "sealed", LimitsTable()))
            shared = home / "shared"
            shared.mkdir()
            tables = {
                "directory": ObjectsTable(url=f"file://{shared}"),
                "moto": ObjectsTable(url=f"s3://{s3.bucket()}/bench", endpoint=s3.endpoint),
            }
            for name, table in tables.items():
                with open_objects(table, home) as store:
                    measures.of(f"{name}, put", partial(store.put_bundle, "sealed", home / "sealed", sealed))
                    fetched = home / name
                    measures.of(f"{name}, fetch", partial(store.fetch_bundle, "sealed", sealed.digest, fetched))
            shutil.rmtree(home)
    finally:
        s3.close()
    return measures.told()


def machine() -> dict[str, Any]:
    """Return what figures must be read with."""
    postgres = subprocess.run(
        ["sh", "-c", "/usr/lib/postgresql/*/bin/postgres --version"], capture_output=True, text=True, check=False
    )
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "postgres": postgres.stdout.strip(),
        "load": os.getloadavg()[0],
    }


def measure(place: Path, count: int, mib: int, rounds: int) -> dict[str, Any]:
    """Measure everything, engines in turn."""
    one = sample(place / "sample")
    rows: dict[str, dict[str, list[float]]] = {}
    server = Server(fsync=True, on_disk=True)
    try:
        for _ in range(rounds):
            for writers in (1, 4):
                for engine, given in (("sqlite", on_sqlite(place)), ("postgres", on_postgres(place, server))):
                    with given as state:
                        for key, value in record(state, one, count, writers).items():
                            name = f"{engine}, {writers} writers"
                            rows.setdefault(name, {}).setdefault(key, []).append(value)
    finally:
        server.close()
    return {
        "machine": machine(),
        "bytes": {
            "entry": len(json.dumps(one.body)),
            "evidence": sum(map(len, one.evidence)),
            "row": len(json.dumps(one.data)),
        },
        "record": {
            name: {key: round(statistics.median(values), 1) for key, values in found.items()}
            for name, found in rows.items()
        },
        "objects": objects(place, mib, rounds),
        "load_after": os.getloadavg()[0],
    }


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", type=Path, default=Path("/var/tmp"))
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir=given.place))
    place.chmod(0o755)
    try:
        found = measure(place, given.submissions, given.mib, given.rounds)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    folder = Path(__file__).resolve().parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "fleet_parts.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
