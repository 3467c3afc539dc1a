"""The machine as intake and worker share it: cells, budget, leases. A promoter has none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog

from acceptd import opening
from acceptd.cell import selfcheck
from acceptd.judge.profiles import Target
from acceptd.rules import Rules
from acceptd.site import Helm
from acceptd.supervisor.pulse import Watched
from acceptd.work.admission import Admission
from acceptd.work.journal import Journal
from acceptd.work.need import machine, require_room
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers

log = structlog.get_logger("acceptd.fleet")
BUNDLES = ".bundles"
"""Below ``sealed``, for the cell to see: what was fetched to be examined, by digest."""


class NoRows:
    """A node has no rows of the record for leases that were given up: the log and ``work.json`` tell of them."""

    def note(self, steps: Sequence[dict[str, Any]]) -> None:
        """Keep nothing."""


class Machine:
    """Opened once for all wings of a node that run jobs. ``secret``: of probe seeds; a worker is told seeds."""

    def __init__(self, helm: Helm, targets: Callable[[Rules], Sequence[Target]], secret: bytes = b"") -> None:
        self._helm = helm
        self._targets = targets
        self._secret = secret

    def open(self, stack: ExitStack) -> None:
        """Open cells and workers; prove the walls."""
        helm = self._helm
        self.capacity = machine(helm.settings)
        require_room(helm.rules(), self.capacity)
        opening.sweep_temporary(helm.paths)
        self.tools = opening.tools(
            helm, stack, lanes=helm.settings.workers or self.capacity.cores, secret=self._secret,
            targets=self._targets(helm.rules()),
            store=False,  # what is compared with lies where it was fetched to
        )  # fmt: skip
        self.journal = Journal(helm.paths.state, NoRows())
        stack.callback(self.journal.stop)
        admission = Admission(self.capacity, limit=helm.settings.queue_limit, listen=self.journal.hear)
        self.workers = Workers(
            helm.settings.workers or self.capacity.cores,
            admission,
            on_error=self._failed,
            on_room=helm.room,
            on_change=self.journal.nudge,
        )
        self.on_error: Callable[[Task, BaseException], None] = _told
        self.beside: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start workers and journal."""
        self.workers.start()
        self.journal.start(
            lambda meter: self.workers.show(meter) | opening.told(self._helm.rules()), beside=self._beside
        )

    def _beside(self) -> None:
        self.beside()

    def _failed(self, task: Task, error: BaseException) -> None:
        self.on_error(task, error)

    def allow(self, fresh: Rules) -> None:
        """Refuse rules whose submissions would fit nowhere here, or whose walls do not hold."""
        require_room(fresh, self.capacity)
        selfcheck.require_walls(self.tools.cell, self._helm.paths.sealed, fresh.policy)

    @property
    def bundles(self) -> Path:
        """Where bundles that were fetched lie, for the cell to see."""
        return self._helm.paths.sealed / BUNDLES

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        yield Watched(self.journal.thread, self.journal.turns)
        for thread in self.workers.threads:
            yield Watched(thread)


def _told(task: Task, error: BaseException) -> None:
    log.error("work failed", submission=task.id, error=f"{type(error).__name__}: {error}", exc_info=error)
