"""A simulated machine: the real admission under a clock that only the simulation turns."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from acceptd.work.admission import Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.lease import Lease, Moment, Transition
from acceptd.work.meter import Meter
from acceptd.work.rotation import Task

GIB = 1 << 30
MACHINE = Share(16, 64 * GIB)
PROFILES = {
    "one": Share(1, 2 * GIB),
    "two": Share(2, 4 * GIB),
    "four": Share(4, 8 * GIB),
    "eight": Share(8, 16 * GIB),
}
"""Threads 1, 2, 4 and 8; memory in step, so that both run out."""
FOREVER = float("inf")


def moment(at: float) -> Moment:
    """Return an instant of the simulation; the wall clock is beside it by a constant."""
    return Moment(at, 1_000_000.0 + at)


def task(name: str, team: str = "a", profile: str = "one", deadline: float = FOREVER) -> Task:
    """Return a task of one of the simulated profiles."""
    return Task(name, team, profile, PROFILES[profile], deadline)


def sound(admission: Admission) -> None:
    """What must hold at any instant, whatever happened."""
    budget = admission.budget
    assert budget.held == sum((lease.whole for lease in admission.leases.values()), NOTHING)
    assert budget.held.within(budget.capacity)
    assert NOTHING.within(budget.free)
    assert all(lease.state != "released" for lease in admission.leases.values())


@dataclass
class Machine:
    """Runs arrivals to their end; ``waited`` has the seconds from arrival to start by task id."""

    slots: int = 16
    admission: Admission = field(default_factory=lambda: Admission(MACHINE, limit=100_000))
    waited: dict[str, float] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    told: list[Transition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admission._listen = self._hear

    def _hear(self, told: Transition) -> None:
        self.told.append(told)
        self.meter.take(told)

    def run(self, arrivals: Iterable[tuple[float, Task, float]]) -> None:
        """Take (time, task, seconds that it lasts) to the end: until nothing waits and nothing runs."""
        count = itertools.count()
        events: list[tuple[float, int, Task | Lease, float]] = [
            (at, next(count), one, lasts) for at, one, lasts in arrivals
        ]
        heapq.heapify(events)
        came: dict[str, tuple[float, float]] = {}
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, _, what, lasts = heapq.heappop(events)
                if isinstance(what, Task):
                    came[what.id] = (now, lasts)
                    assert self.admission.offer(what) == "queued"
                else:
                    self.admission.release(what, moment(now))
            self.expired += [late.id for late in self.admission.overdue(now)]
            while len(self.admission.leases) < self.slots:
                admitted = self.admission.admit(moment(now))
                if admitted is None:
                    break
                one, lease = admitted
                assert now <= one.deadline, "an expired task was started"
                since, lasts = came[one.id]
                self.waited[one.id] = now - since
                self.order.append(one.id)
                heapq.heappush(events, (now + lasts, next(count), lease, 0.0))
            sound(self.admission)
        assert not len(self.admission.queue), "something starved"
        assert not self.admission.leases


def longest_wait(*, before: int, teams: int, profiles: int, overtakings: int, lasts: float) -> float:
    """Return the bound that :mod:`acceptd.work.admission` states.

    A task first of its team is admitted after at most ``profiles * (overtakings + 1)`` admissions: each
    profile before it in the order has one turn in a round, and it is passed over at most ``overtakings``
    times before the machine is kept free for it. Each team of its profile comes before it at most once for
    each of the ``before + 1`` tasks of its own team. Between two admissions lie at most ``lasts`` seconds,
    since by then all that ran has ended, and on an empty machine everything fits.
    """
    return (before + 1) * teams * profiles * (overtakings + 1) * lasts
