"""One pass over a file's bytes, for everyone who wants them: payloads, checksums, values of weights.

Weights are large, so inspection reads them once: each subscriber is fed from the same buffer. Reading
by position into one small buffer keeps a block in the processor's cache while all of them look at
it, and makes what was read countable (``rchar`` of /proc/PID/io).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sandbox.messages import RefusedError

CHUNK: Final = 1 << 20
AHEAD: Final = 7
"""Blocks of a large file that wait for their search, while the next one is read."""
LARGE: Final = 32 << 20
"""Files from this size on are searched in threads of their own: numpy releases the interpreter's lock."""
SEARCHERS: Final = 2
ELEMENT: Final = 16
"""Pieces of a span are cut at multiples of so many bytes: of every element that ONNX knows."""


class Source(Protocol):
    """A file, by position."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def into(self, view: memoryview, at: int) -> int:
        """Fill ``view`` from byte ``at``; return how many bytes there were."""

    def peek(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``at``."""


@dataclass(slots=True)
class FileSource:
    """An open regular file; ``read_bytes`` counts what was read of it."""

    fd: int
    size: int
    read_bytes: int = 0

    def into(self, view: memoryview, at: int) -> int:
        """See Source."""
        os.lseek(self.fd, at, os.SEEK_SET)  # a job may not call preadv(2)
        got = os.readv(self.fd, [view])
        self.read_bytes += got
        return got

    def peek(self, at: int, size: int) -> bytes:
        """See Source."""
        data = os.pread(self.fd, size, at) if size > 0 else b""
        self.read_bytes += len(data)
        return data


@dataclass(slots=True)
class BytesSource:
    """Bytes that are in memory already."""

    data: bytes

    @property
    def size(self) -> int:
        """See Source."""
        return len(self.data)

    def into(self, view: memoryview, at: int) -> int:
        """See Source."""
        part = self.data[at : at + len(view)]
        view[: len(part)] = part
        return len(part)

    def peek(self, at: int, size: int) -> bytes:
        """See Source."""
        return self.data[at : at + max(size, 0)]


class Watcher(Protocol):
    """A subscriber: is fed all bytes in order, then told that there are no more."""

    def feed(self, at: int, block: memoryview) -> None:
        """Take the bytes from ``at`` on. ``block`` is only valid during the call."""

    def end(self) -> None:
        """There are no more bytes."""


class Searcher(Watcher, Protocol):
    """A watcher whose work lies in a search that needs one block alone."""

    def search(self, block: memoryview) -> Any:
        """Return what is found in a block, in any thread, and change nothing."""

    def found(self, at: int, block: memoryview, found: Any) -> None:
        """Take the next block as ``feed`` does, and what its search gave."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``start`` to ``stop`` of a file (the values of one tensor) and who wants them.

    The watcher's ``at`` counts from the span's own beginning, and no piece but the last is cut inside
    an element (at a multiple of ELEMENT bytes).
    """

    start: int
    stop: int
    watcher: Watcher


def read(
    source: Source, watchers: Sequence[Watcher], spans: Sequence[Span] = (), searcher: Searcher | None = None
) -> int:
    """Feed all bytes of ``source`` to ``watchers``, and the spans' to theirs; return how many there were.

    Spans must not overlap (:func:`disjoint`), so that the work is bounded by the file. ``searcher`` is a watcher
    too: in a large file its searches run beside the rest, and it takes what they found in the blocks' order.
    Raises ValueError when spans overlap, RefusedError when the file is shorter than it was.
    """
    ordered = sorted(spans, key=lambda span: (span.start, span.stop))
    if not disjoint([(span.start, span.stop) for span in ordered]):
        raise ValueError("spans overlap")
    feeds = [_SpanFeed(span) for span in ordered]
    size = source.size
    at = first = 0
    with _searching(searcher, size) as search:
        buffers = [memoryview(bytearray(min(CHUNK, max(size, 1)))) for _ in range(search.blocks)]
        turn = 0
        while at < size:
            buffer = buffers[turn]
            turn = (turn + 1) % len(buffers)
            got = source.into(buffer[: min(len(buffer), size - at)], at)
            if not got:
                raise RefusedError("external-data/out-of-range", "file", f"ends at byte {at}, {size} were sealed")
            block = buffer[:got]
            search.begin(at, block)
            for watcher in watchers:
                watcher.feed(at, block)
            for index in range(first, len(feeds)):
                if feeds[index].span.start >= at + got:
                    break
                feeds[index].feed(at, block)
                if feeds[index].span.stop <= at + got:
                    first = index + 1
            at += got
            search.settle()
        search.settle(last=True)
    ends = [*watchers, *(feed.span.watcher for feed in feeds)]
    for watcher in [*ends, searcher] if searcher is not None else ends:
        watcher.end()
    return at


