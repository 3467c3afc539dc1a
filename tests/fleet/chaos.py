"""Storms on a fleet of real processes, each from a seed: every drop ends with one verdict, and nothing is promoted
twice.

``python -m tests.fleet.chaos`` (make chaos-fleet). As root each node has a network of its own, whose cable is
pulled now and then; as an ordinary user everything but that. The first thing that does not hold ends it, and what
is left of that fleet stays to be looked at.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fleet import embedded, network
from tests.fleet.house import Fleet
from tests.fleet.mixed import Piece, mixed, waves
from tests.fleet.postgres import SUPERUSER, Server
from tests.fleet.s3 import ENVIRONMENT, S3, Proxy
from tests.fleet.storm import Storm, Weather

HEALING = 240.0
"""Seconds within which a healed fleet has answered what there is: more than any of its timeouts."""


@dataclass
class Weathered:
    """What came of one storm."""

    seed: int
    drops: int
    acts: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)
    inconclusive: list[str] = field(default_factory=list)
    """Why: reasons, with how often each."""
    fell: list[tuple[str, int | None, str]] = field(default_factory=list)
    """Nodes that ended by themselves, to be started again by a service manager."""
    healed_s: list[float] = field(default_factory=list)
    """From the end of each storm to its last verdict."""
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def ground(home: Path, template: Path, workers: int = 3, wires: bool = True) -> Iterator[tuple[Fleet, Storm]]:
    """Give a fleet and the storm that is made for it: PostgreSQL, S3 behind a proxy that fails, cables where
    wanted."""
    with ExitStack() as stack:
        net = None
        hosts = ("127.0.0.1", "127.0.0.1")
        settings = {}
        if wires:
            net = network.Network()
            stack.callback(net.close)
            hosts = (network.DATABASE, network.OBJECTS)
            settings = {"listen_addresses": f"127.0.0.1,{hosts[0]}"}
        server = Server(fsync=True, settings=settings)
        stack.callback(server.close)
        if wires:
            with (server.data / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {network.SUBNET} trust\n")
            server.execute("SELECT pg_reload_conf()", user=SUPERUSER)
        s3 = S3(hosts[1])
        stack.callback(s3.close)
        proxy = Proxy(s3)
        stack.callback(proxy.close)

        def inside(name: str) -> Sequence[str]:
            if net is None:
                return ()
            net.join(name)
            return net.inside(name)

        objects = [f'url = "s3://{s3.bucket()}/fleet"', f'endpoint = "{proxy.endpoint}"']
        fleet = Fleet(
            home, template, server=server, host=hosts[0], objects=objects, environment=ENVIRONMENT,
            workers=workers, inside=inside,
        )  # fmt: skip
        stack.callback(fleet.close)
        yield fleet, Storm(fleet, random.Random(0), server, proxy, net)


def weather(
    home: Path,
    seed: int,
    count: int,
    acts: int,
    say: Callable[[str], None],
    wires: bool = True,
    only: Sequence[str] = (),
) -> Weathered:
    """Drop ``count`` bundles while it storms, ``acts`` times in all; heal after each wave and wait for its
    verdicts."""
    began = time.monotonic()
    pieces = mixed(count, seed, heavy=False)
    found = Weathered(seed, len(pieces))
    template = embedded.initialise(home / "template")
    with ground(home / "fleet", template, wires=wires) as (fleet, storm):
        storm.chance, storm.only = random.Random(seed), only
        fleet.start()
        each = list(waves(pieces))
        stormy = Weather(storm, acts // max(1, len(each) - 1), say)
        dropped = 0
        for number, wave in enumerate(each):
            dropped += len(wave)
            if number == 0:  # the one release that the others are compared with
                fleet.judged(wave)
                continue
            stormy.over([], _drip(fleet, wave, stormy.acts))
            healed = time.monotonic()
            fleet.await_count(dropped, HEALING)
            found.healed_s.append(round(time.monotonic() - healed, 1))
            say(f"healed: {dropped} verdicts, the last {found.healed_s[-1]} s after the storm")
        fleet.settled(HEALING)
        fleet.stop()
        book = fleet.book()
        found.acts = dict(sorted(storm.done.items()))
        found.verdicts = dict(collections.Counter(one.verdict for one in book.verdicts))
        reasons = collections.Counter(one.reason for one in book.verdicts if one.verdict == "inconclusive")
        found.inconclusive = [f"{number} x {reason}" for reason, number in reasons.most_common()]
        found.fell = fleet.fell
        found.broken = fleet.broken(pieces)
    found.seconds = round(time.monotonic() - began, 1)
    return found


def _drip(fleet: Fleet, wave: Sequence[Piece], acts: int) -> Callable[[int], Sequence[str]]:
    """Return what drops a wave in as many portions as there are acts, and the rest at the end."""
    size = -(-len(wave) // (acts + 1))
    return lambda number: [fleet.boxes.drop(piece) for piece in wave[number * size : (number + 1) * size]]


def main() -> int:
    """Let it storm once for each seed; 1 where a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one, which is printed")
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds, one after another")
    parser.add_argument("--count", type=int, default=60, help="drops of each")
    parser.add_argument("--acts", type=int, default=18, help="acts of each")
    parser.add_argument("--only", nargs="*", default=[], help="kinds of acts, where not all: 'cable pulled'")
    parser.add_argument("--directory", type=Path, help="make the states here")
    chosen = parser.parse_args()
    wires = network.able()
    if wires:
        network.alone("tests.fleet.chaos", sys.argv[1:])
    else:
        print("no right to make network namespaces: no cable is pulled", file=sys.stderr)
    first = chosen.seed or random.SystemRandom().randrange(1, 1 << 31)

    def say(words: str) -> None:
        print(f"  {words}", file=sys.stderr, flush=True)

    for seed in range(first, first + chosen.seeds):
        print(f"seed {seed}", file=sys.stderr, flush=True)
        home = Path(tempfile.mkdtemp(prefix="acceptd-chaos-", dir=chosen.directory or "/var/tmp"))
        home.chmod(0o755)  # cells walk through it
        found = weather(home, seed, chosen.count, chosen.acts, say, wires, chosen.only)
        print(json.dumps(asdict(found), indent=1), flush=True)
        if found.broken:
            print(f"what is left of it lies in {home}", file=sys.stderr)
            return 1
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
