"""Two tensors against each other, in chunks: numbers of every kind, and strings."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.ranked import Rows
from acceptd.compare.tally import Tally
from acceptd.evidence import TensorRef

CHUNK_ELEMENTS: Final = 1 << 18
"""4 MiB of the widest type (complex128), so that the temporaries of a chunk stay in the processor's cache."""
MAX_STRINGS: Final = 4_000_000
_LENGTH: Final = struct.Struct("<I")


class DiffersError(Exception):
    """The two values cannot be compared element by element; the argument is the note (``dtype``, ``shape``, …)."""


def tensors(
    expected: TensorRef, first: Blob, got: TensorRef, second: Blob, kind: str, tally: Tally, prefix: list[int]
) -> None:
    """Add the comparison of two tensors to ``tally``. Raises DiffersError, MalformedError."""
    total = decode.check(expected, first)
    decode.check(got, second)
    if expected.dtype != got.dtype:
        raise DiffersError("dtype")
    if expected.shape != got.shape:
        raise DiffersError("shape")
    if expected.dtype == "string":
        _strings(expected, first, got, second, total, tally, prefix)
        return
    width = expected.shape[-1] if expected.shape else 1
    rows = None
    if kind in {"logits", "probabilities"} and expected.dtype in decode.FLOATS and total:
        rows = Rows(width, expected.dtype, tally, probabilities=kind == "probabilities")
    for start, stop in chunks(total, width, CHUNK_ELEMENTS):
        raw, left = decode.read(expected, first, start, stop)
        other, right = decode.read(got, second, start, stop)
        if raw == other:
            tally.equal(right)
        else:
            tally.bit_exact = False
            tally.add(left, right, expected.shape, start, prefix)
        if rows is not None:
            rows.add(left, right)


def chunks(total: int, width: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) over ``total`` elements: whole rows at a time, or parts of one row where it is wider."""
    if not total:
        return
    if width <= most:
        step = max(1, most // max(width, 1)) * max(width, 1)
        for start in range(0, total, step):
            yield start, min(total, start + step)
        return
    for row in range(0, total, width):
        for start in range(row, min(total, row + width), most):
            yield start, min(total, row + width, start + most)


def _strings(
    expected: TensorRef, first: Blob, got: TensorRef, second: Blob, total: int, tally: Tally, prefix: list[int]
) -> None:
    if total > MAX_STRINGS:
        raise MalformedError("more strings than can be compared")
    pairs = zip(strings(expected, first, total), strings(got, second, total), strict=True)
    for flat, (left, right) in enumerate(pairs):
        tally.n += 1
        if left != right:
            tally.bit_exact = False
            tally.unequal(expected.shape, flat, prefix, _text(left), _text(right))


def strings(ref: TensorRef, blob: Blob, total: int) -> Iterator[bytes]:
    """Yield the strings of a checked tensor; raise MalformedError where lengths and bytes disagree."""
    window = _Window(blob, ref.offset, ref.offset + ref.nbytes)
    for _ in range(total):
        (length,) = _LENGTH.unpack(window.take(4))
        yield window.take(length)
    if window.left:
        raise MalformedError("bytes are left over after the last string")


class _Window:
    """Bytes of a file in order, read in pieces of 64 KiB or as large as one string."""

    def __init__(self, blob: Blob, start: int, end: int) -> None:
        self._blob, self._next, self._end = blob, start, end
        self._held, self._at = b"", 0

    @property
    def left(self) -> int:
        """Bytes not yet taken."""
        return self._end - self._next + len(self._held) - self._at

    def take(self, length: int) -> bytes:
        """Return the next bytes; raise MalformedError beyond the end."""
        if length > self.left:
            raise MalformedError("a string beyond the end of its tensor")
        if self._at + length > len(self._held):
            rest = self._held[self._at :]
            more = min(max(length - len(rest), 1 << 16), self._end - self._next)
            self._held, self._at = rest + self._blob.read(self._next, more), 0
            self._next += more
        piece = self._held[self._at : self._at + length]
        self._at += length
        return piece


def _text(raw: bytes) -> str:
    return repr(raw[:80].decode("utf-8", "backslashreplace"))


def same_bytes(left: TensorRef, first: Blob, right: TensorRef, second: Blob) -> bool:
    """Say whether two tensors have the same type, shape and bytes. Raises MalformedError."""
    decode.check(left, first)
    decode.check(right, second)
    if (left.dtype, left.shape, left.nbytes) != (right.dtype, right.shape, right.nbytes):
        return False
    step = CHUNK_ELEMENTS * 8
    return all(
        first.read(left.offset + at, min(step, left.nbytes - at))
        == second.read(right.offset + at, min(step, left.nbytes - at))
        for at in range(0, left.nbytes, step)
    )


def map_keys(ref: TensorRef, blob: Blob) -> list[object]:
    """Return the keys of a map, in file order (numbers or bytes). Raises MalformedError for very large maps."""
    total = decode.check(ref, blob)
    if len(ref.shape) != 1 or total > CHUNK_ELEMENTS:
        raise MalformedError("the keys of a map are one short row")
    if ref.dtype == "string":
        return list(strings(ref, blob, total))
    _, values = decode.read(ref, blob, 0, total)
    return list(np.asarray(values).tolist())
