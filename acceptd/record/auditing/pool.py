"""Does the parts of an audit: in this process where there is little to do, else side by side on every core."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import acceptd
from acceptd.errors import LedgerError
from acceptd.pool import Pool as Threads
from acceptd.record.auditing.parts import Part, Work

MAX_WORKERS: Final = 8
AHEAD: Final = 3
"""Parts under way or waiting, for each worker: what is held does not grow with the log."""
SMALL: Final = 32 << 20
"""Bytes of database below which starting processes costs more than they save."""

Came = dict[str, Any]


def workers_for(path: Path) -> int:
    """Return how many processes an audit of this database takes; 0 for this one alone."""
    size = sum(os.stat(name).st_size for name in (path, Path(f"{path}-wal")) if os.path.exists(name))
    cores = len(os.sched_getaffinity(0))
    return min(cores, MAX_WORKERS) if size >= SMALL and cores > 1 else 0


class Pool:
    """Owns the worker processes. ``workers`` 0 does all in this process, as it is asked for."""

    def __init__(self, work: Work, workers: int) -> None:
        self._work = work
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._all: list[_Worker] = []
        self._threads = Threads(workers, "audit") if workers else None
        try:
            for _ in range(workers):
                self._all.append(_Worker(work))
                self._idle.put(self._all[-1])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, part: Part) -> Future[Came]:
        """Begin one part; its result is there when it is."""
        if self._threads is not None:
            return self._threads.submit(self._ask, part)
        done: Future[Came] = Future()
        done.set_result(self._work.do(part))
        return done

    def each(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Came]]:
        """Yield all parts with what they came to, in their order."""
        under_way: collections.deque[tuple[Part, Future[Came]]] = collections.deque()
        for part in parts:
            under_way.append((part, self.begin(part)))
            if len(under_way) > AHEAD * len(self._all):
                first, future = under_way.popleft()
                yield first, future.result()
        for part, future in under_way:
            yield part, future.result()

    def close(self) -> None:
        """End the processes; what they are at is lost."""
        for worker in self._all:
            worker.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def _ask(self, part: Part) -> Came:
        worker = self._idle.get()
        try:
            return worker.ask(part)
        finally:
            self._idle.put(worker)


class _Worker:
    def __init__(self, work: Work) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "acceptd.record.auditing.worker"],
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(acceptd.__file__).parents[1])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise LedgerError(
                f"the audit's process cannot be started: {error.strerror}; nothing is verified"
            ) from error
        keys = None if work.keys is None else work.keys.to_json()
        self._send({"path": str(work.path), "origin": work.origin, "keys": keys})

    def ask(self, part: Part) -> Came:
        """Return what ``part`` came to; raise LedgerError where the process is gone."""
        self._send(list(part))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise LedgerError(f"the audit's process for {part.kind} ended; nothing is verified")
        came: Came = json.loads(line)
        return came

    def kill(self) -> None:
        """Kill and reap."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _send(self, value: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LedgerError("the audit's process cannot be reached; nothing is verified") from error
