"""The one loop that copies and hashes: each byte of a source is read once."""

from __future__ import annotations

import errno
import hashlib
import os
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from acceptd.errors import NoThreadError, StateError
from acceptd.intake import files
from acceptd.intake.durable import synchronise
from acceptd.intake.native import Native, Sniffer
from acceptd.pool import Pool

CHUNK: Final = 1 << 20
_LARGE_CHUNK: Final = 4 << 20
"""What the kernel is asked to copy at once of a large file."""
_AHEAD: Final = 32
"""So many such parts may wait to be hashed, still in the page cache. Then half of them are waited for: on a busy
machine whoever sleeps for each part wakes late for each."""
_OVERLAP_FROM: Final = 4 << 20
"""Files from this size are copied inside the kernel, and what was written is hashed in a second thread: 1.5 GiB
took 0.45 s of system time so, and 1.5 s by read(2) and write(2)."""
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


class _UnderWay:
    """One copy: both descriptors, the size that the source had, and what is known of the first ``total`` bytes."""

    def __init__(self, source: int, target: int, size: int) -> None:
        self.source, self.target, self.size = source, target, size
        self.digest, self.sniffer = hashlib.sha256(), Sniffer()
        self.total = 0

    def feed(self, part: memoryview) -> None:
        """Take the next bytes into the digest; hashlib releases the interpreter's lock."""
        self.sniffer.feed(part)
        self.digest.update(part)


class Copier:
    """Copies files and makes them durable in batches, side by side.

    ``durable`` off: nothing is written out while the kernel has memory for it, and may be lost when power is.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._buffer = memoryview(bytearray(CHUNK))
        self._pool: Pool | None = None
        self._written: list[int] = []

    def copy(self, source: int, target: int, size: int) -> Copied:
        """Copy ``source`` to the empty ``target`` up to its end; return what was read.

        Stops one chunk beyond ``size``, so that a file that grows cannot fill the disk; then more
        than ``size`` was read. Takes ``target``, open for both, over. An OSError is the source's; a failed
        write raises StateError.
        """
        self.adopt(target)
        under_way = _UnderWay(source, target, size)
        if size >= _OVERLAP_FROM:
            self._inside(under_way)
        self._through(under_way)
        return Copied(under_way.digest.hexdigest(), under_way.total, under_way.sniffer.native)

    def _inside(self, one: _UnderWay) -> None:
        """Copy inside the kernel (sendfile(2)) as far as that goes, and hash what lies in the target then.

        An error does not say whose it is, and some file systems refuse it: :meth:`_through` takes over there, and
        where no thread is to be had for the hash.
        """
        try:
            pool = self._helper()
        except NoThreadError:
            return
        waiting = deque[Future[None]]()
        try:
            while one.total <= one.size:
                most = min(_LARGE_CHUNK, one.size + CHUNK - one.total)
                try:
                    got = os.sendfile(one.target, one.source, None, most)
                except OSError:
                    break
                if not got:
                    break
                waiting.append(pool.submit(self._hash, one, one.total, one.total + got))
                self._write_back(one.target, one.total, got)
                one.total += got
                if len(waiting) >= _AHEAD:
                    while len(waiting) > _AHEAD // 2:
                        waiting.popleft().result()
        finally:
            for hashing in waiting:
                hashing.result()
        for fd in (one.source, one.target):
            os.lseek(fd, one.total, os.SEEK_SET)

    def _hash(self, one: _UnderWay, start: int, end: int) -> None:
        """Hash a part of the target. One worker thread: parts come in the order in which they were submitted."""
        try:
            while start < end:
                part = self._buffer[: min(CHUNK, end - start)]
                got = os.preadv(one.target, [part], start)
                if not got:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                one.feed(part[:got])
                start += got
        except OSError as error:
            raise storage_error(error) from error

    def _through(self, one: _UnderWay) -> None:
        """Copy the rest by read(2) and write(2), each of which says whose an error is."""
        while one.total <= one.size:
            got = os.readv(one.source, [self._buffer])
            if not got:
                break
            part = self._buffer[:got]
            one.feed(part)
            self.write(one.target, part)
            self._write_back(one.target, one.total, got)
            one.total += got

    def _write_back(self, target: int, total: int, got: int) -> None:
        """Have the kernel begin to write out, every so many bytes: the fsync at the end finds less to do."""
        if self._durable and total // _WRITEBACK_EVERY != (total + got) // _WRITEBACK_EVERY:
            files.start_writeback(target)

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
            synchronise(self._written)
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

    def _helper(self) -> Pool:
        if self._pool is None:
            pool = Pool(1, "seal-hash")
            pool.fill()
            self._pool = pool
        return self._pool

    @staticmethod
    def write(target: int, part: bytes | memoryview) -> None:
        """Write all of ``part``; raise StateError where the storage fails."""
        try:
            files.write_all(target, part)
        except OSError as error:
            raise storage_error(error) from error