@contextmanager
def _searching(searcher: Searcher | None, size: int) -> Iterator[_Search]:
    """Yield the searches of a file of ``size`` bytes, with as many threads as are to be had for a large one."""
    with ExitStack() as stack:
        pools: list[ThreadPoolExecutor] = []
        for _ in range(SEARCHERS if searcher is not None and size >= LARGE else 0):
            pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="search"))
            try:
                pool.submit(int).result()
            except RuntimeError:  # the limits leave no room for a thread
                break
            pools.append(pool)
        yield _Search(searcher, pools)


class _Search:
    """Searches block after block, and hands over what they found in order."""

    def __init__(self, searcher: Searcher | None, pools: Sequence[ThreadPoolExecutor]) -> None:
        self.blocks = 1 + AHEAD if pools else 1
        """So many blocks are alive at once."""
        self._searcher = searcher
        self._pools = deque(pools)
        self._waiting: deque[tuple[int, memoryview, Future[Any]]] = deque()

    def begin(self, at: int, block: memoryview) -> None:
        if self._searcher is None:
            return
        if not self._pools:
            self._searcher.found(at, block, self._searcher.search(block))
            return
        self._waiting.append((at, block, self._pools[0].submit(self._searcher.search, block)))
        self._pools.rotate()

    def settle(self, *, last: bool = False) -> None:
        """Hand over what was found: all of it with ``last``, else enough for a buffer to be filled again.

        Then half of the blocks: on a busy machine whoever sleeps for each block wakes late for each.
        """
        if not last and len(self._waiting) < self.blocks:
            return
        most = 0 if last else self.blocks // 2
        while self._searcher is not None and len(self._waiting) > most:
            at, block, found = self._waiting.popleft()
            self._searcher.found(at, block, found.result())


def disjoint(ranges: Sequence[tuple[int, int]]) -> bool:
    """Say whether ranges (start, stop) do not overlap; empty ones never do."""
    reached = 0
    for start, stop in sorted(ranges):
        if stop > start:
            if start < reached:
                return False
            reached = stop
    return True


class _SpanFeed:
    """Cuts a span's bytes out of the blocks, at multiples of ELEMENT."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._left = bytearray()
        self._at = 0

    def feed(self, at: int, block: memoryview) -> None:
        start = max(self.span.start - at, 0)
        stop = min(self.span.stop - at, len(block))
        last = self.span.stop - at <= len(block)
        if self._left and start < stop:
            taken = min(ELEMENT - len(self._left), stop - start)
            self._left += block[start : start + taken]
            start += taken
            if len(self._left) == ELEMENT or last:
                self._give(memoryview(bytes(self._left)))
                self._left.clear()
        whole = stop if last else start + (stop - start) // ELEMENT * ELEMENT
        if whole > start:
            self._give(block[start:whole])
        if whole < stop:
            self._left += block[whole:stop]

    def _give(self, piece: memoryview) -> None:
        self.span.watcher.feed(self._at, piece)
        self._at += len(piece)
