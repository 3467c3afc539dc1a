"""A queue of tasks for tests: its schema in a database, workers in this process and in ones that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from acceptd.fleet.holding import Watch
from acceptd.fleet.task import Cancel, FleetTask
from acceptd.fleet.taskworker import TaskWorker

PATIENCE = 60.0
ROLES = ("acceptd_intake", "acceptd_worker", "acceptd_promoter")


class Seen:
    """A handler that notes what it is given and says what it was told to; ``hold`` keeps it busy."""

    def __init__(self, answer: Callable[[FleetTask], Any] = lambda _: None) -> None:
        self.calls: queue.Queue[FleetTask] = queue.Queue()
        self.all: list[FleetTask] = []
        self.cancels: queue.Queue[str] = queue.Queue()
        self.go = threading.Event()
        self.go.set()
        self.answer = answer

    def __call__(self, task: FleetTask, cancel: Cancel) -> Any:
        self.all.append(task)
        self.calls.put(task)
        told = threading.Event()
        cancel.on_set(lambda _: told.set())
        while not self.go.wait(0.02):
            if told.is_set():
                self.cancels.put(cancel.reason)
                cancel.check()
        return self.answer(task)

    def next(self, seconds: float = PATIENCE) -> FleetTask:
        """Wait for the next call."""
        return self.calls.get(timeout=seconds)

    def nothing(self, seconds: float = 0.5) -> bool:
        """Whether nothing comes for a while."""
        with contextlib.suppress(queue.Empty):
            self.calls.get(timeout=seconds)
            return False
        return True


class Ends:
    """Hears how tasks ended."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[FleetTask, str]] = queue.Queue()

    def __call__(self, task: FleetTask, end: str) -> None:
        self.queue.put((task, end))

    def next(self) -> tuple[str, str]:
        """Wait for the next end; return the submission and how it ended."""
        task, end = self.queue.get(timeout=PATIENCE)
        return task.submission, end


@contextlib.contextmanager
def working(
    url: str, queues: list[str], handlers: dict[Any, Any], slots: int = 2, **more: Any
) -> Iterator[TaskWorker]:
    """Run a worker in this process, quick of beat; stop it at the end, and cancel what it still does."""
    options: dict[str, Any] = {"beat_seconds": 0.2, "poll_seconds": 0.5, "back_off": 0.05, **more}
    worker = TaskWorker(url, queues, slots, handlers, **options)
    worker.start()
    try:
        assert worker.connected.wait(PATIENCE)
        yield worker
    finally:
        worker.stop(0)


def watch(seconds: float = 1.0, **more: Any) -> Watch:
    """Return a watch that takes a worker for dead soon."""
    return Watch(seconds, **more)


class Process:
    """A worker in a process of its own, whose handler tells on its output, and ends when told on its input."""

    def __init__(self, url: str, queue_name: str, **more: Any) -> None:
        options = {"beat_seconds": 0.2, "poll_seconds": 0.5, "back_off": 0.05, **more}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fleet.tasks_process", url, queue_name, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> list[str]:
        """Return the next line that it tells, in words; empty when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def go(self) -> None:
        """Let its handler end."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def close(self) -> None:
        """End it, however it stands."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
        self._process.wait(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
