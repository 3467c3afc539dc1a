"""Threads whose start comes to an end, also where the new thread finds no memory at its very first instruction.

CPython's ``threading.Thread.start`` waits for a word of the new thread. One that has a stack (glibc keeps those of
threads that ended) and no memory for its first frame dies before that word, and whoever started it waits for
ever (seen with 3.11; the log says *Exception ignored in thread started by*). Here the start is by ``_thread``, the
documented low level, and whoever started it hears of two things, the first word and the death: the thread owns
the last reference to an object, and a weak reference calls back when that is gone.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from acceptd.errors import NoThreadError

T = TypeVar("T")
LOOK_SECONDS: Final = 1.0
"""Between two looks whether it still lives: only where the call back, which is C, found no memory either."""
FOREIGN_SECONDS: Final = 30.0
"""Patience with a library that starts threads of its own; a thread begins in a fraction of a millisecond."""
_BEGUN: Final = True


class _Life:
    """What the thread alone refers to: gone with it, however it ended."""

    __slots__ = ("__weakref__",)


class Thread:
    """One thread, which never keeps the process from ending; what ``threading.Thread`` shows of it that is needed.

    ``threading.enumerate`` does not name it. What ``target`` raises goes to ``threading.excepthook``.
    """

    def __init__(self, target: Callable[..., object], *, name: str, args: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.ident: int | None = None
        """The interpreter's number of it; None where it was never started, or could not be."""
        self._call: tuple[Callable[..., object], tuple[Any, ...]] | None = (target, args)
        self._word: SimpleQueue[object] = SimpleQueue()
        self._life: weakref.ref[_Life] | None = None
        self._over = _thread.allocate_lock()

    def start(self) -> None:
        """Start it, and return once it has begun.

        Raises NoThreadError: it cannot be started now, or it ended before it began; ``target`` was not called.
        """
        if self._call is None:
            raise ValueError(f"the thread {self.name} was started before")
        call, self._call = self._call, None
        life = _Life()
        self._life = weakref.ref(life, self._word.put)
        self._over.acquire()
        try:
            _thread.start_new_thread(_first, (life, self, call))
        except (RuntimeError, MemoryError) as error:
            self._over.release()
            self._life = None
            raise NoThreadError(f"the thread {self.name} cannot be started: {error}") from error
        del life, call
        while True:
            try:
                word = self._word.get(timeout=LOOK_SECONDS)
            except Empty:
                if self._life() is not None:
                    continue  # the machine has not come to it yet
                word = self._life
            break
        if word is not _BEGUN:
            if self._over.locked():
                self._over.release()
            self.ident = None
            raise NoThreadError(f"the thread {self.name} ended before it began: no memory for it")

    def is_alive(self) -> bool:
        """Whether it has begun and not ended."""
        return self.ident is not None and self._over.locked() and self._lives()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, for ``timeout`` seconds at most; :meth:`is_alive` tells. ValueError: never started."""
        if self.ident is None:
            raise ValueError(f"the thread {self.name} was not started")
        if self.ident == _thread.get_ident() and self.is_alive():
            raise ValueError(f"the thread {self.name} cannot wait for its own end")
        due = None if timeout is None else time.monotonic() + timeout
        while self.is_alive():
            left = LOOK_SECONDS if due is None else min(LOOK_SECONDS, due - time.monotonic())
            if left <= 0:
                return
            if self._over.acquire(timeout=left):
                self._over.release()

    def _lives(self) -> bool:
        return self._life is not None and self._life() is not None

    def _run(self, call: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
        try:
            # As `threading` does for its own: for who measures what tests reach.
            if (trace := threading.gettrace()) is not None:
                sys.settrace(trace)
            target, args = call
            self.ident = _thread.get_ident()
            self._word.put(_BEGUN)
            target(*args)
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001 - it ends here, and is told
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
        finally:
            self._over.release()


def _first(life: _Life, thread: Thread, call: tuple[Callable[..., object], tuple[Any, ...]]) -> None:
    """Begin. What keeps ``life`` is the tuple of arguments, which the interpreter drops at the thread's end."""
    del life
    thread._run(call)


def started(start: Callable[[], T], what: str, seconds: float | None = None) -> T:
    """Return what ``start`` returns or raises, of a library that starts threads; it is called in one.

    Raises NoThreadError: it did not come back in ``seconds`` (None: half a minute), or no thread was to be had.
    What it was called on is then to be left alone: it may hold a lock.
    """
    came: SimpleQueue[Future[T]] = SimpleQueue()
    result: Future[T] = Future()

    def call() -> None:
        try:
            result.set_result(start())
        except BaseException as error:  # noqa: BLE001 - it comes out where it was asked for
            result.set_exception(error)
        came.put(result)

    # In a thread of Python's kind, as the library asks which it is in; ours, which may wait for ever, starts it.
    Thread(threading.Thread(target=call, name="start", daemon=True).start, name="start").start()
    try:
        return came.get(timeout=FOREIGN_SECONDS if seconds is None else seconds).result()
    except Empty:
        raise NoThreadError(f"{what} cannot be started: a thread of it did not begin") from None
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError) or "start new thread" in str(error):
            raise NoThreadError(f"{what} cannot be started: {error}") from error
        raise


def abandon(observer: Any) -> None:
    """Have a library's ``observer`` end if it can: where one of its threads never began, its lock may be held."""
    with contextlib.suppress(NoThreadError):
        Thread(threading.Thread(target=observer.stop, name="end", daemon=True).start, name="end").start()
