"""Error statistics of one output, gathered chunk by chunk."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


@functools.lru_cache(maxsize=1)
def _buffers(size: int) -> tuple[Array, Array, Array]:
    return np.empty(size), np.empty(size), np.empty(size)


def scratch(size: int) -> tuple[Array, Array, Array]:
    """Return three float64 arrays of at least ``size`` elements, whose content is nobody's. One thread alone."""
    return _buffers(max(LEAST_SCRATCH, size))


LEAST_SCRATCH: Final = 1 << 15


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
        self.worst_index: list[int] = []
        self.worst_expected = ""
        self.worst_got = ""
        self._excess = -math.inf

    def add(
        self,
        expected: Array,
        got: Array,
        shape: Sequence[int],
        start: int,
        prefix: list[int],
        flat: Array | None = None,
    ) -> None:
        """Take elements from flat index ``start`` of a tensor of ``shape``. ``prefix`` places the tensor.

        ``flat``: the flat index of each element, where they do not follow one another.
        """
        size = int(expected.size)
        if not size:
            return
        with np.errstate(all="ignore"):
            quick = self._quick(expected, got) if expected.dtype == np.float64 else None
            at, worst, most, far, beyond = quick or self._slow(expected, got)
        self.n += size
        self.exceeding += beyond
        self.max_abs = max(self.max_abs, most)
        self.max_rel = max(self.max_rel, math.inf if math.isnan(far) else far)
        if quick is None:
            self._count_non_finite(got)
        if worst > self._excess:
            place = start + at if flat is None else int(flat[at])
            self._worst(worst, prefix, place, shape, str(expected[at]), str(got[at]))

    def _quick(self, expected: Array, got: Array) -> tuple[int, float, float, float, int] | None:
        """Return what :meth:`_slow` does, without a new array; None where a value or difference is not finite."""
        difference, magnitude, excess = (one[: expected.size] for one in scratch(expected.size))
        np.subtract(got, expected, out=difference)
        np.abs(difference, out=difference)
        most = float(difference.max())
        if not math.isfinite(most):
            return None
        if not most:
            return 0, -self.atol, 0.0, 0.0, 0
        np.abs(expected, out=magnitude)
        if self.rtol:
            np.multiply(magnitude, self.rtol, out=excess)
            np.subtract(difference, excess, out=excess)
            np.subtract(excess, self.atol, out=excess)
        else:
            np.subtract(difference, self.atol, out=excess)
        at = int(excess.argmax())
        worst = float(excess[at])
        if not math.isfinite(worst):
            return None
        near = worst > -1e-9 * self.atol  # close calls are decided by the sum, as the formula has it
        allowed = self.atol + self.rtol * magnitude if near else excess
        beyond = int(np.count_nonzero(difference > allowed)) if near else 0
        np.divide(difference, magnitude, out=magnitude)
        return at, worst, most, float(np.fmax.reduce(magnitude)), beyond

    def _slow(self, expected: Array, got: Array) -> tuple[int, float, float, float, int]:
        """Return index and excess of the worst element, greatest difference and relative one, how many exceed."""
        magnitude = np.abs(expected.astype(np.float64) if expected.dtype.kind in "iu" else expected)
        difference = self._difference(expected, got)
        allowed = self.atol + self.rtol * magnitude
        excess = difference - allowed
        at = int(excess.argmax())  # a NaN (both sides infinite) comes out first
        if not math.isfinite(excess[at]):
            excess = difference - np.where(np.isfinite(allowed), allowed, 0.0)
            at = int(excess.argmax())
        relative = np.divide(difference, magnitude, out=np.zeros(expected.size), where=difference > 0)
        beyond = int(np.count_nonzero(excess > 0))
        return at, float(excess[at]), float(difference.max()), float(relative.max()), beyond

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
