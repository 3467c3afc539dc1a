"""A worker of the queue in a process of its own, for tests that kill or pause it; see tasks_world.Process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import structlog

from acceptd.fleet.task import Cancel, FleetTask
from acceptd.fleet.taskworker import TaskWorker


def tell(*words: object) -> None:
    """Say something on the output: one line in one piece, whichever thread says it."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(url: str, queue: str, options: str) -> None:
    """Work ``queue``; each task waits for a line of the input."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    def examine(task: FleetTask, cancel: Cancel) -> None:
        tell("began", task.submission, task.deaths)
        cancel.on_set(lambda reason: tell("cancelled", task.submission, reason))
        sys.stdin.readline()
        tell("ended", task.submission)

    more = json.loads(options)
    former = more.pop("former", "")
    worker = TaskWorker(
        url, [queue], 1, {"examine": examine}, settled=lambda task, end: tell("settled", task.submission, end),
        former=Path(former) if former else None, **more,
    )  # fmt: skip
    worker.start()
    worker.thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
