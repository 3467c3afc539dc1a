"""Live stages for whoever waits: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.status import Status

from acceptd.cli.common import progress_console
from acceptd.report.escape import line
from acceptd.work.progress_file import Now, elapsed

QUIET_SECONDS: Final = 1.0
"""Elsewhere than on a terminal nothing is said of a wait that is over sooner."""


class Stages:
    """A context manager on standard error. ``running``: a daemon holds the state."""

    def __init__(self, team: str, drop: str, *, running: bool) -> None:
        self._team, self._running = team, running
        self._console = progress_console()
        self._what = f"{line(team, 64)}/{line(drop, 120)}"
        self._last = self._first = f"{self._what}: dropped" + (
            "" if running else "; no daemon is running, it waits until one does"
        )
        self._began = time.monotonic()
        self._status: Status | None = None
        if self._console.is_terminal:
            self._status = self._console.status(self._first)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        elif not self._running:
            self._console.print(self._first, soft_wrap=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, now: Now | None) -> None:
        """Say what is done now, and for how long; nothing new where nobody tells."""
        words = self._first if now is None else f"{self._what}: {line(now.words(self._team), 200)}"
        if self._status is not None:
            # What nobody tells any more may be between two stages: the last word stays.
            words = self._last if now is None else words
            self._last = words
            took = f" {elapsed(now):.1f} s" if now is not None and now.stage else ""
            self._status.update(f"{words}{took}")
        elif now is not None and words != self._last and time.monotonic() - self._began > QUIET_SECONDS:
            self._last = words
            self._console.print(words, soft_wrap=True)
