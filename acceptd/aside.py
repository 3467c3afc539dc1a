"""A look-up of the trusted side that goes on while jobs run, which leave the daemon nothing to do."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from acceptd.errors import NoThreadError
from acceptd.threads import Thread

T = TypeVar("T")


@contextmanager
def aside(call: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Start ``call`` in a thread; give a function that waits for it, and returns or raises what it did.

    It has ended when the block ends, whatever ended that. Where no thread is to be had it is called at once.
    """
    found: Future[T] = Future()

    def work() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it comes out where the answer is asked for
            found.set_exception(error)

    # With the log's context: what the call says is said of this submission.
    thread = Thread(contextvars.copy_context().run, args=(work,), name="aside")
    try:
        thread.start()
    except NoThreadError:
        work()

    def answer() -> T:
        if thread.ident is not None:
            thread.join()
        if not found.done():
            raise NoThreadError("what was looked up aside came to no end: no memory for it")
        return found.result()

    try:
        yield answer
    finally:
        if thread.ident is not None:
            thread.join()
