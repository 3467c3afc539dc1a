"""Whose turn it is: lanes of profiles, in them lanes of teams, first come first served within a team. Pure.

A profile that was served goes to the end of the order, and within it the team that was served: so a
flood of one profile or of one team costs the others one turn each round, however long it is.
"""

from __future__ import annotations

import collections
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from acceptd.work.budget import Share
from acceptd.work.lease import Reason


def _nothing(*_: Any) -> None:
    return


@dataclass(frozen=True, slots=True)
class Task:
    """One submission that waits for its turn.

    ``deadline`` is a monotonic time; past it the work is never started, and ``expired`` is called.
    ``run`` is given the lease (:class:`acceptd.work.workers.Hold`) and returns None when it is done, or
    the share that it needs to go on, when that did not fit: then it waits again, before its team's others.
    ``given_up`` is told the reason when running work was cancelled, after its processes are dead.
    """

    id: str
    team: str
    profile: str
    share: Share
    deadline: float
    run: Callable[[Any], Share | None] = field(default=_nothing, compare=False)
    expired: Callable[[], None] = field(default=_nothing, compare=False)
    given_up: Callable[[Reason], None] = field(default=_nothing, compare=False)

    def sized(self, share: Share) -> Task:
        """Return the same task with another share."""
        return replace(self, share=share)


Lane = collections.OrderedDict[str, collections.deque[Task]]


class Rotation:
    """The waiting tasks in the order of their turns. Not thread-safe: whoever shares it locks."""

    def __init__(self) -> None:
        self._profiles: collections.OrderedDict[str, Lane] = collections.OrderedDict()
        self._ids: dict[str, Task] = {}
        self._deadlines: list[tuple[float, int, Task]] = []
        self._count = itertools.count()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._ids

    def find(self, task_id: str) -> Task | None:
        """Return the task of that id that waits, or None."""
        return self._ids.get(task_id)

    def add(self, task: Task, *, first: bool = False) -> bool:
        """Queue a task, or as ``first`` of its team; False when its id waits already."""
        if task.id in self._ids:
            return False
        self._ids[task.id] = task
        if len(self._deadlines) > 2 * len(self._ids) + 64:  # mostly of tasks that are gone
            self._deadlines = [item for item in self._deadlines if self._waits(item[2])]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (task.deadline, next(self._count), task))
        lane = self._profiles.setdefault(task.profile, collections.OrderedDict())
        waiting = lane.setdefault(task.team, collections.deque())
        if first:
            waiting.appendleft(task)
        else:
            waiting.append(task)
        return True

    def heads(self) -> Iterator[Task]:
        """Yield the next task of each team, in the order of the turns."""
        for lane in self._profiles.values():
            for waiting in lane.values():
                yield waiting[0]

    def take(self, task: Task) -> None:
        """Take a task out to be worked: its team's and its profile's next turn comes after all others'."""
        self.remove(task)
        lane = self._profiles.get(task.profile)
        if lane is not None:
            if task.team in lane:
                lane.move_to_end(task.team)
            self._profiles.move_to_end(task.profile)

    def remove(self, task: Task) -> None:
        """Take a task out wherever it stands; nobody's turn changes."""
        del self._ids[task.id]
        lane = self._profiles[task.profile]
        waiting = lane[task.team]
        if waiting[0] is task:
            waiting.popleft()
        elif waiting[-1] is task:
            waiting.pop()
        else:
            waiting.remove(task)
        if not waiting:
            del lane[task.team]
        if not lane:
            del self._profiles[task.profile]

    def overdue(self, now: float) -> list[Task]:
        """Take out all tasks whose deadline is past, and return them."""
        late = []
        while self.soonest() < now:
            late.append(task := self._deadlines[0][2])
            self.remove(task)
        return late

    def soonest(self) -> float:
        """Return the nearest deadline; infinity when nothing waits."""
        while self._deadlines and not self._waits(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else float("inf")

    def _waits(self, task: Task) -> bool:
        return self._ids.get(task.id) is task

    def lanes(self) -> dict[tuple[str, str], int]:
        """Return how many wait by (profile, team)."""
        return {
            (profile, team): len(waiting)
            for profile, lane in self._profiles.items()
            for team, waiting in lane.items()
        }

    def by_team(self) -> dict[str, list[str]]:
        """Return the ids that wait by team, in the order of its turns within each profile."""
        found: dict[str, list[str]] = {}
        for lane in self._profiles.values():
            for team, waiting in lane.items():
                found.setdefault(team, []).extend(task.id for task in waiting)
        return found

    def room_for(self, newcomer: Task) -> Task | None:
        """Return the task that makes way for ``newcomer`` in a full queue, or None where none has to.

        The last of the longest lane does, if that lane stays at least as long as the newcomer's becomes:
        a flood that fills the queue cannot keep another lane's single drop out of it.
        """
        lanes = self.lanes()
        if not lanes:
            return None
        (profile, team), longest = max(lanes.items(), key=lambda item: item[1])
        if lanes.get((newcomer.profile, newcomer.team), 0) + 1 >= longest:
            return None
        return self._profiles[profile][team][-1]
