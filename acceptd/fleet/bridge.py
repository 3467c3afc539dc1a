"""From a task of the fleet's queue to this node's own workers, and back: one admission, one budget, one lease.

The thread of the queue's worker offers the work as :class:`acceptd.work.rotation.Task` and waits. Stop the queue's
worker first and this node's workers after it: what waits here for its turn is given back, and not forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from acceptd.errors import GivenUpError, StateError
from acceptd.fleet.task import Cancel
from acceptd.work.budget import Share
from acceptd.work.hold import Hold
from acceptd.work.lease import Reason
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers


def work_here(
    workers: Workers,
    cancel: Cancel,
    *,
    name: str,
    team: str,
    profile: str,
    share: Share,
    deadline: float,
    work: Callable[[Hold], Share | None],
) -> None:
    """Let this node's workers do ``work``, and return when it is done and its processes are dead.

    ``name`` is the lease's: another one for each task that may run here at once. ``share``, ``deadline`` (which
    is monotonic) and what ``work`` returns are as a :class:`~acceptd.work.rotation.Task` has them. Once ``cancel``
    is set its jobs are killed, or it never starts.

    Raises:
        GivenUpError: it was given up, here or by the queue; ``cancel.reason`` says why.
        StateError: there is no place for it on this node now.
        ConfigError: it is larger than this node.
        Exception: whatever ``work`` raised.
    """
    run = _Run(cancel, work)
    task = Task(name, team, profile, share, deadline, run=run.work, expired=run.expired, given_up=run.given_up)
    cancel.check()
    if (offered := workers.offer(task)) != "queued":
        word = "is being worked here already" if offered == "known" else "finds no place on this node now"
        raise StateError(f"{name} {word}")

    def end(reason: Reason) -> None:
        if not workers.give_up(name, reason) and workers.withdraw(name):
            run.given_up(reason)

    cancel.on_set(end)
    run.over.wait()
    if run.error is not None:
        raise run.error


class _Run:
    """What came of one piece of work: told by the workers' threads, waited for by the queue's."""

    def __init__(self, cancel: Cancel, work: Callable[[Hold], Share | None]) -> None:
        self._cancel, self._work = cancel, work
        self.over = threading.Event()
        self.error: BaseException | None = None

    def work(self, hold: Hold) -> Share | None:
        try:
            self._cancel.check()  # it was told to end between its turn and this thread
            more = self._work(hold)
        except GivenUpError:
            raise
        except BaseException as error:  # noqa: BLE001 - it comes out of the thread that waits
            more, self.error = None, error
        if more is None:
            hold.finish()  # everything of it is dead before anybody hears that it is over
            self.over.set()
        return more

    def given_up(self, reason: Reason) -> None:
        self._cancel.set(reason or "interrupted")
        self.error = GivenUpError(f"the work was given up here: {reason or 'its task was'}")
        self.over.set()

    def expired(self) -> None:
        self.given_up("deadline")
