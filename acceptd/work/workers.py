"""The threads that work through an :class:`~acceptd.work.admission.Admission`, and the leases as they see them.

Locking: one lock guards queue, budget and leases; nothing that waits (a job, the ledger) runs under it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from acceptd.errors import GivenUpError
from acceptd.pool import Pool
from acceptd.threads import Thread
from acceptd.work import snapshot
from acceptd.work.admission import Admission, Offered
from acceptd.work.budget import Share
from acceptd.work.hold import Hold as Hold
from acceptd.work.lease import Lease, Moment, Reason
from acceptd.work.meter import Meter
from acceptd.work.rotation import Task

T = TypeVar("T")


def now() -> Moment:
    """Return this instant on both clocks."""
    return Moment(time.monotonic(), time.time())


@dataclass(slots=True)
class Refill:
    """What was offered again; not ``whole`` where only the oldest of those that wait were."""

    whole: bool = True


class Workers:
    """A fixed number of slots, each a thread, that work what the admission admits.

    ``on_error`` is given what a task raised; ``on_room`` is told when tasks that were turned away may be
    offered again. Both are called without the lock; ``on_change``, told that the queue is another one, with
    it. ``clock`` is for tests.
    """

    def __init__(
        self,
        slots: int,
        admission: Admission,
        *,
        on_error: Callable[[Task, BaseException], None],
        on_room: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], Moment] = now,
    ) -> None:
        self._admission = admission
        self._on_error = on_error
        self._on_room = on_room
        self._on_change = on_change
        self._clock = clock
        lock = threading.RLock()
        self._condition = threading.Condition(lock)
        self._due = threading.Condition(lock)
        """Wakes the warden, who sleeps until the nearest deadline that he knows of."""
        self._awaited = float("inf")
        self._quiet: Callable[[], None] | None = None
        self._idle = set(range(slots))
        self._given: dict[int, tuple[Task, Lease | None]] = {}
        self._ending: set[str] = set()
        """Submissions whose work is over and whose end is being recorded, without a lease."""
        self._started = self._stopping = False
        self._helpers = Pool(max(1, admission.budget.capacity.cores), "beside")
        self._threads = [Thread(self._loop, args=(slot,), name=f"worker-{slot}") for slot in range(slots)]
        self._warden = Thread(self._watch, name="warden")

    def start(self) -> None:
        """Start the threads. Raises NoThreadError.

        Also those that work beside: one that could not be started later would leave the share that was taken
        for it held for ever.
        """
        self._helpers.fill()
        for thread in (*self._threads, self._warden):
            thread.start()
        with self._condition:
            self._started = True
            self._assign()

    def offer(self, task: Task, *, fresh: bool = False) -> Offered:
        """Queue a task. ConfigError where it is larger than the machine; ``full`` also once it stops.

        ``fresh``: it was never offered before, and lets those of its team go first that were and found no place.
        """
        with self._condition:
            if self._stopping:
                return "full"
            if task.id in self._ending or any(given.id == task.id for given, _ in self._given.values()):
                return "known"
            offered = self._admission.offer(task, fresh=fresh)
            self._assign()
            self._on_change()
            return offered

    @contextlib.contextmanager
    def refill(self) -> Iterator[Refill]:
        """Within it everything that waits outside is offered again, the oldest first."""
        with self._condition:
            self._admission.begin_refill()
        done, whole = Refill(), False
        try:
            yield done
            whole = done.whole
        finally:
            with self._condition:
                self._admission.end_refill(whole=whole)
                room = whole and not self._stopping and self._admission.room()
        if room:  # a fresh one came meanwhile, and the end of what runs may not tell of it any more
            self._on_room()

    @property
    def depth(self) -> int:
        """How many wait."""
        with self._condition:
            return len(self._admission.queue)

    @property
    def active(self) -> int:
        """How many are being worked."""
        with self._condition:
            return len(self._admission.leases) + len(self._ending)

    def look_at(self, view: Callable[[Admission], T]) -> T:
        """Return what ``view`` makes of the admission, under the lock: it must be quick and change nothing."""
        with self._condition:
            return view(self._admission)

    def show(self, meter: Meter) -> dict[str, Any]:
        """Return what ``acceptd status`` shows."""
        with self._condition:
            return snapshot.of(self._admission, len(self._ending), meter)

    def idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits and nothing runs; False when ``timeout`` seconds were not enough."""

        def quiet() -> bool:
            waiting = len(self._admission.queue) + len(self._given) + len(self._ending)
            return not waiting and not self._admission.leases

        with self._condition:
            return self._condition.wait_for(quiet, timeout)

    # -- giving up ------------------------------------------------------------------------------------

    def give_up(self, submission: str, reason: Reason) -> bool:
        """Abandon running work and tell its jobs to end; False where it does not run, or was given up before."""
        with self._condition:
            return any(
                self._give_up(lease, reason)
                for lease in list(self._admission.leases.values())
                if lease.submission == submission
            )

    def withdraw(self, submission: str) -> bool:
        """Take work that waits out of the queue; False where it does not wait. Nothing is told of it."""
        with self._condition:
            done = self._admission.withdraw(submission)
            if done:
                self._on_change()
                self._condition.notify_all()
            return done

    def sweep(self) -> None:
        """Give up what runs past its deadline, and end what waits past it. The warden does it in time."""
        with self._condition:
            moment = self._clock()
            for lease in list(self._admission.leases.values()):
                if moment.monotonic > lease.deadline:
                    self._give_up(lease, "deadline")
            self._assign()

    def drain(self, quiet: Callable[[], None] = lambda: None) -> None:
        """Take no more, and call ``quiet`` (once, without the lock) when nothing runs any more."""
        with self._condition:
            self._stopping, self._quiet = True, quiet
            self._condition.notify_all()
            self._due.notify_all()
        self._tell_quiet()

    def cancel(self, reason: Reason) -> int:
        """Give up everything that runs; return how many that were."""
        with self._condition:
            return sum(self._give_up(lease, reason) for lease in list(self._admission.leases.values()))

    def stop(self, seconds: float | None = None) -> bool:
        """Take no more; let what runs finish for ``seconds`` (None: however long), then cancel it.

        Returns when all threads have ended: True when nothing had to be cancelled.
        """
        finished = threading.Event()
        self.drain(finished.set)
        orderly = finished.wait(seconds)
        if not orderly:
            self.cancel("stop")
        self.join()
        return orderly

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads without which nothing is worked."""
        return (*self._threads, self._warden)

    def join(self, seconds: float | None = None) -> bool:
        """Wait until all threads have ended; after :meth:`drain`. False where ``seconds`` were not enough."""
        due = None if seconds is None else time.monotonic() + seconds
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(None if due is None else max(0.0, due - time.monotonic()))
                if thread.is_alive():
                    return False
        self._helpers.shutdown(wait=True)
        return True

    def _tell_quiet(self) -> None:
        with self._condition:
            busy = self._admission.leases or self._given or self._ending
            quiet, self._quiet = (None, self._quiet) if busy or not self._stopping else (self._quiet, None)
        if quiet is not None:
            quiet()

    def _give_up(self, lease: Lease, reason: Reason) -> bool:
        if lease.state != "held":
            return False
        moment = self._clock()
        self._admission.abandon(lease, reason, moment)
        self._admission.request_cancel(lease, moment)
        return True

    # -- what a Hold asks for ---------------------------------------------------------------------------

    def note_kill(self, lease: Lease) -> None:
        """A job of the lease is sent the kill now."""
        with self._condition:
            if lease.state == "cancel-requested":
                self._admission.still_running(lease, self._clock())

    def resize(self, lease: Lease, share: Share) -> bool:
        """Make a lease larger or smaller where that fits now."""
        with self._condition:
            done = self._admission.resize(lease, share)
            self._assign()
            return done

    def widen(self, lease: Lease) -> bool:
        """Give a lease all cores of the machine where that fits now."""
        with self._condition:
            wide = Share(self._admission.budget.capacity.cores, lease.share.memory)
            return lease.state == "held" and self._admission.resize(lease, wide)

    def release(self, lease: Lease) -> Reason:
        """Everything of it is dead: the budget is free again. What was released before stays so."""
        with self._condition:
            if lease.number in self._admission.leases:
                self._ending.add(lease.submission)
                self._admission.release(lease, self._clock())
                self._assign()
            return lease.reason

    def beside(self, lease: Lease, share: Share, most: int, work: Callable[[], None]) -> list[Future[None]]:
        """Run ``work`` in up to ``most`` more threads: inside the lease, then each with an extra share."""
        with self._condition:
            if lease.state != "held":
                return []  # what is called then ends at its first check
            inside = min(most, lease.share.cores // share.cores - 1, lease.share.memory // share.memory - 1)
            numbers: list[int | None] = [None] * max(0, inside)
            # A worker that records holds no lease: in a moment it takes what waits.
            open_slots = len(self._admission.leases) < len(self._threads)
            while len(numbers) < most:
                number = self._admission.try_extra(lease, share, open_slots=open_slots)
                if number is None:
                    break
                numbers.append(number)

        def held(number: int | None) -> None:
            try:
                work()
            finally:
                if number is not None:
                    with self._condition:
                        self._admission.end_extra(lease, number)
                        self._assign()

        return [self._helpers.submit(held, number) for number in numbers]

    # -- the threads ------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Give idle slots what may start, the lowest slot first: its cell is warm. Under the lock."""
        if self._stopping or not self._started:
            return
        moment = self._clock()
        late = deque(self._admission.overdue(moment.monotonic) if self._idle else ())
        while self._idle:
            slot = min(self._idle)
            if late:
                self._given[slot] = (late.popleft(), None)
            elif (admitted := self._admission.admit(moment, slot)) is not None:
                self._given[slot] = admitted
            else:
                break
            self._idle.discard(slot)
        for task in late:  # more than slots: they keep their place, and end when the next slot is free
            self._admission.queue.add(task, first=True)
        if self._given:
            self._condition.notify_all()
        if self._nearest() < self._awaited:
            self._due.notify_all()

    def _loop(self, slot: int) -> None:
        while (given := self._next(slot)) is not None:
            task, lease = given
            try:
                self._work(task, lease)
            except BaseException as error:  # noqa: BLE001 - one submission must not end the worker
                self._on_error(task, error)
            finally:
                self._over(slot, task)

    def _next(self, slot: int) -> tuple[Task, Lease | None] | None:
        with self._condition:
            self._condition.wait_for(lambda: slot in self._given or self._stopping)
            given = self._given.pop(slot, None)
            if given is not None and given[1] is None:
                self._ending.add(given[0].id)
            return given

    def _work(self, task: Task, lease: Lease | None) -> None:
        if lease is None:
            task.expired()
            return
        more: Share | None = None
        given_up = False
        try:
            more = task.run(Hold(self, lease))
        except GivenUpError:
            given_up = True
        finally:
            # What ran a job returns only when its process is dead.
            reason = self.release(lease)
        if given_up:
            task.given_up(reason)
        elif more is not None:
            with self._condition:
                self._admission.offer(task.sized(more), again=True)

    def _over(self, slot: int, task: Task) -> None:
        with self._condition:
            self._ending.discard(task.id)
            self._idle.add(slot)
            self._assign()
            room = not self._stopping and self._admission.room()
            self._on_change()
            self._condition.notify_all()
            if self._stopping:
                self._due.notify_all()
        if room:
            self._on_room()
        self._tell_quiet()

    def _watch(self) -> None:
        """Sweep when the nearest deadline is due; ends with the last lease."""
        while True:
            with self._condition:
                self._awaited = self._nearest()
                if self._stopping and not self._admission.leases:
                    return
                waits = None if self._awaited == float("inf") else self._awaited - self._clock().monotonic
                if waits is None or waits >= 0:
                    # Past the deadline, not at it: a millisecond later.
                    self._due.wait(None if waits is None else waits + 0.001)
            self.sweep()

    def _nearest(self) -> float:
        due = [lease.deadline for lease in self._admission.leases.values() if lease.state == "held"]
        waiting = self._idle and self._started and not self._stopping  # else the next free slot finds them
        return min([*due, self._admission.queue.soonest() if waiting else float("inf")])
