"""asyncio's loop with threads of its own for what blocks: by default it would start them, and wait for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar, TypeVarTuple

from acceptd.pool import Pool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_BLOCKED: Final = 4
"""Names that may be looked up at once."""


class Loop(asyncio.SelectorEventLoop):
    """As ``asyncio.new_event_loop``; calls that block run in threads that are there from the beginning."""

    def __init__(self) -> None:
        """Raises NoThreadError."""
        self._names = Pool(_BLOCKED, "blocking")
        self._names.fill()
        super().__init__()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As asyncio does, in threads of ours where no executor is named: for ``getaddrinfo`` above all."""
        return super().run_in_executor(executor or self._names, func, *args)

    def close(self) -> None:
        """Close it, and let those threads end when they can: a look-up that hangs is not waited for."""
        super().close()
        self._names.shutdown(wait=False, cancel_futures=True)
