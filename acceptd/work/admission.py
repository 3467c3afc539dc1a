"""Who may start now: the rotation's order against the budget, without starvation. Pure: no threads, no clock.

Order and overtaking. The first task in the rotation's order that fits is admitted. One that does not fit
now is overtaken by later ones that do, but only ``overtakings`` times: then it is reserved, and nothing
else is admitted until enough was given back for it. Since every lease ends within D (its jobs have limits,
and the deadline is behind them), a task with ``k`` of its own team before it waits at most

    (k + 1) · T · P · (overtakings + 1) · D

where T is the number of teams that wait in its profile and P that of profiles that wait: independent of
how many drops anybody floods the queue with (``docs/decisions`` has the argument, a test the simulation).

A full queue turns tasks away, to wait outside. While some of a lane wait there, no fresh task of it is let in:
where more comes than can be worked, the places that fall free would all go to what came last, and the oldest
would wait until its deadline. They come back by a refill, the oldest first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, Literal

from acceptd.errors import InternalError
from acceptd.work import lease as leases
from acceptd.work.budget import Budget, Share, require_fit
from acceptd.work.lease import Lease, Moment, Reason, Transition
from acceptd.work.rotation import Rotation, Task

OVERTAKINGS: Final = 4
"""How often a task that does not fit is overtaken before the machine is kept free for it."""

Offered = Literal["queued", "known", "full"]


class Admission:
    """Queue, budget and leases of one machine. Not thread-safe: whoever shares it locks."""

    def __init__(
        self,
        capacity: Share,
        *,
        limit: int,
        overtakings: int = OVERTAKINGS,
        listen: Callable[[Transition], None] = lambda _: None,
    ) -> None:
        self.limit = limit
        self.queue = Rotation()
        self.budget = Budget(capacity)
        self.leases: dict[int, Lease] = {}
        self._short = False
        self.turned_away = False
        """Whether a task did not find a place since the last time that :meth:`room` said so."""
        self._away: set[tuple[str, str]] = set()
        """Lanes, as (profile, team), of which tasks were turned away since the last refill began."""
        self._since: set[tuple[str, str]] = set()
        """Of those the ones of which some were turned away since the refill that is under way began."""
        self._refilling: set[tuple[str, str]] | None = None
        """Lanes of which that refill lets no more in: what it offers next came after one that found no place."""
        self._overtakings = overtakings
        self._overtaken: dict[str, int] = {}
        self._reserved: list[Task] = []
        """Tasks that were overtaken too often, in the order in which that came about."""
        self._numbers = itertools.count(1)
        self._listen = listen

    @property
    def short(self) -> bool:
        """Whether tasks wait for a larger part of the machine to be free: the last :meth:`admit` gave none."""
        return self._short and len(self.queue) > 0

    # -- the queue ------------------------------------------------------------------------------------

    def offer(self, task: Task, *, again: bool = False, fresh: bool = False) -> Offered:
        """Queue a task; ``again`` puts one that was started before in front of its team's, whatever the limit.

        ``full`` says that there is no place for it. A place may be made by sending the last of a longer lane
        away: it stays in the durable queue, and is offered again when :meth:`room` comes. ``fresh``: it was
        never offered before, and lets those of its lane go first that were.

        Raises:
            ConfigError: it is larger than the machine, and would wait for ever.
        """
        require_fit(f"submission {task.id} under profile {task.profile}", task.share, self.budget.capacity)
        if task.id in self.queue or any(lease.submission == task.id for lease in self.leases.values()):
            return "known"
        if not again:
            behind = self._away if fresh else self._refilling or ()
            if (task.profile, task.team) in behind:
                self._turn_away(task, fresh=fresh)
                return "full"
            if len(self.queue) >= self.limit:
                out = self.queue.room_for(task)
                self._turn_away(out or task, fresh=fresh and out is None)
                if out is None:
                    return "full"
                self.queue.remove(out)
                self._forget(out)
        self.queue.add(task, first=again)
        return "queued"

    def _turn_away(self, task: Task, *, fresh: bool) -> None:
        """Note it. A fresh one is younger than all that a refill still has to offer, and keeps none out."""
        self.turned_away = True
        self._away.add((task.profile, task.team))
        self._since.add((task.profile, task.team))
        if self._refilling is not None and not fresh:
            self._refilling.add((task.profile, task.team))

    def begin_refill(self) -> None:
        """From now on everything that waits outside is offered, the oldest first, until :meth:`end_refill`.

        Of a lane that is full again nothing more is let in meanwhile, even where a place falls free.
        """
        self._refilling, self._since = set(), set()

    def end_refill(self, *, whole: bool = True) -> None:
        """Let fresh tasks in again, but for lanes of which some were turned away since the refill began.

        ``whole``: everything that waits outside was offered. Else those that were turned away before still are.
        """
        if whole:
            self._away = self._since.copy()
        else:
            self.turned_away = True
        self._refilling = None

    def withdraw(self, task_id: str) -> bool:
        """Take a task that waits out of the queue; False where it does not wait here."""
        task = self.queue.find(task_id)
        if task is None:
            return False
        self.queue.remove(task)
        self._forget(task)
        return True

    def room(self) -> bool:
        """Whether tasks were turned away and half of the queue is free again; true once for each time."""
        if self.turned_away and len(self.queue) <= self.limit // 2:
            self.turned_away = False
            return True
        return False

    def overdue(self, now: float) -> list[Task]:
        """Take all tasks whose deadline is past out of the queue: they never start."""
        late = self.queue.overdue(now)
        for task in late:
            self._forget(task)
        return late

    def _forget(self, task: Task) -> None:
        self._overtaken.pop(task.id, None)
        if task in self._reserved:
            self._reserved.remove(task)

    # -- leases ---------------------------------------------------------------------------------------

    def admit(self, at: Moment, slot: int = 0) -> tuple[Task, Lease] | None:
        """Take the task whose turn it is, and give it its lease; None where none fits. An overdue one
        is never admitted; :meth:`overdue` takes them out."""
        task = self._choose(at.monotonic)
        self._short = task is None
        if task is None:
            return None
        number = next(self._numbers)
        if not self.budget.take(number, task.share):
            raise InternalError("a task was chosen that does not fit")
        self.queue.take(task)
        self._forget(task)
        lease = Lease(number, task.id, task.team, task.profile, task.share, task.deadline, at, slot)
        self.leases[number] = lease
        self._listen(leases.granted(lease))
        return task, lease

    def _choose(self, now: float) -> Task | None:
        """Return the first in order that fits; one that was overtaken too often lets nobody pass."""
        free = self.budget.free
        if self._reserved:
            task = self._reserved[0]
            return task if task.share.within(free) and now <= task.deadline else None
        passed: list[Task] = []
        for task in self.queue.heads():
            if now > task.deadline:
                continue
            if task.share.within(free):
                for other in passed:
                    self._overtake(other)
                return task
            passed.append(task)
        return None

    def _overtake(self, task: Task) -> None:
        self._overtaken[task.id] = self._overtaken.get(task.id, 0) + 1
        if self._overtaken[task.id] == self._overtakings:
            self._reserved.append(task)

    def try_extra(self, lease: Lease, share: Share, *, open_slots: bool = True) -> int | None:
        """Give a running submission a share for one more job beside its first; None where it must do without.

        Never waits, and never takes what somebody waits for who could have it: no deadlock, and nobody is
        starved. ``open_slots``: not every worker holds a lease, so that who waits only wants the share.
        """
        if lease.state != "held" or self.short:
            return None
        first = next(self.queue.heads(), None)
        if first is not None and open_slots and not (first.share + share).within(self.budget.free):
            return None
        number = next(self._numbers)
        if not self.budget.take(number, share):
            return None
        lease.extras[number] = share
        return number

    def end_extra(self, lease: Lease, number: int) -> None:
        """Take an extra share back: its job is dead."""
        del lease.extras[number]
        self.budget.give_back(number)

    def resize(self, lease: Lease, share: Share) -> bool:
        """Make a lease larger or smaller; False, and nothing changed, where that does not fit now."""
        require_fit(f"submission {lease.submission} under profile {lease.profile}", share, self.budget.capacity)
        if not self.budget.resize(lease.number, share):
            return False
        lease.share = share
        return True

    def abandon(self, lease: Lease, reason: Reason, at: Moment) -> None:
        """Nobody waits for its result any more."""
        self._listen(leases.step(lease, "abandoned", at, reason))

    def request_cancel(self, lease: Lease, at: Moment) -> None:
        """Its jobs are told to end."""
        self._listen(leases.step(lease, "cancel-requested", at))

    def still_running(self, lease: Lease, at: Moment) -> None:
        """Its jobs have been sent the kill."""
        self._listen(leases.step(lease, "still-running", at))

    def release(self, lease: Lease, at: Moment) -> None:
        """Every process of it is dead: the budget returns, once."""
        told = leases.step(lease, "released", at)
        self.budget.give_back(lease.number)
        del self.leases[lease.number]
        self._listen(told)
