"""The sign of life: given by the main loop itself, and only while the threads that matter live and move.

A thread of its own that pinged the watchdog would go on pinging for a daemon whose loop hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from acceptd.supervisor.notify import Notifier
from acceptd.supervisor.turns import Turns
from acceptd.threads import Thread

HANGS_AFTER: Final = 900.0
"""Seconds at one piece of work: an anchor's or a key's command may take minutes, but not a quarter of an hour."""
EXTENSION: Final = 30.0
"""Seconds that a stop asks for at a time: long enough for a busy host, short enough to end with a hung daemon."""
log = structlog.get_logger("acceptd.daemon")


@dataclass(frozen=True, slots=True)
class Watched:
    """A thread that matters; ``turns`` where it tells how long it has been at its work."""

    thread: Thread | threading.Thread
    turns: Turns | None = None

    def ailment(self) -> str:
        """Return what is wrong with it, or an empty string."""
        if not self.thread.is_alive():
            return f"the thread {self.thread.name} has ended"
        if self.turns is not None and (seconds := self.turns.busy_for()) > HANGS_AFTER:
            return f"the thread {self.thread.name} has hung for {seconds:.0f} s"
        return ""


@dataclass(slots=True)
class Pulse:
    """Beats from the main loop alone, at least twice in each interval of the watchdog."""

    notifier: Notifier
    watched: Callable[[], Iterable[Watched]]
    clock: Callable[[], float] = time.monotonic
    _told: str = ""
    _beaten: float = field(default=float("-inf"))

    @property
    def interval(self) -> float:
        """Seconds that the main loop may wait; infinite where nobody counts."""
        return self.notifier.watchdog_seconds / 3 or float("inf")

    def beat(self) -> None:
        """Look at the threads; give the sign of life where all is well, else say once what is not."""
        now = self.clock()
        if now - self._beaten < min(1.0, self.interval / 2):  # many words in a row are one turn
            return
        self._beaten = now
        trouble = next((found for one in self.watched() if (found := one.ailment())), "")
        if trouble and trouble != self._told:
            log.critical("the daemon is not whole: restart it", reason=trouble)
            self.notifier.status(f"not whole: {trouble}")
        self._told = trouble
        if not trouble and self.notifier.watchdog_seconds:
            self.notifier.alive()

    def stopping(self) -> None:
        """Ask for time to end in, and give the sign of life; for a stop that lets work finish."""
        self.notifier.more_time(EXTENSION)
        if self.notifier.watchdog_seconds:
            self.notifier.alive()

    @property
    def trouble(self) -> str:
        """What was wrong at the last beat."""
        return self._told
