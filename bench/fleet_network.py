"""What one submission moves between the machines of a fleet: bytes on each node's cable, for small and for large
models.

Usage: python -m bench.fleet_network [--small 30] [--large 4] [--mib 64]   (root: each node has a network of its
own)

Counted by the kernel on the cables (tests/fleet/network.py), database and object store together. Each bundle is a
model of its own and is accepted and promoted. The same without drops, for as long, is taken off: heartbeats and
looks.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from examples import evidence_classifier as classifier
from tests.fleet import embedded, network
from tests.fleet.chaos import ground
from tests.fleet.house import Fleet
from tests.fleet.mixed import ACCEPTED, Piece, write_chain
from tests.fleet.network import Network
from tests.fleet.s3 import Proxy

TEAM: Final = "atlas"
WIDTH: Final = 2048
"""Of a large model's layers: 16 MiB of weights each."""


def small(number: int) -> Piece:
    """Return a bundle of some KB."""
    model = f"{TEAM}/small-{number}"
    write = partial(classifier.write_bundle, version="1.0.0", model_id=model, sets=3)
    return Piece(f"small-{number}", TEAM, 1, "valid", write, ACCEPTED, model)


def large(number: int, mib: int) -> Piece:
    """Return a bundle with so many MiB of weights."""
    model = f"{TEAM}/large-{number}"
    write = partial(write_chain, model=model, width=WIDTH, layers=max(1, mib // 16), seed=number)
    return Piece(f"large-{number}", TEAM, 1, "external", write, ACCEPTED, model)


def moved(fleet: Fleet, net: Network, proxy: Proxy, pieces: list[Piece]) -> dict[str, dict[str, float]]:
    """Return the bytes that each node sent and received for one submission, less what it does in idleness.

    ``requests`` are those to the object store, by method, of all nodes.
    """
    start = time.monotonic()
    proxy.seen.clear()
    before = {name: net.counted(name) for name in fleet.nodes}
    fleet.judged(pieces)
    fleet.settled()
    spent = time.monotonic() - start
    asked = collections.Counter(one.method for one in proxy.seen)
    middle = {name: net.counted(name) for name in fleet.nodes}
    time.sleep(spent)  # what idleness costs in the same time
    after = {name: net.counted(name) for name in fleet.nodes}
    found: dict[str, dict[str, float]] = {
        "requests": {method: round(count / len(pieces), 1) for method, count in sorted(asked.items())}
    }
    for name in fleet.nodes:
        role = fleet[name].role
        for index, way in enumerate(("sent", "received")):
            idle = after[name][index] - middle[name][index]
            own = middle[name][index] - before[name][index] - idle
            found.setdefault(role, {}).setdefault(way, 0)
            found[role][way] += own // len(pieces)
    return found


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=30)
    parser.add_argument("--large", type=int, default=4)
    parser.add_argument("--mib", type=int, default=64)
    given = parser.parse_args()
    if not network.able():
        parser.error("it takes root, who may make network namespaces")
    network.alone("bench.fleet_network", sys.argv[1:])
    home = Path(tempfile.mkdtemp(prefix="acceptd-bench-", dir="/var/tmp"))
    home.chmod(0o755)  # cells walk through it
    try:
        template = embedded.initialise(home / "template")
        with ground(home / "fleet", template, workers=1) as (fleet, storm):
            assert storm.network is not None
            assert storm.proxy is not None
            one = partial(moved, fleet, storm.network, storm.proxy)
            fleet.start()
            fleet.judged([small(number) for number in range(1000, 1006)])  # warm-up
            fleet.settled()
            found = {
                "mib": given.mib,
                "small": one([small(number) for number in range(given.small)]),
                "large": one([large(number, given.mib) for number in range(given.large)]),
            }
            fleet.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    folder = Path(__file__).resolve().parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "fleet_network.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
