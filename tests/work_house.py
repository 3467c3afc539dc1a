"""Workers with a budget, and jobs that tests hold and let go by events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from acceptd.work.admission import Admission
from acceptd.work.budget import Share
from acceptd.work.lease import Moment, Transition
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold, Workers

PATIENCE = 60.0
"""Seconds until a wait gives up; a test never passes by waiting."""
ONE = Share(1, 1)
TWO_CORES = Share(2, 2)


@dataclass
class House:
    """Workers of a small machine with a clock that the test turns."""

    slots: int = 2
    capacity: Share = TWO_CORES
    limit: int = 100
    clock: float = 0.0
    told: list[Transition] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    room: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.admission = Admission(self.capacity, limit=self.limit, listen=self.told.append)
        self.workers = Workers(
            self.slots,
            self.admission,
            on_error=lambda task, error: self.errors.append(f"{task.id}: {error}"),
            on_room=self.room.set,
            clock=lambda: Moment(self.clock, self.clock),
        )

    def offer(
        self,
        name: str,
        run: Callable[[Hold], Share | None] | None = None,
        *,
        team: str = "a",
        share: Share = ONE,
        deadline: float = 1e9,
    ) -> str:
        def work(hold: Hold) -> Share | None:
            result = run(hold) if run is not None else None
            if result is None:
                self.done.append(name)
            return result

        return self.workers.offer(
            Task(
                name,
                team,
                "cpu",
                share,
                deadline,
                run=work,
                expired=lambda: self.done.append(f"expired {name}"),
                given_up=lambda reason: self.done.append(f"{reason} {name}"),
            )
        )

    def states(self, name: str) -> list[str]:
        return [step.state for step in self.told if step.submission == name]


def gate() -> tuple[threading.Event, threading.Event]:
    return threading.Event(), threading.Event()


def held(entered: threading.Event, let_go: threading.Event) -> Callable[[Hold], None]:
    """Return work that says that it began, and ends when it may."""

    def run(_hold: Hold) -> None:
        entered.set()
        assert let_go.wait(PATIENCE)

    return run
