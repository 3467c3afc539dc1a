"""A lease as the work under it sees it: whether to go on, and how much may run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from acceptd.errors import GivenUpError
from acceptd.work.budget import Share
from acceptd.work.lease import Lease, Reason

if TYPE_CHECKING:
    from acceptd.work.workers import Workers

T = TypeVar("T")


class Hold:
    """A lease as the work sees it: whether to go on, and how much may run at once. Safe from threads."""

    def __init__(self, workers: Workers, lease: Lease) -> None:
        self._workers = workers
        self._lease = lease
        self.slot = lease.slot

    @property
    def reason(self) -> Reason:
        """Why the work was given up; empty while it was not."""
        return self._lease.reason

    def check(self) -> None:
        """Raise GivenUpError once the work is to end: between two steps, where no process runs."""
        if self._lease.state != "held":
            raise GivenUpError(f"the work on {self._lease.submission} was given up: {self._lease.reason}")

    def kill_due(self) -> bool:
        """Whether a running job is to be killed now. Whoever asks kills at once when the answer is yes."""
        if self._lease.state == "held":
            return False
        self._workers.note_kill(self._lease)
        return True

    def fit(self, share: Share) -> bool:
        """Make the lease as large as ``share``, without waiting; False where that does not fit now."""
        return self._workers.resize(self._lease, share)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold every core for a while, so that no other submission begins; False where others hold some now."""
        share = self._lease.share
        got = self._workers.widen(self._lease)
        try:
            yield got
        finally:
            if got:
                self._workers.resize(self._lease, share)

    def finish(self) -> None:
        """Give the lease back before the work ends: no job comes any more, what is left is recording."""
        self._workers.release(self._lease)

    def side_by_side(self, share: Share, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run all calls, beside one another as far as there is room now; return their results in order.

        ``share`` is what the largest of them takes. As many as the lease holds run inside it, further ones
        only with an extra share each, which goes back when they have ended; what gets none runs afterwards,
        in a thread that has ended its own. An error of any comes out when all that began have ended.
        """
        todo = deque(enumerate(calls))
        results: dict[int, T] = {}
        errors: list[BaseException] = []

        def work() -> None:
            while not errors:
                try:
                    place, call = todo.popleft()
                except IndexError:
                    return
                try:
                    results[place] = call()
                except BaseException as error:  # noqa: BLE001 - it comes out of the thread that gathers
                    errors.append(error)

        beside = self._workers.beside(self._lease, share, len(calls) - 1, work)
        work()
        for future in beside:
            future.result()
        if errors:
            raise errors[0]
        return [results[place] for place in range(len(calls))]
