"""An executor of threads whose start comes to an end: nobody waits for one that died before it began."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, ParamSpec, TypeVar

from acceptd.errors import NoThreadError
from acceptd.threads import Thread

P = ParamSpec("P")
T = TypeVar("T")
_REST: Final = 0.01
"""Seconds: nothing tells that there is memory again."""


class Pool(Executor):
    """Up to ``most`` threads; each starts when a call finds the others at work, or by :meth:`fill`.

    As ``concurrent.futures.ThreadPoolExecutor`` is used; but what it cannot take it has not taken, and whoever
    leaves it without :meth:`shutdown` leaves its threads waiting until the process ends.
    """

    def __init__(self, most: int, name: str) -> None:
        if most < 1:
            raise ValueError(f"a pool of {most} threads")
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[Thread] = []
        self._busy = 0
        """Calls that were taken and have not ended."""
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn`` called in one of the threads; they begin calls in the order in which they came.

        Raises NoThreadError: it has no thread and none can be started. RuntimeError: it was shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the pool {self._name} was shut down")
            if self._busy >= len(self._threads) < self._most:
                try:
                    self._start()
                except NoThreadError:
                    if not self._threads:
                        raise
            self._busy += 1
            self._calls.put(_Call(future, fn, args, kwargs))
        return future

    def fill(self) -> None:
        """Start all its threads now; from then on :meth:`submit` starts none. Raises NoThreadError."""
        with self._lock:
            while len(self._threads) < self._most:
                self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; ``wait`` for what was taken. ``cancel_futures``: what has not begun never does."""
        with self._lock:
            closed, self._closed = self._closed, True
            waiting: list[_Call] = []
            while cancel_futures:
                try:
                    call = self._calls.get_nowait()
                except queue.Empty:
                    break
                if call is not None:
                    waiting.append(call)
            for _ in self._threads if cancel_futures or not closed else ():
                self._calls.put(None)  # each thread takes one and ends; one too many is taken by nobody
        for call in waiting:
            call.future.cancel()
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self) -> None:
        thread = Thread(self._work, name=f"{self._name}-{len(self._threads)}")
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while True:
            try:
                if not self._one():
                    return
            except MemoryError:  # between two calls: who waits for the next one must not wait for a dead thread
                time.sleep(_REST)

    def _one(self) -> bool:
        call = self._calls.get()
        if call is None:
            return False
        try:
            call.run()
        except BaseException as error:  # noqa: BLE001 - of the call's end itself: whoever waits for it hears it
            if not call.future.done():
                call.future.set_exception(error)
        finally:
            with self._lock:
                self._busy -= 1
        return True


class _Call:
    """A call and the future of what it comes to."""

    __slots__ = ("_args", "_fn", "_kwargs", "future")

    def __init__(
        self, future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.future, self._fn, self._args, self._kwargs = future, fn, args, kwargs

    def run(self) -> None:
        """Call it, and tell the future what came of it."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._fn(*self._args, **self._kwargs)
        except BaseException as error:  # noqa: BLE001 - it comes out where the result is asked for
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
