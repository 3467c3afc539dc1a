"""Two tensors against each other, in chunks: numbers of every kind, and strings."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.boxes import Part
from acceptd.compare.kinds import Measures
from acceptd.compare.tally import Tally
from acceptd.values import TensorRef

CHUNK_ELEMENTS: Final = 1 << 15
"""256 KiB as float64, so that a chunk and what is computed of it stay in the processor's cache."""
MAX_KEYS: Final = 1 << 18
MAX_STRINGS: Final = 4_000_000
INTEGERS: Final = frozenset(
    {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", *decode.PACKED} - {"float4e2m1"}
)
_LENGTH: Final = struct.Struct("<I")


class DiffersError(Exception):
    """The two values cannot be compared element by element; the argument is the note (``dtype``, ``shape``, …)."""


def tensors(
    expected: TensorRef, first: Blob, got: TensorRef, second: Blob, measures: Measures, prefix: list[int]
) -> None:
    """Add the comparison of two tensors to ``measures``. Raises DiffersError, MalformedError."""
    total = decode.check(expected, first)
    decode.check(got, second)
    if expected.dtype != got.dtype:
        raise DiffersError("dtype")
    tokens, tally = measures.tokens, measures.tally
    if tokens is not None and expected.dtype in INTEGERS:
        if expected.shape != got.shape and (
            not tokens.may_differ or not expected.shape or expected.shape[:-1] != got.shape[:-1]
        ):
            raise DiffersError("shape")
        same = same_bytes(expected, first, got, second)
        tokens.tensors(expected, first, got, second, prefix)
        tally.bit_exact = tally.bit_exact and same
        tally.n, tally.exceeding = tokens.tokens, tokens.other
        return
    if expected.shape != got.shape:
        raise DiffersError("shape")
    if expected.dtype == "string":
        _strings(expected, first, got, second, total, tally, prefix)
        return
    width = expected.shape[-1] if expected.shape else 1
    gauges = measures.gauges(expected.dtype) if total else []
    for gauge in gauges:
        gauge.begin(expected.shape, expected.dtype, prefix)
    left, right = (
        decode.Reader(ref, blob, min(total, CHUNK_ELEMENTS)) for ref, blob in ((expected, first), (got, second))
    )
    for start, stop in chunks(total, width, CHUNK_ELEMENTS):
        raw, values = left.take(start, stop)
        other, results = right.take(start, stop)
        same = equal_bytes(raw, other)
        if same:
            tally.equal(results)
        else:
            tally.bit_exact = False
            tally.add(values, results, expected.shape, start, prefix)
        for gauge in gauges:
            gauge.add(values, results, start, same=same)


def boxes(
    expected: TensorRef,
    first: Blob,
    got: TensorRef,
    second: Blob,
    measures: Measures,
    prefix: list[int],
    companions: Sequence[Part | None] = (None, None),
) -> None:
    """Add the comparison of boxes, with their scores and classes, to ``measures``.

    Raises DiffersError, MalformedError. The number of boxes (the last axis but one) may differ.
    """
    matched = measures.boxes
    assert matched is not None
    decode.check(expected, first)
    decode.check(got, second)
    if expected.dtype != got.dtype:
        raise DiffersError("dtype")
    if len(expected.shape) != len(got.shape) or any(
        one != other
        for axis, (one, other) in enumerate(zip(expected.shape, got.shape, strict=True))
        if axis != len(expected.shape) - 2
    ):
        raise DiffersError("shape")
    same = expected.shape == got.shape and same_bytes(expected, first, got, second)
    part = Part((expected, got), (first, second), measures.tally, len(expected.shape) - 1)
    scores, classes = companions
    matched.tensors(part, scores, classes, prefix)
    measures.tally.bit_exact = measures.tally.bit_exact and same


def equal_bytes(one: decode.Array, other: decode.Array) -> bool:
    """Say whether two uint8 arrays are equal, eight bytes at a time where they can be."""
    if one.size != other.size:
        return False
    if one.size % 8 == 0 and one.size:
        return bool((one.view(np.uint64) == other.view(np.uint64)).all())
    return bool((one == other).all())


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
    step = 1 << 20
    return all(
        first.read(left.offset + at, min(step, left.nbytes - at))
        == second.read(right.offset + at, min(step, left.nbytes - at))
        for at in range(0, left.nbytes, step)
    )


def map_keys(ref: TensorRef, blob: Blob) -> list[object]:
    """Return the keys of a map, in file order (numbers or bytes). Raises MalformedError for very large maps."""
    total = decode.check(ref, blob)
    if len(ref.shape) != 1 or total > MAX_KEYS:
        raise MalformedError("the keys of a map are one short row")
    if ref.dtype == "string":
        return list(strings(ref, blob, total))
    _, values = decode.read(ref, blob, 0, total)
    return list(np.asarray(values).tolist())
