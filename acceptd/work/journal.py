"""What the daemon tells about its leases: log lines, rows for those that were given up, and ``work.json``.

Steps come in under the workers' lock and are only noted there; a thread of its own writes. A submission
that ends well costs no write of the ledger, and the file is replaced at most every ``INTERVAL`` seconds.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from acceptd.errors import AcceptdError
from acceptd.supervisor.turns import Turns
from acceptd.threads import Thread
from acceptd.work import snapshot
from acceptd.work.lease import Transition
from acceptd.work.meter import Meter, abnormal

INTERVAL: Final = 0.25
log = structlog.get_logger("acceptd.work")


class Noting(Protocol):
    """Who keeps the steps of leases that were given up: :class:`acceptd.record.leases.Leases`."""

    def note(self, steps: Sequence[dict[str, Any]]) -> None:
        """Write steps in their order."""


class Journal:
    """Listens to an admission."""

    def __init__(self, state: Path, leases: Noting) -> None:
        self._state = state
        self._leases = leases
        self._meter = Meter()
        self._abandoned: dict[int, float] = {}
        self._steps: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self.turns = Turns()
        self.thread = Thread(self._write, name="journal")
        self._show: Callable[[Meter], dict[str, Any]] | None = None
        self._beside: Callable[[], None] = lambda: None

    def start(self, show: Callable[[Meter], dict[str, Any]], *, beside: Callable[[], None] = lambda: None) -> None:
        """Begin to write; ``show`` gives the snapshot, ``beside`` writes what others may read of it."""
        self._show, self._beside = show, beside
        self._changed.set()
        self.thread.start()

    def hear(self, told: Transition) -> None:
        """Take note of one step; quick, since the workers wait meanwhile."""
        self._meter.take(told)
        if abnormal(told):
            since = self._abandoned.setdefault(told.lease, told.at.monotonic)
            if told.state == "released":
                del self._abandoned[told.lease]
            step = {
                "lease": told.lease,
                "submission": told.submission,
                "team": told.team,
                "profile": told.profile,
                "cores": told.share.cores,
                "memory_bytes": told.share.memory,
                "reason": told.reason,
                "state": told.state,
                "at": told.at.wall,
                "seconds": round(told.at.monotonic - since, 6),
            }
            self._steps.put(step)
            shown = {name: step[name] for name in ("submission", "team", "reason", "cores", "memory_bytes")}
            log.warning("lease", state=told.state, lease=told.lease, after_s=step["seconds"], **shown)
        self._changed.set()

    def given_up(self) -> dict[str, int]:
        """Return how many leases were given up since the start, by reason."""
        return dict(self._meter.reasons)

    def nudge(self) -> None:
        """Something that is shown has changed without a step: the queue, for example."""
        self._changed.set()

    def stop(self) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        self._changed.set()
        if self.thread.ident is not None:
            self.thread.join()
        with contextlib.suppress(OSError):
            (self._state / snapshot.NAME).unlink(missing_ok=True)

    def _write(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            ending = self._stopping.is_set()
            with self.turns.turn():
                self._write_once()
            if ending:
                return
            self._stopping.wait(INTERVAL)

    def _write_once(self) -> None:
        steps = []
        with contextlib.suppress(queue.Empty):
            while True:
                steps.append(self._steps.get_nowait())
        try:
            if steps:
                self._leases.note(steps)
            assert self._show is not None
            snapshot.write(self._state, self._show(self._meter))
            self._beside()
        except (AcceptdError, OSError) as error:
            # A full disk or a busy ledger: these rows may be lost, the work may not.
            log.error("not noted", steps=len(steps), error=str(error))  # noqa: TRY400 - it says all
