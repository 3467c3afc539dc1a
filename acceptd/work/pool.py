"""An executor whose threads all run before anybody counts on them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor


def fill(executor: ThreadPoolExecutor, count: int) -> None:
    """Start all ``count`` threads of ``executor`` now; it would start each when it is first needed.

    A thread that cannot be started then (a limit of tasks) would leave the share that was taken for it held for
    ever. Raises RuntimeError: it cannot be started now.
    """
    together = threading.Barrier(count + 1)  # an executor starts a thread only where none is idle
    try:
        for _ in range(count):
            executor.submit(together.wait)
        together.wait()
    except BaseException:
        together.abort()
        raise
