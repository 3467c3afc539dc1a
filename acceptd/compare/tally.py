"""Error statistics of one output, gathered chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Tally:
    """Running statistics. Formula: an element exceeds where ``|got - expected| > atol + rtol * |expected|``.

    NaN equals NaN, an infinity equals itself; each differs from all else by more than any
    tolerance (as ``numpy.testing.assert_allclose`` has it).
    """

    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol = rtol
        self.atol = atol
        self.n = 0
        self.exceeding = 0
        self.max_abs = 0.0
        self.max_rel = 0.0
        self.non_finite = 0
        self.bit_exact = True
        self.top1_total = 0
        self.top1_mismatches = 0
        self.range_violations = 0
        self.worst_index: list[int] = []
        self.worst_expected = ""
        self.worst_got = ""
        self._excess = -math.inf

    def add(self, expected: Array, got: Array, shape: Sequence[int], start: int, prefix: list[int]) -> None:
        """Take elements from flat index ``start`` of a tensor of ``shape``. ``prefix`` places the tensor."""
        size = int(expected.size)
        if not size:
            return
        with np.errstate(all="ignore"):
            magnitude = np.abs(expected.astype(np.float64) if expected.dtype.kind in "iu" else expected)
            difference = self._difference(expected, got)
            allowed = self.atol + self.rtol * magnitude
            excess = difference - allowed
            at = int(excess.argmax())  # a NaN (both sides infinite) comes out first
            if not math.isfinite(excess[at]):
                excess = difference - np.where(np.isfinite(allowed), allowed, 0.0)
                at = int(excess.argmax())
            relative = np.divide(difference, magnitude, out=np.zeros(size), where=difference > 0)
        self.n += size
        self.exceeding += int(np.count_nonzero(excess > 0))
        self.max_abs = max(self.max_abs, float(difference.max()))
        most = float(relative.max())
        self.max_rel = max(self.max_rel, math.inf if math.isnan(most) else most)
        self._count_non_finite(got)
        worst = float(excess[at])
        if worst > self._excess:
            self._worst(worst, prefix, start + at, shape, str(expected[at]), str(got[at]))

    def equal(self, got: Array) -> None:
        """Take elements whose bytes are those of the expected ones: nothing differs."""
        self.n += int(got.size)
        self._count_non_finite(got)

    def _count_non_finite(self, got: Array) -> None:
        if got.dtype.kind in "fc":
            self.non_finite += int(got.size) - int(np.count_nonzero(np.isfinite(got)))

    def _worst(
        self, excess: float, prefix: list[int], flat: int, shape: Sequence[int], expected: str, got: str
    ) -> None:
        self._excess = excess
        index = [int(axis) for axis in np.unravel_index(flat, tuple(shape))] if shape else []
        self.worst_index = (prefix + index)[:80]
        self.worst_expected, self.worst_got = expected[:200], got[:200]

    @staticmethod
    def _difference(expected: Array, got: Array) -> Array:
        """Return |got - expected| as float64; exact for 64-bit integers; infinite where only equality would do."""
        if expected.dtype.kind in "iu":
            # two's complement: the wrapped difference read as unsigned is the true distance
            low, high = np.minimum(expected, got), np.maximum(expected, got)
            return (high - low).view(np.uint64).astype(np.float64)
        difference: Array = np.abs(got - expected)
        if math.isfinite(difference.max()):
            return difference
        special = ~(np.isfinite(expected) & np.isfinite(got))
        same = (expected == got) | (np.isnan(expected) & np.isnan(got))
        difference = np.where(special, np.where(same, 0.0, math.inf), difference)
        return np.where(np.isnan(difference), math.inf, difference)

    def unequal(self, shape: Sequence[int], flat: int, prefix: list[int], expected: str, got: str) -> None:
        """Take one element of a type that only knows equality, and that differs."""
        self.exceeding += 1
        self.max_abs = self.max_rel = math.inf
        if self._excess < math.inf:
            self._worst(math.inf, prefix, flat, shape, expected, got)
