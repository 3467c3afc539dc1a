"""The content pass: the model file and the external data that it names, read once, for all who want them."""

from __future__ import annotations

import hashlib
import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox import wire
from sandbox.inspect import bytes as content
from sandbox.inspect import payloads
from sandbox.inspect.bytes import BytesSource, FileSource, Source, Span, Watcher
from sandbox.inspect.external import Placed
from sandbox.inspect.problems import Problems
from sandbox.inspect.weights import Weights, values_at
from sandbox.messages import RefusedError, text_of
from sandbox.wire_places import places
from sandbox.wire_tensor import Buffer


class Sha1:
    """The digest that ``checksum`` of an external data record is of: the whole file (onnx, ExternalData.md)."""

    def __init__(self) -> None:
        self._hash = hashlib.sha1(usedforsecurity=False)

    def feed(self, _at: int, block: memoryview) -> None:
        """Hash the next block."""
        self._hash.update(block)

    def end(self) -> None:
        """Nothing is left to do."""

    def hexdigest(self) -> str:
        """Return the digest."""
        return self._hash.hexdigest()


@contextmanager
def opened(path: Path, where: str) -> Iterator[FileSource]:
    """Open a sealed file for reading. Raises RefusedError when it is no regular file or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise RefusedError("external-data/not-visible", where, f"cannot be read: {error.strerror}") from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise RefusedError("external-data/not-visible", where, "is no regular file")
        yield FileSource(fd, info.st_size)
    finally:
        os.close(fd)


def examine(
    buf: Buffer,
    root: Path,
    model: str,
    walk: wire.Walk,
    external: list[Placed],
    weights: Weights,
    problems: Problems,
) -> int:
    """Read the model and its external data once, add the problems found; return the bytes that were read.

    ``root`` has the bundle's files. A model that is in memory alone (at preload) is looked at there.
    """
    if isinstance(buf, bytes):
        total = _model(BytesSource(buf), buf, walk, weights, problems)
    else:
        with opened(root / model, model) as source:
            total = _model(source, buf, walk, weights, problems)
    files: dict[str, list[Placed]] = {}
    for placed in external:
        if placed.inside:
            files.setdefault(placed.path, []).append(placed)
    for path, tensors in files.items():
        with opened(root / path, path) as source:
            total += _external(source, path, tensors, weights, problems)
    return total


def _model(source: Source, buf: Buffer, walk: wire.Walk, weights: Weights, problems: Problems) -> int:
    scanner = payloads.Scanner(source)
    values = [(record, *values_at(buf, record)) for record, _ in walk.big]
    watchers = [
        (weights.watcher(record, text_of(record.name), record.start, stop - start), start, stop)
        for record, start, stop in values
    ]
    content.read(source, [], [Span(start, stop, who) for who, start, stop in watchers if who is not None], scanner)
    for _, start, stop in values:
        if stop > start:
            scanner.begins(start)
    found = places(buf, walk.size, [hit.at for hit in scanner.hits])
    _tell(scanner, source, "", problems, lambda at: found[at])
    return source.size


def _external(source: Source, path: str, tensors: list[Placed], weights: Weights, problems: Problems) -> int:
    scanner = payloads.Scanner(source)
    wanted = [one for one in tensors if one.checksum]
    digest = Sha1() if wanted else None
    watchers: list[Watcher] = [digest] if digest else []
    ordered = sorted(tensors, key=lambda one: (one.start, one.stop))
    content.read(source, watchers, _spans(ordered, weights), scanner)
    scanner.begins(0)
    for start in dict.fromkeys(one.start for one in ordered):
        scanner.begins(start)
    if digest is not None:
        real = digest.hexdigest()
        for one in wanted:
            if one.checksum != real:
                message = f"tensor {one.name[:100]!r}: checksum {one.checksum}, but {path!r} has {real}"
                problems.add("external-data/checksum-mismatch", one.place, message)
    starts = [one.start for one in ordered]

    def place(at: int) -> str:
        index = bisect_right(starts, at) - 1
        inside = index >= 0 and at < ordered[index].stop
        return ordered[index].place if inside else f"{path}, outside all tensors of this model"

    _tell(scanner, source, path, problems, place)
    return source.size


def _spans(ordered: list[Placed], weights: Weights) -> list[Span]:
    """Return the spans of tensors' values: each range once, and none twice where tensors overlap."""
    spans: list[Span] = []
    reached = 0
    for one in ordered:
        taken = one.start < reached
        watcher = weights.watcher(one.record, one.name, one.place, one.stop - one.start, again=taken)
        if watcher is not None:
            spans.append(Span(one.start, one.stop, watcher))
            reached = one.stop
    return spans


def _tell(
    scanner: payloads.Scanner, source: Source, file: str, problems: Problems, place: Callable[[int], str]
) -> None:
    for hit in sorted(scanner.hits, key=lambda one: one.at):
        problems.add(hit.code, place(hit.at), payloads.words(hit, source.peek(hit.at, 16), file))
    if scanner.flooded:
        message = f"more than {payloads.MAX_CANDIDATES} places look like the beginning of a payload"
        problems.add("payload/flood", file or "model", message)
