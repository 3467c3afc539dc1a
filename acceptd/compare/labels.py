"""Rows of two outputs by the class that each gives them: how often they agree, and which labels lose rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import MalformedError
from acceptd.compare.nested import Blobs, blob_of, plain
from acceptd.compare.tally import Tally
from acceptd.compare.task import Slice
from acceptd.compare.values import CHUNK_ELEMENTS, DiffersError, chunks
from acceptd.statistics_facts import LabelRows, Labels
from acceptd.values import TensorRef

Array = np.ndarray[Any, Any]
MOST: Final = 256
"""Labels told of one output and set; rows of the others are counted together."""


def count(
    expected: Slice, got: Slice, blobs: Blobs, order: list[int] | None, kind: str = "logits"
) -> Labels | None:
    """Return the classes of the rows along the last axis; None where there are no such rows.

    The class is the index of the greatest element, the lowest on a tie; NaN is no class. A single probability or
    logit is that of class 1 against class 0. ``order`` gives for each column of ``expected`` the one of ``got``
    with the same label. Raises MalformedError.
    """
    left = plain(expected.value)
    if not isinstance(left, TensorRef) or left.dtype not in decode.FLOATS or not left.shape:
        return None
    width = left.shape[-1]
    if not 1 <= width <= CHUNK_ELEMENTS:
        return None
    half = 0.5 if kind == "probabilities" else 0.0
    classes = max(width, 2)
    rows, missed = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
    try:
        for _, first, second in _rows(expected, got, blobs, order):
            told, given = (_top(side.reshape(-1, width), half) for side in (first, second))
            rows += np.bincount(told, minlength=classes)
            missed += np.bincount(told[told != given], minlength=classes)
    except DiffersError:
        return None
    used = [int(index) for index in np.flatnonzero(rows)]
    used.sort(key=lambda index: (-int(missed[index]), index))
    kept, rest = used[:MOST], used[MOST:]
    return Labels(
        rows=int(rows.sum()),
        mismatches=int(missed.sum()),
        labels=[LabelRows(index=one, rows=int(rows[one]), missed=int(missed[one])) for one in kept],
        other_rows=int(rows[rest].sum()) if rest else 0,
        other_missed=int(missed[rest].sum()) if rest else 0,
    )


def reordered(expected: Slice, got: Slice, blobs: Blobs, order: list[int], tally: Tally) -> None:
    """Add the comparison of two tensors whose columns stand in another order; for ``order`` see :func:`count`.

    Raises DiffersError, MalformedError.
    """
    left = plain(expected.value)
    for start, first, second in _rows(expected, got, blobs, order):
        assert isinstance(left, TensorRef)
        tally.bit_exact = tally.bit_exact and bool(np.array_equal(first, second))
        tally.add(first, second, left.shape, start, [])


def _rows(
    expected: Slice, got: Slice, blobs: Blobs, order: list[int] | None
) -> Iterator[tuple[int, Array, Array]]:
    """Yield (first flat index, elements of both) of whole rows, the second's columns in the order of the first."""
    left, right = plain(expected.value), plain(got.value)
    if not isinstance(left, TensorRef) or not isinstance(right, TensorRef):
        raise DiffersError("kind")
    one, other = blob_of(expected, blobs), blob_of(got, blobs)
    total = decode.check(left, one)
    decode.check(right, other)
    if left.dtype != right.dtype or left.dtype not in decode.FLOATS:
        raise DiffersError("dtype")
    if left.shape != right.shape or not left.shape:
        raise DiffersError("shape")
    width = left.shape[-1]
    if width > CHUNK_ELEMENTS or (order is not None and sorted(order) != list(range(width))):
        raise DiffersError("shape")
    for start, stop in chunks(total, width, CHUNK_ELEMENTS):
        _, first = decode.read(left, one, start, stop)
        _, second = decode.read(right, other, start, stop)
        if first.size % width or second.size != first.size:
            raise MalformedError("a part of a row")
        if order is not None:
            second = second.reshape(-1, width)[:, order].reshape(-1)
        yield start, first, second


def _top(rows: Array, half: float) -> Array:
    if rows.shape[1] == 1:
        single: Array = (rows[:, 0] > half).astype(np.int64)
        return single
    top: Array = np.where(np.isnan(rows), -math.inf, rows).argmax(axis=1)
    return top
