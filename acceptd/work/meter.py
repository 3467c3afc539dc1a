"""Counts leases by state: gauges of what is held now, counters of steps, seconds spent. Pure.

Fed with every :class:`~acceptd.work.lease.Transition`; the figures are what ``acceptd status`` shows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from acceptd.work.budget import NOTHING, Share
from acceptd.work.lease import GIVEN_UP, STATES, State, Transition

LIVE: Final = STATES[:4]
"""The states in which a lease holds a part of the budget."""


@dataclass(slots=True)
class Meter:
    """The figures of one daemon since its start."""

    steps: Counter[str] = field(default_factory=Counter)
    """How often each state was entered."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why leases were given up."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds spent in each state, over all leases that have left it."""
    longest_still_running: float = 0.0
    """Seconds; of those that are over. :meth:`figures` adds the ones that are not."""
    _live: dict[int, Transition] = field(default_factory=dict)

    def take(self, told: Transition) -> None:
        """Count one step."""
        self.steps[told.state] += 1
        if told.state == "abandoned":
            self.reasons[told.reason] += 1
        if told.was:
            self.seconds[told.was] = self.seconds.get(told.was, 0.0) + told.seconds
        if told.was == "still-running":
            self.longest_still_running = max(self.longest_still_running, told.seconds)
        if told.state == "released":
            self._live.pop(told.lease, None)
        else:
            self._live[told.lease] = told

    def gauge(self, state: State, shares: dict[int, Share]) -> tuple[int, Share]:
        """Return how many leases are in ``state`` and what they hold; ``shares`` has them by number."""
        found = [told for told in self._live.values() if told.state == state]
        return len(found), sum((shares.get(told.lease, told.share) for told in found), NOTHING)

    def figures(self, now: float, shares: dict[int, Share]) -> dict[str, Any]:
        """Return everything as JSON; ``now`` is on the monotonic clock of the transitions."""
        held = {}
        for state in LIVE:
            count, share = self.gauge(state, shares)
            held[state] = {"leases": count, "cores": share.cores, "memory_bytes": share.memory}
        running = [now - told.at.monotonic for told in self._live.values() if told.state == "still-running"]
        longest = max([self.longest_still_running, *running])
        return {
            "held_now": held,
            "entered": {state: self.steps[state] for state in STATES},
            "given_up": dict(sorted(self.reasons.items())),
            "seconds": {state: round(self.seconds.get(state, 0.0), 3) for state in LIVE},
            "longest_still_running_s": round(longest, 3),
        }


def abnormal(told: Transition) -> bool:
    """Whether a step belongs to a lease that was given up, and so is recorded durably."""
    return told.state in GIVEN_UP or (told.state == "released" and told.was in GIVEN_UP)
