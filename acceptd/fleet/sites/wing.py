"""A wing of a node: what the node does in one role. A node has one, or all three."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final, Protocol

from acceptd.errors import NoThreadError
from acceptd.fleet.taskworker import TaskWorker
from acceptd.supervisor.pulse import Watched
from acceptd.threads import Thread

_BEGINS: Final = 5.0
"""Seconds that a worker of the task queue may need to connect before that is told."""


class Wing(Protocol):
    """The work of one role. Called from the main loop; see :class:`acceptd.site.Site`, which it is a part of."""

    slots: int
    """Tasks at once."""

    @property
    def queues(self) -> list[str]:
        """The queues that it takes from."""

    def open(self, stack: ExitStack) -> None:
        """Open what the role needs; ``stack`` closes it."""

    def begin(self) -> None:
        """Take up what was left, and start."""

    def duties(self) -> list[Callable[[], None]]:
        """Return what is due every few seconds, each to be guarded for itself."""

    def room(self) -> None:
        """Look for what stands still now."""

    def reloaded(self) -> None:
        """Other rules are in force now."""

    def load(self) -> tuple[int, int]:
        """Return how many pieces of work run here, and how many wait here."""

    def take(self, on: bool, /) -> None:
        """Take new work or none: the operator drains the node, or has drained it."""

    def remark(self) -> str:
        """Return what is wrong or unusual, in a few words; empty: nothing."""

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more work; call ``quiet`` when nothing runs any more."""

    def cancel(self) -> int:
        """Cancel what runs; return how much that was."""

    def join(self, seconds: float) -> bool:
        """Wait until what runs has ended; False where ``seconds`` were not enough."""

    def end(self) -> None:
        """Nothing runs any more."""

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""


def beside(work: Callable[[], object], name: str) -> None:
    """Do ``work`` in a thread; in place where none is to be had: an end that blocks is better than none."""
    try:
        Thread(work, name=name).start()
    except NoThreadError:
        work()


class Taking:
    """A worker of the task queue as a wing drains, ends and begins it again.

    ``make`` returns a fresh one; it is told whether no earlier one still works, whose tasks it could take back.
    """

    def __init__(self, make: Callable[[bool], TaskWorker]) -> None:
        self._make = make
        self.worker = make(True)
        self._before: list[TaskWorker] = []
        """Those that take nothing any more and may still work on what they took."""
        self._stopping = False
        self._began = 0.0
        self.taking = True

    def start(self) -> None:
        """Begin to take tasks."""
        self._began = time.monotonic()
        self.worker.start()

    def take(self, on: bool, /) -> None:
        """Take no more tasks, those under way go on; or take some again. Returns at once."""
        if on == self.taking or self._stopping:
            return
        if on:
            self._before = [one for one in self._all if one.thread.is_alive()]
            self.worker = self._make(not self._before)
            self.start()  # where that is not possible now, it is asked for again
        else:
            self.worker.drain()
        self.taking = on

    @property
    def _all(self) -> list[TaskWorker]:
        return [*self._before, self.worker]

    def remark(self) -> str:
        """Say where the queue is away; not of one that begins just now: its connection takes a moment."""
        if not self.taking or self.worker.connected.is_set() or time.monotonic() - self._began < _BEGINS:
            return ""
        return "the task queue cannot be reached"

    def load(self) -> tuple[int, int]:
        """Return how many tasks run; what waits, waits in the database."""
        return sum(len(one.running) for one in self._all), 0

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more tasks; call ``quiet`` when the last one has ended."""
        self._stopping, self.taking = True, False

        def wait() -> None:
            for one in self._all:
                one.drain()
            for one in self._all:
                one.stop(None)
            quiet()

        beside(wait, "tasks-end")

    def cancel(self) -> int:
        """Cancel the tasks that run: they go back into the queue."""
        running, _ = self.load()
        for one in self._all:
            beside(partial(one.stop, 0.0), "tasks-cancel")
        return running

    def join(self, seconds: float) -> bool:
        """Wait for the workers' threads, all of them together for so long."""
        due = time.monotonic() + seconds
        for one in self._all:
            if one.thread.ident is not None:
                one.thread.join(max(0.0, due - time.monotonic()))
        return not any(one.thread.is_alive() for one in self._all)

    def watched(self) -> Iterator[Watched]:
        """Yield the worker's thread, as long as it is to live."""
        if self.taking:
            yield Watched(self.worker.thread)
