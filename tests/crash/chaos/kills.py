"""kill -9 of a daemon at work: at named places, at random moments, while it starts, and of its cell alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

import psutil

from tests.crash.chaos import invariants
from tests.crash.chaos.town import Town
from tests.crash.test_daemon_kill import PLACES

Act = Callable[[Town], str]
"""Does one thing to a town at work and leaves it as a fault does that is over; returns in a few words what came of
it. The daemon may have ended, or still be there."""

AT: Final = (
    *(place for places in PLACES.values() for place in places),
    "record.append.after-insert", "record.append.before-commit", "record.append.after-commit",
    "record.checkpoint.before-write", "record.checkpoint.after-write",
    "files.durable", "files.created", "files.written", "files.synchronised", "files.linked", "files.renamed",
    "files.removed", "release.promote.begun", "release.promote.linked", "release.directory.made",
    "release.store.inventory", "lifecycle.judged.promoted", "record.queue.judged.before-commit",
)  # fmt: skip
"""Failpoints of one submission's way through the daemon; of those that it passes often, any passing."""
_OFTEN: Final = ("files.", "record.append.", "record.checkpoint.")


def at_failpoint(town: Town) -> str:
    """Kill the daemon at a named place of :mod:`acceptd.record.failpoint`."""
    place = town.chance.choice(AT)
    if place.startswith(_OFTEN):
        place += f"@{town.chance.randrange(1, 9)}"
    town.up()
    town.arm(place)
    town.drop_some()
    _commands(town)
    town.until(lambda: town.daemon_ended() or _done(town), "the failpoint, or the end of the work")
    if town.daemon_ended():
        assert town.daemon is not None
        assert town.daemon.returncode == -9, f"{place}: it ended with {town.daemon.returncode}: {town.tail()}"
    word = "died there" if town.daemon_ended() else "was not passed: killed when all was done"
    town.kill_orders() if town.chance.random() < 0.5 else town.ended_orders()
    town.down()
    return word


def at_random(town: Town) -> str:
    """Kill the daemon, and now and then the commands beside it, at a random moment of the work."""
    town.up()
    town.drop_some()
    _commands(town)
    time.sleep(town.chance.uniform(0.0, town.seconds * 1.1))
    return _kill(town, "at work")


def at_start(town: Town) -> str:
    """Kill the daemon at a random moment of its start, again and again, with something to take up."""
    town.up()
    town.drop_some()
    time.sleep(town.chance.uniform(0.0, town.seconds * 0.6))
    town.down()
    times = town.chance.randrange(1, 9)
    for _ in range(times):
        invariants.standing(town)
        if town.chance.random() < 0.3:
            town.drop_some(1)
        town.begin()
        time.sleep(town.chance.uniform(0.0, town.starting * 1.2))
        town.down()
    town.ended_orders()
    return f"at work, and {times} times at its start"


def its_cell(town: Town) -> str:
    """Kill processes below the daemon (cells, comparer, sealer), as the kernel does when memory is short."""
    town.up()
    town.drop_some()
    time.sleep(town.chance.uniform(0.0, town.seconds * 0.8))
    assert town.daemon is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(town.daemon.pid).children(recursive=True)
        for one in town.chance.sample(below, min(len(below), town.chance.randrange(1, 4))):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    return "killed"


def _kill(town: Town, when: str) -> str:
    assert town.daemon is not None
    word = "ready" if town.ready() else "not ready yet"
    both = town.chance.random() < 0.4
    if both:
        town.kill_orders()
    town.down()
    town.ended_orders()
    return f"{when}, {word}"


def _commands(town: Town) -> None:
    for _ in range(2):
        if town.chance.random() < 0.5:
            town.command()


def _done(town: Town) -> bool:
    return (
        all(order.process.poll() is not None for order in town.orders)
        and town.answered() >= len(town.dropped)
        and not list((town.state / "sealed").iterdir())
    )


KILLS: Final[dict[str, tuple[int, Act]]] = {
    "kill -9 at a random moment": (7, at_random),
    "kill -9 at a failpoint": (5, at_failpoint),
    "kill -9 while it starts": (8, at_start),
}
"""With the share of each; each SIGKILL of a daemon is counted, also the several of one act."""
