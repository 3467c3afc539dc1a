"""What the daemon tries again by itself rests after it failed, ever longer: each try may burn a number."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

LEAST: Final = 60.0
MOST: Final = 3600.0


@dataclass(slots=True)
class Rests:
    """Until when each thing that failed is not tried again: a minute, then twice as long, an hour at most.

    A thing is whatever tells it from others, so that what changed meanwhile is another one and waits for nothing.
    ``now`` gives seconds of a clock that is never set. A restart forgets all.
    """

    now: Callable[[], float] = time.monotonic
    _until: dict[Hashable, tuple[float, float]] = field(default_factory=dict)

    def due(self, what: Hashable) -> bool:
        """Say whether it may be tried now."""
        return self.now() >= self._until.get(what, (0.0, 0.0))[0]

    def failed(self, what: Hashable) -> None:
        """Let it rest, for longer than the last time."""
        rest = min(max(2 * self._until.get(what, (0.0, 0.0))[1], LEAST), MOST)
        long_over = [one for one, (until, _) in self._until.items() if until + MOST < self.now()]
        for one in long_over:  # what nobody tried again changed, or is no more
            del self._until[one]
        self._until[what] = (self.now() + rest, rest)

    def over(self, what: Hashable) -> None:
        """Forget that it ever failed."""
        self._until.pop(what, None)
