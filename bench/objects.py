"""What the object store costs beside a plain copy with sha256: upload, fetch, a use of the cache; paired, A B A B.

``python -m bench.objects [--rounds 5] [--gib 1.5] [--place DIR]``: a tiny bundle (the size of the README's), one
of 20 MB and one of so many GiB, into a directory and into moto, which is no measure of a real server: what counts
there is the processor time of this process, which the table has apart. The page cache is warm throughout.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from acceptd.intake.seal import seal_directory
from acceptd.objectstore.cache import BundleCache
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.limits import LimitsTable
from acceptd.sealed_facts import Sealed
from tests.fleet.s3 import ENVIRONMENT, S3


def bundle(home: Path, size: int) -> tuple[Path, Sealed]:
    """Seal a bundle of five small files and one of so many bytes."""
    source = home / f"source-{size}"
    source.mkdir()
    for number in range(5):
        (source / f"small{number}.bin").write_bytes(os.urandom(200))
    block = os.urandom(1 << 20)
    with (source / "model.onnx").open("wb") as file:
        for number in range(-(-size // len(block))):
            file.write((number.to_bytes(8, "big") + block[8:])[: size - number * len(block)])
    return home / f"sealed-{size}", seal_directory(source, home / f"sealed-{size}", LimitsTable())


def plain(source: Path, target: Path) -> None:
    """Copy a bundle as a script would: each file by shutil with fsync, then its SHA-256 from what was written."""
    target.mkdir()
    for one in source.iterdir():
        shutil.copyfile(one, target / one.name)
        with (target / one.name).open("rb") as file:
            hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return (seconds, seconds of processor time of this process) of one run."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    spent, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_round(home: Path, directory: Path, sealed: Sealed, objects: Objects) -> dict[str, tuple[float, float]]:
    """Do each thing once, the plain copy before and after; leave nothing behind."""
    found = {"plain": timed(lambda: plain(directory, home / "plain"))}
    shutil.rmtree(home / "plain")
    found["put"] = timed(lambda: objects.put_bundle("sealed", directory, sealed))
    found["put again"] = timed(lambda: objects.put_bundle("sealed", directory, sealed))
    found["fetch"] = timed(lambda: objects.fetch_bundle("sealed", sealed.digest, home / "fetched"))
    shutil.rmtree(home / "fetched")
    cache = BundleCache(home / "cache", objects, 8 << 30)
    for name in ("cache, fetched", "cache, there"):

        def use() -> None:
            with cache.hold("sealed", sealed.digest):
                pass

        found[name] = timed(use)
    cache.close()
    shutil.rmtree(home / "cache")
    for one in list(objects.remote.listed("")):
        if not one.key.startswith("probe/"):
            objects.remote.remove(one.key)
    again = timed(lambda: plain(directory, home / "plain"))
    shutil.rmtree(home / "plain")
    first = found["plain"]
    return found | {"plain": ((first[0] + again[0]) / 2, (first[1] + again[1]) / 2)}


def show(name: str, rounds: list[dict[str, tuple[float, float]]]) -> None:
    """Print medians, and their ratios to the plain copy of the same round."""
    print(f"\n{name}: medians of {len(rounds)}")
    print(f"  {'':16} {'seconds':>9} {'x plain':>8} {'cpu s':>8} {'x plain':>8}")
    for key in rounds[0]:
        wall, cpu = (statistics.median(one[key][index] for one in rounds) for index in (0, 1))
        ratios = [
            statistics.median(one[key][index] / max(one["plain"][index], 1e-6) for one in rounds)
            for index in (0, 1)
        ]
        print(f"  {key:16} {wall:9.4f} {ratios[0]:8.2f} {cpu:8.3f} {ratios[1]:8.2f}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gib", type=float, default=1.5)
    parser.add_argument("--place")
    chosen = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    sizes = {"tiny": (309, chosen.rounds * 4), "20 MB": (20_000_000, chosen.rounds)}
    if chosen.gib:
        sizes[f"{chosen.gib:g} GiB"] = (round(chosen.gib * (1 << 30)), max(1, chosen.rounds // 2))
    server = S3()
    try:
        with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir=chosen.place) as name:
            home = Path(name)
            bucket = ObjectsTable(url=f"s3://{server.bucket()}/bench", endpoint=server.endpoint)
            for title, table in (("directory", ObjectsTable()), ("S3 (moto)", bucket)):
                with open_objects(table, home) as objects:
                    objects.check()
                    for label, (size, rounds) in sizes.items():
                        directory, sealed = bundle(home, size)
                        one_round(home, directory, sealed, objects)  # warm
                        show(
                            f"{title}, {label}",
                            [one_round(home, directory, sealed, objects) for _ in range(rounds)],
                        )
                        shutil.rmtree(directory)
                        shutil.rmtree(home / f"source-{size}")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"\nmost resident memory of this process: {peak:.0f} MiB")
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
