"""The one loop that copies and hashes: each byte of a source is read once."""

from __future__ import annotations

import errno
import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from acceptd.errors import StateError
from acceptd.intake import files
from acceptd.intake.native import Native, Sniffer

CHUNK: Final = 1 << 20
_LARGE_CHUNK: Final = 4 << 20
"""Of a file that is hashed in a second thread. Alone, 1.5 GiB took 0.7 s of processor time so, by 1 MiB 1.5 s."""
_AHEAD: Final = 8
"""So many chunks may wait to be hashed. Then half of them are waited for: on a busy machine whoever sleeps for
each chunk wakes late for each."""
_OVERLAP_FROM: Final = 4 << 20
"""Files from this size are hashed in a second thread: hashlib releases the interpreter's lock."""
_WRITEBACK_EVERY: Final = 32 << 20
_OPEN_FILES: Final = 64
"""So many written files stay open until they are synchronised together."""


def storage_error(error: OSError) -> StateError:
    """Return the error for a system call that failed on acceptd's own side."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return StateError(
        f"sealed storage: {os.strerror(error.errno or errno.EIO)}",
        remedy="free disk space" if full else "check the state directory",
    )


@dataclass(frozen=True, slots=True)
class Copied:
    """What was read of one file: SHA-256 in hex, bytes, and whether it is a native library or program."""

    sha256: str
    size: int
    native: Native


class Copier:
    """Copies files and makes them durable in batches, which costs half of one fsync after each.

    ``durable`` off: nothing is written out while the kernel has memory for it, and may be lost when power is.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._buffers: dict[int, list[memoryview]] = {CHUNK: [], _LARGE_CHUNK: []}
        self._pool: ThreadPoolExecutor | None = None
        self._written: list[int] = []

    def copy(self, source: int, target: int, size: int) -> Copied:
        """Copy ``source`` to ``target`` up to its end; return what was read.

        Stops one chunk beyond ``size``, so that a file that grows cannot fill the disk; then more
        than ``size`` was read. Takes ``target`` over. An OSError is the source's; a failed
        write raises StateError.
        """
        self.adopt(target)
        digest, sniffer = hashlib.sha256(), Sniffer()
        pool = self._helper() if size >= _OVERLAP_FROM else None
        pending: list[Future[None] | None] = [None] * (_AHEAD if pool is not None else 1)
        chunk = CHUNK if pool is None else _LARGE_CHUNK
        buffers = self._buffers[chunk]
        total = turn = 0
        try:
            while total <= size:
                hashing = pending[turn]
                if hashing is not None and not hashing.done():
                    half = pending[(turn + len(pending) // 2) % len(pending)]  # chunks are hashed in order
                    (half or hashing).result()
                if turn == len(buffers):  # a small file needs one alone
                    buffers.append(memoryview(bytearray(chunk)))
                got = os.readv(source, [buffers[turn]])
                if not got:
                    break
                part = buffers[turn][:got]
                sniffer.feed(part)
                # One worker thread: updates run in the order in which they were submitted.
                if pool is None:
                    digest.update(part)
                else:
                    pending[turn] = pool.submit(digest.update, part)
                self.write(target, part)
                if self._durable and total // _WRITEBACK_EVERY != (total + got) // _WRITEBACK_EVERY:
                    files.start_writeback(target)
                total += got
                turn = (turn + 1) % len(pending)
        finally:
            for hashing in pending:
                if hashing is not None:
                    hashing.result()
        return Copied(digest.hexdigest(), total, sniffer.native)

    def adopt(self, target: int) -> None:
        """Take over the descriptor of a file: it is synchronised and closed with the others."""
        if len(self._written) >= _OPEN_FILES:
            self.flush()
        self._written.append(target)

    def flush(self) -> None:
        """Make everything written so far durable and close it; raise StateError where the storage fails."""
        if not self._durable:
            self._close_all()
            return
        try:
            for fd in self._written:
                files.start_writeback(fd)
            for fd in self._written:
                os.fsync(fd)
        except OSError as error:
            raise storage_error(error) from error
        finally:
            self._close_all()

    def close(self) -> None:
        """Close what is open, without making it durable."""
        self._close_all()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _close_all(self) -> None:
        for fd in self._written:
            os.close(fd)
        self._written.clear()

    def _helper(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="seal-hash")
        return self._pool

    @staticmethod
    def write(target: int, part: bytes | memoryview) -> None:
        """Write all of ``part``; raise StateError where the storage fails."""
        try:
            files.write_all(target, part)
        except OSError as error:
            raise storage_error(error) from error
