"""Rows along the last axis: the top class of logits and probabilities, range and sum of probabilities."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from acceptd.compare.tally import Tally

Array = np.ndarray[Any, Any]

SUM_TOLERANCE: Final = 1e-4
_UNIT: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""One unit in the last place at 1: a sum of exactly 1 + 1e-4 must pass though no binary float is it."""


class Rows:
    """Rows of ``width`` elements, fed in order, whole or in parts.

    Ties go to the lowest index; NaN is no class. A row of a single probability needs no sum of 1.
    """

    def __init__(self, width: int, dtype: str, tally: Tally, *, probabilities: bool) -> None:
        self._width = width
        self._tally = tally
        self._probabilities = probabilities
        self._slack = SUM_TOLERANCE + _UNIT.get(dtype, 2.0**-3)
        self._reset()

    def _reset(self) -> None:
        self._filled = 0
        self._best = [-math.inf, -math.inf]
        self._index = [0, 0]
        self._sum = 0.0

    def add(self, expected: Array, got: Array) -> None:
        """Take the next elements of both sides (float64)."""
        if self._probabilities:
            with np.errstate(invalid="ignore"):
                self._tally.range_violations += int(np.count_nonzero(~((got >= 0) & (got <= 1))))
        if self._filled == 0 and expected.size % self._width == 0:
            self._whole(expected.reshape(-1, self._width), got.reshape(-1, self._width))
        else:
            self._part(expected, got)

    def _whole(self, expected: Array, got: Array) -> None:
        first, second = _ranked(expected).argmax(axis=1), _ranked(got).argmax(axis=1)
        self._tally.top1_total += len(first)
        self._tally.top1_mismatches += int(np.count_nonzero(first != second))
        if self._probabilities and self._width > 1:
            with np.errstate(all="ignore"):
                sums = got.sum(axis=1)
                self._tally.range_violations += int(np.count_nonzero(~(np.abs(sums - 1) <= self._slack)))

    def _part(self, expected: Array, got: Array) -> None:
        """Take a part of one row; rows wider than a chunk come this way. Parts never span two rows."""
        for side, values in enumerate((_ranked(expected), _ranked(got))):
            at = int(values.argmax())
            if values[at] > self._best[side]:
                self._best[side], self._index[side] = float(values[at]), self._filled + at
        with np.errstate(all="ignore"):
            self._sum += float(got.sum())
        self._filled += int(expected.size)
        if self._filled >= self._width:
            self._tally.top1_total += 1
            self._tally.top1_mismatches += int(self._index[0] != self._index[1])
            if self._probabilities and not abs(self._sum - 1) <= self._slack:
                self._tally.range_violations += 1
            self._reset()


def _ranked(values: Array) -> Array:
    return np.where(np.isnan(values), -math.inf, values)
