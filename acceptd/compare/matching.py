"""Which box belongs to which: intersection over union, and a greedy matching one to one. Arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from acceptd.compare.decode import Array

MAX_BOXES: Final = 1024
"""Of one image on either side; more are held against each other by position."""


def corners(rows: Array, form: Sequence[str]) -> Array:
    """Return [..., 4] as two corners (x1, y1, x2, y2) of coordinates in the order of ``form``."""
    if form[0] == "cx":
        centre, half = rows[..., :2], rows[..., 2:] / 2
        return np.concatenate([centre - half, centre + half], axis=-1)
    if form[2] == "w":
        return np.concatenate([rows[..., :2], rows[..., :2] + rows[..., 2:]], axis=-1)
    return rows


def overlap(one: Array, other: Array) -> Array:
    """Return intersection over union of corners [..., 4] and [..., 4], broadcast (Everingham et al., 2010).

    Equal boxes have 1, also without an area; a box with a NaN, or without a finite area, has 0 with others.
    """
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    inside = np.prod(np.maximum(sides, 0), axis=-1)
    areas = [np.prod(np.maximum(box[..., 2:] - box[..., :2], 0), axis=-1) for box in (one, other)]
    found = inside / (areas[0] + areas[1] - inside)
    found = np.where((one == other).all(axis=-1), 1.0, found)
    bounded: Array = np.clip(np.where(np.isnan(found), 0.0, found), 0.0, 1.0)
    return bounded


def match(iou: Array, alike: Array, apart: Array, least: float) -> tuple[Array, Array]:
    """Return the matched (expected, got) indices of [expected, got] tables, in the order of the expected.

    Greedy as in the PASCAL VOC challenge. First pairs that are ``alike`` (of one class) and overlap by
    ``least`` or more, then all others that overlap; the greatest overlap first, then the nearer score
    (``apart``), then the lowest indices. Pairs without overlap are none.
    """
    rows, columns = np.nonzero(iou > 0)
    value, far = iou[rows, columns], apart[rows, columns]
    later = ~(alike[rows, columns] & (value >= least))
    free_rows, free_columns = [True] * iou.shape[0], [True] * iou.shape[1]
    chosen: list[tuple[int, int]] = []
    most = min(iou.shape)
    order = np.lexsort((columns, rows, far, -value, later))
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free_rows[row] and free_columns[column]:
            free_rows[row] = free_columns[column] = False
            chosen.append((row, column))
            if len(chosen) == most:
                break
    chosen.sort()
    pairs = np.array(chosen, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
