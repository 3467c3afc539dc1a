"""Admission and order of work: bounded, fair between teams, no expired submission ever starts.

In-process: the seam where a fleet's queue will stand. What is queued here is also durable in the
record (`acceptd/record/queue.py`); after a kill the daemon offers it again.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

FULL: Final = "the queue is full"


@dataclass(frozen=True, slots=True)
class Task:
    """One submission waiting for a worker.

    ``deadline`` is a :func:`time.monotonic` time; past it ``expired`` is called in place of ``run``.
    """

    id: str
    team: str
    deadline: float
    run: Callable[[], None] = field(compare=False)
    expired: Callable[[], None] = field(compare=False)


class Rotation:
    """Which task is next: one team after the other, first come first served within a team. Pure."""

    def __init__(self) -> None:
        self._teams: collections.OrderedDict[str, collections.deque[Task]] = collections.OrderedDict()
        self._ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, task: Task) -> bool:
        """Queue a task; False when its id waits already."""
        if task.id in self._ids:
            return False
        self._ids.add(task.id)
        self._teams.setdefault(task.team, collections.deque()).append(task)
        return True

    def take(self) -> Task | None:
        """Return the next task, or None."""
        if not self._teams:
            return None
        team, waiting = self._teams.popitem(last=False)
        task = waiting.popleft()
        self._ids.discard(task.id)
        if waiting:
            self._teams[team] = waiting  # to the end: the other teams come first
        return task


class Workers:
    """A fixed number of threads that work through a :class:`Rotation`."""

    def __init__(self, count: int, *, limit: int, on_error: Callable[[Task, BaseException], None]) -> None:
        self._rotation = Rotation()
        self._condition = threading.Condition()
        self._limit = limit
        self._on_error = on_error
        self._stopping = False
        self._active: set[str] = set()
        self._threads = [
            threading.Thread(target=self._loop, name=f"worker-{n}", daemon=True) for n in range(count)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def offer(self, task: Task) -> bool:
        """Queue a task; False when it waits or runs already, or the queue is full."""
        with self._condition:
            if self._stopping or len(self._rotation) >= self._limit or task.id in self._active:
                return False
            added = self._rotation.add(task)
            self._condition.notify()
            return added

    @property
    def depth(self) -> int:
        """How many wait."""
        with self._condition:
            return len(self._rotation)

    @property
    def active(self) -> int:
        """How many are being worked."""
        with self._condition:
            return len(self._active)

    def idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits and nothing runs; False when ``timeout`` seconds were not enough."""
        with self._condition:
            return self._condition.wait_for(lambda: not len(self._rotation) and not self._active, timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more, let what runs finish; False when ``timeout`` seconds were not enough."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        limit = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(None if limit is None else max(0.0, limit - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _next(self) -> Task | None:
        with self._condition:
            self._condition.wait_for(lambda: self._stopping or len(self._rotation))
            task = None if self._stopping else self._rotation.take()
            if task is not None:
                self._active.add(task.id)
            return task

    def _loop(self) -> None:
        while (task := self._next()) is not None:
            try:
                if time.monotonic() > task.deadline:
                    task.expired()
                else:
                    task.run()
            except BaseException as error:  # noqa: BLE001 - one submission must not end the worker
                self._on_error(task, error)
            finally:
                with self._condition:
                    self._active.discard(task.id)
                    self._condition.notify_all()
