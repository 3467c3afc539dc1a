"""How long a thread has been at its present piece of work: what tells one that hangs from one that waits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class Turns:
    """Written by the thread that works, read by any other. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Mark one piece of work; waiting for the next one is none."""
        self._since = self._clock()
        try:
            yield
        finally:
            self._since = None

    def busy_for(self) -> float:
        """Return the seconds since the present piece began; 0.0 between two."""
        since = self._since
        return 0.0 if since is None else self._clock() - since
