"""Files of receipts, read as what they are: hostile lines from production hosts. Constant memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from acceptd.canary.figures import MOST_FILES, Counts, ReadFile
from acceptd.canary.tally import Tally
from acceptd.errors import DigestMismatchError, LoaderError, UsageError
from acceptd.release.receipt import MAX_LINE_BYTES, parse

CHUNK_BYTES: Final = 1 << 20
_TOLD_LINES: Final = 5000


def read(
    paths: Sequence[Path], tally: Tally, told: Callable[[str], None] = lambda _text: None
) -> tuple[list[ReadFile], Counts]:
    """Count every line of the files; return the files with their digests, and what became of the lines.

    A file is read to the end that it had when it was opened: what is appended meanwhile belongs to the next
    evaluation. Raises UsageError for more than 1,000 files, or one that is no regular file or cannot be read.
    """
    if len(paths) > MOST_FILES:
        raise UsageError(f"{len(paths)} files of receipts; {MOST_FILES} are allowed", remedy="join some of them")
    fates: Counter[str] = Counter()
    return [_file(path, tally, fates, told) for path in paths], Counts(**fates)


def _file(path: Path, tally: Tally, fates: Counter[str], told: Callable[[str], None]) -> ReadFile:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy="name files of receipts") from error
    digest, count, size = hashlib.sha256(), 0, 0
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is no regular file", remedy="name files of receipts; unpack compressed ones")
        for line in lines(_chunks(descriptor, found.st_size, digest.update)):
            count += 1
            fates[_fate(line, tally)] += 1
            if count % _TOLD_LINES == 0:
                told(f"{path.name}: line {count:,}")
        size = os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy="check the disk") from error
    finally:
        os.close(descriptor)
    name = os.fsencode(path.name).decode("utf-8", "backslashreplace")[:1024]
    return ReadFile(name=name, sha256=digest.hexdigest(), bytes=size, lines=count)


def _fate(line: bytes | None, tally: Tally) -> str:
    if line is None:
        return "too_long"
    if not line or line.isspace():
        return "empty"
    try:
        receipt = parse(line)
    except DigestMismatchError:
        return "digest"
    except LoaderError:
        return "malformed"
    return tally.add(receipt)


def _chunks(descriptor: int, size: int, taken: Callable[[bytes], None]) -> Iterator[bytes]:
    left = size
    while left > 0:
        chunk = os.read(descriptor, min(CHUNK_BYTES, left))
        if not chunk:  # it was cut meanwhile
            return
        left -= len(chunk)
        taken(chunk)
        yield chunk


def lines(chunks: Iterator[bytes], most: int = MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """Yield the lines without their newlines; None for one of more than ``most`` bytes, which is never kept."""
    rest, long = b"", False
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for part in whole:
            line = rest + part
            yield None if long or len(line) > most else line
            rest, long = b"", False
        if not long:
            rest += last
            if len(rest) > most:
                rest, long = b"", True
    if rest or long:
        yield None if long else rest
