"""``make chaos``: so many kills and so many faults, one after another, and after each of them every promise.

A seed gives the same acts in the same order; how far the daemon is at a moment depends on the machine. What came
of it is a line for each kind and a JSON file, which is written anew after each act: it can be ended at any time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests import commands
from tests.crash.chaos import disk, invariants
from tests.crash.chaos.faults import FAULTS
from tests.crash.chaos.kills import KILLS, Act
from tests.crash.chaos.lasting import ended
from tests.crash.chaos.tally import Tally
from tests.crash.chaos.town import EndedError, Town, adopt_orphans
from tests.release_world import memory_directory
from tests.warm_database import warm_database

DROPS = 40
"""Of one town; then there is a new one, so that no check has to read ever more."""
Kind = tuple[str, Act]


def plan(chance: random.Random, kills: int, faults: int, only: list[str], *, each: bool = False) -> list[Kind]:
    """Return what is done, in order: each kind by its share, mixed; ``each``: every kind once."""
    if each:
        named = {
            name: kind for name, kind in {**KILLS, **FAULTS}.items() if any(word in name for word in only or [""])
        }
        return [(name, act) for name, (_, act) in named.items()]
    chosen: list[Kind] = []
    for count, kinds in ((kills, KILLS), (faults, FAULTS)):
        mine = {name: kind for name, kind in kinds.items() if not only or any(word in name for word in only)}
        if not mine:
            continue
        whole = sum(share for share, _ in mine.values())
        parts = {name: count * share // whole for name, (share, _) in mine.items()}
        for name in chance.sample(list(mine), count - sum(parts.values())) if count > sum(parts.values()) else []:
            parts[name] += 1
        chosen += [(name, mine[name][1]) for name, number in parts.items() for _ in range(number)]
    chance.shuffle(chosen)
    return chosen


@contextmanager
def towns(place: Path | None, chance: random.Random, own: bool) -> Iterator[Town]:
    """Give a town of its own disk; it is gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="acceptd-chaos-", dir=place)) if place else memory_directory()
    home.chmod(0o755)  # cells walk through it
    where = home / "disk"
    where.mkdir()
    try:
        with disk.mounted(where) if own else disk.plain():
            town = Town(home, where, chance, DROPS)
            town.ours = frozenset(one.pid for one in psutil.Process().children())
            try:
                yield town
            finally:
                town.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def once(town: Town, act: Act) -> tuple[str, str]:
    """Do one act to a town and look at every promise; return what came of it and what does not hold, else ""."""
    word, town.mute = "not finished", False
    try:
        try:
            word = act(town)
        except disk.NotHereError as why:
            word = f"not done: {why}"
        _buried(town)
        invariants.standing(town)
        try:
            town.up()
            town.settled()
        except EndedError:  # what a fault began: the next one is ready, and finishes
            word += f", later {ended(town)}"
            _buried(town)
            invariants.standing(town)
            town.up()
            town.settled()
        invariants.in_line(town)
    except Exception as error:
        return word, f"{error}\n{traceback.format_exc(limit=-5)}"
    return word, ""


def _buried(town: Town) -> None:
    if town.daemon is not None and town.daemon_ended():
        town.alone()
        town.daemon = None


def kept(town: Town, seed: int, number: int) -> Path:
    """Copy what is left of a town to where it stays to be looked at."""
    town.close()
    place = Path(tempfile.mkdtemp(prefix=f"acceptd-chaos-{seed}-{number}-", dir="/var/tmp"))
    subprocess.run(["cp", "-a", str(town.home), str(place)], check=False)
    return place


def run(
    tally: Tally, seed: int, kills: int, acts: list[Kind], place: Path | None, say: Callable[[str], None]
) -> None:
    """Do all acts in one town after another; a town in which something broke is left, and the next one made."""
    chance, own = random.Random(seed), disk.able()
    waiting = list(acts)
    while waiting:
        with towns(place, chance, own) as town:
            while waiting and len(town.dropped) < DROPS and not town.clock_was_set:
                name, act = waiting.pop(0)
                if name in KILLS and tally.kills >= kills:
                    continue
                began = time.monotonic()
                word, wrong = once(town, act)
                tally.add(name, word, wrong, town)
                words, town.last_words = f" [{town.last_words}]" if town.last_words else "", ""
                took = f"{time.monotonic() - began:.1f} s"
                say(f"[{tally.kills} kills, act {tally.total}] {name}: {word}; {took}{words}")
                if wrong:
                    say(f"  BROKEN {wrong}")
                    say(f"  what is left of it lies in {kept(town, seed, tally.total)}")
                    break


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    """Do what is asked; 1 where a promise did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="words of the kinds that are wanted, where not all")
    parser.add_argument("--each", action="store_true", help="every kind once, whatever its share")
    parser.add_argument("--directory", type=Path, help="make the states here; else in memory")
    parser.add_argument("--json", type=Path, default=Path(".cache/chaos.json"), help="what came of it")
    chosen = parser.parse_args()
    disk.alone("tests.crash.chaos", sys.argv[1:])
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before its end"))
    tally = Tally(chosen.seed, chosen.json)
    acts = plan(random.Random(chosen.seed), chosen.kills, chosen.faults, chosen.only, each=chosen.each)
    try:
        with warm_database():
            commands.run("--version")  # the process that starts commands is there before any is looked for
            run(tally, chosen.seed, chosen.kills, acts, chosen.directory, _say)
    finally:
        for one in psutil.Process().children(recursive=True):  # ended in the middle of something
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        print("\n".join(tally.lines()), flush=True)
    return int(tally.broken > 0)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
