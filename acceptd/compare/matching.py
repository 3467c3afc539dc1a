"""Which box belongs to which: intersection over union, and a greedy matching one to one. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from acceptd.compare.decode import Array

MAX_BOXES: Final = 1024
"""Of one image on either side; more are held against each other by position."""


def corners(rows: Array, form: Sequence[str]) -> Array:
    """Return [4, ...] (x1, y1, x2, y2) of boxes [..., 4] whose coordinates are in the order of ``form``."""
    first, second, third, fourth = np.moveaxis(rows, -1, 0)
    if form[0] == "cx":
        return np.stack([first - third / 2, second - fourth / 2, first + third / 2, second + fourth / 2])
    if form[2] == "w":
        return np.stack([first, second, first + third, second + fourth])
    return np.stack([first, second, third, fourth])


def same(one: Array, other: Array) -> Array:
    """Say of each element whether both are equal; NaN, which alone differs from itself, equals NaN."""
    return np.asarray((one == other) | ((one != one) & (other != other)))


def overlap(one: Array, other: Array) -> Array:
    """Return intersection over union of corners [4, ...] and [4, ...], broadcast (Everingham et al., 2010).

    Equal boxes have 1, also without an area and where both have NaN (rows that pad); else a box with a NaN, or
    without a finite area, has 0.
    """
    inside = np.minimum(one[2], other[2])
    inside -= np.maximum(one[0], other[0])
    height = np.minimum(one[3], other[3])
    height -= np.maximum(one[1], other[1])
    np.maximum(inside, 0, out=inside)
    np.maximum(height, 0, out=height)
    inside *= height
    areas = [np.maximum(box[2] - box[0], 0) * np.maximum(box[3] - box[1], 0) for box in (one, other)]
    found = inside / (areas[0] + areas[1] - inside)
    if not float(found.min(initial=0.0)) >= 0 or not float(found.max(initial=0.0)) < 1:  # NaN fails both
        equal = same(one, other).all(axis=0)
        found = np.where(equal, 1.0, np.clip(np.where(np.isnan(found), 0.0, found), 0.0, 1.0))
    return np.asarray(found)


def match(iou: Array, alike: Array, apart: Array, least: float) -> tuple[Array, Array]:
    """Return the matched (expected, got) indices of [expected, got] tables, in the order of the expected.

    Greedy as in the PASCAL VOC challenge. First pairs that are ``alike`` (of one class) and overlap by
    ``least`` or more, then all others that overlap; the greatest overlap first, then the nearer score
    (``apart``), then the lowest indices. Pairs without overlap are none.
    """
    chosen = _mutual(np.where(alike & (iou >= least), iou, 0.0))
    if chosen is not None:
        return np.arange(chosen.size), chosen
    rows, columns = np.nonzero(iou > 0)
    value, far = iou[rows, columns], apart[rows, columns]
    later = ~(alike[rows, columns] & (value >= least))
    free_rows, free_columns = [True] * iou.shape[0], [True] * iou.shape[1]
    pairs: list[tuple[int, int]] = []
    most = min(iou.shape)
    order = np.lexsort((columns, rows, far, -value, later))
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free_rows[row] and free_columns[column]:
            free_rows[row] = free_columns[column] = False
            pairs.append((row, column))
            if len(pairs) == most:
                break
    pairs.sort()
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _mutual(table: Array) -> Array | None:
    """Return the column of each row where all are each other's only best: any greedy order ends there."""
    if not table.size or table.shape[0] != table.shape[1]:
        return None
    best = table.max(axis=1)
    if best.min() <= 0:
        return None
    column = table.argmax(axis=1)
    rows = np.arange(column.size)
    if (table.argmax(axis=0)[column] != rows).any():
        return None
    single = all(int(np.count_nonzero(table == most)) == rows.size for most in (best[:, None], table.max(axis=0)))
    return column if single else None
