"""What a daemon's main loop and the work that it does know of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from acceptd.config import Paths, Settings
from acceptd.metrics.counting import Counting
from acceptd.rules import Rules
from acceptd.supervisor.notify import Notifier
from acceptd.supervisor.pulse import Pulse, Watched


@dataclass(frozen=True, slots=True)
class Helm:
    """What the main loop gives to the site that it runs."""

    paths: Paths
    settings: Settings
    rules: Callable[[], Rules]
    """The rules in force."""
    notifier: Notifier
    count: Counting
    room: Callable[[], None]
    """Has :meth:`Site.room` called soon, from the main loop."""
    end: Callable[[str], None]
    """Ends the daemon: for what makes going on wrong (the log is not what was signed)."""
    beat: Callable[[], None]
    """Gives the sign of life, between two steps of a duty."""


class Site(Protocol):
    """The work of one daemon: everything on one machine, or one role of a fleet. Called from the main loop."""

    def open(self, stack: ExitStack) -> None:
        """Open what the work needs; ``stack`` closes it."""

    def begin(self) -> None:
        """Take up what an earlier daemon left, and start."""

    def shown(self, pulse: Pulse) -> AbstractContextManager[None]:
        """Show figures meanwhile."""

    def duties(self) -> None:
        """Do what is due every few seconds."""

    def room(self) -> None:
        """Work that was turned away may come again."""

    def allow(self, fresh: Rules) -> None:
        """Raise AcceptdError where this site cannot work by these rules."""

    def reloaded(self) -> None:
        """Other rules are in force now."""

    def load(self) -> tuple[int, int]:
        """Return how many pieces of work run, and how many wait."""

    def remark(self) -> str:
        """Return what a service manager is to read beside that; empty: nothing."""

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more work; call ``quiet`` when nothing runs any more."""

    def cancel(self) -> int:
        """Cancel what runs; return how much that was."""

    def join(self, seconds: float) -> bool:
        """Wait until what runs has ended; False where ``seconds`` were not enough."""

    def end(self) -> None:
        """Nothing runs any more: write what is to be written last."""

    def watched(self) -> Iterator[Watched]:
        """Yield the threads without which it looks well and does nothing."""
