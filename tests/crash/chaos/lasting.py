"""A fault that lasts for a while beside a daemon at work: what every kind of it has in common."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from tests.crash.chaos.kills import _done
from tests.crash.chaos.town import Town

Fault = Callable[[Town, int], AbstractContextManager[object]]
"""Strikes the process that it is given, in the block."""
LONGEST: Final = 4.0
"""Seconds that a fault lasts, at most, once the daemon came to it; it ends sooner with the daemon, or its work."""
MOST: Final = 30.0
"""Seconds that a daemon is given to come to it."""


def strike(
    town: Town, fault: Fault, *, at_start: bool, before: bool = False, hit: Callable[[], bool] = lambda: True
) -> str:
    """Let a fault last while a daemon works, or from its very first step; return what the daemon made of it.

    What is dropped is written before: who drops has no fault. ``before``: he drops before it too, since he
    would meet it. ``hit`` says whether the daemon came to the fault yet.
    """
    town.up()
    if at_start:
        town.drop_some()
        time.sleep(town.chance.uniform(0.0, town.seconds * 0.5))
        town.down()
        with behind_gate(town) as (pid, opened), fault(town, pid):
            opened()
            _last(town, hit)
    else:
        assert town.daemon is not None
        made = town.staged(town.chance.randrange(1, 3))
        if before:
            _drop(town, made)
        with fault(town, town.daemon.pid):
            if not before:
                _drop(town, made)
            _last(town, hit)
    return ended(town)


def ended(town: Town) -> str:
    """Return how a daemon has taken a fault; raise AssertionError where it ended without saying why in a line."""
    assert town.daemon is not None
    if not town.daemon_ended():
        return "went on"
    code = town.daemon.returncode
    if town.mute:
        return f"ended with {code}; what it said may have been refused as well"
    assert town.said_why(), f"the daemon ended with {code} and did not say why: {town.tail()}"
    town.last_words = town.tail()
    return f"ended with {code} and said why"


def _drop(town: Town, made: list[Callable[[], None]]) -> None:
    for drop in made:
        drop()
    if town.chance.random() < 0.4:
        town.command()


def _last(town: Town, hit: Callable[[], bool]) -> None:
    lasts, began, since = town.chance.uniform(0.3, LONGEST), time.monotonic(), 0.0
    while not town.daemon_ended() and time.monotonic() < began + MOST:
        if since == 0.0 and hit():
            since = time.monotonic()
        if (since and time.monotonic() > since + lasts) or _done(town):
            return
        time.sleep(0.02)


@contextmanager
def behind_gate(town: Town) -> Iterator[tuple[int, Callable[[], None]]]:
    """Start a daemon that waits before its first step; give its process id, and what lets it begin."""
    gate: Path = town.home / "gate"
    os.mkfifo(gate)
    town.begin(gate=gate)
    assert town.daemon is not None

    def opened() -> None:
        gate.open("wb").close()

    try:
        yield town.daemon.pid, opened
    finally:
        gate.unlink()
