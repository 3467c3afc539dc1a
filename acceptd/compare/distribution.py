"""Probabilities: range and sum of what was got, and how far each row's distribution is from the expected one."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from acceptd.compare.decode import Array
from acceptd.compare.gauge import Rows, Worst, measure, quiet, row_sums
from acceptd.compare.tally import scratch
from acceptd.kind_facts import Distribution
from acceptd.values import Evidence

UNIT: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""One unit in the last place at 1: a sum of exactly 1 + 1e-4 must pass though no binary float is it."""


class Distributed(Rows):
    """Range, sum and Jensen-Shannon divergence (docs/parity.md).

    Divergence takes logarithms, which cost more than all else. Topsøe (IEEE Transactions on Information Theory
    46(4), 2000) has, term by term, Δ/(4 ln 2) ≤ JS ≤ Δ/2 in bits for the triangular discrimination
    Δ = Σ (p - q)² / (p + q), and the factor nears 1/(4 ln 2) as p nears q (:func:`_most`). So only rows whose
    Δ can still hold the maximum are computed in full.
    """

    def __init__(self, tolerance: float) -> None:
        super().__init__()
        self._tolerance = tolerance
        self.rows = self.outside = self.sum_violations = 0
        self._outside, self._sum, self._divergence = Worst(), Worst(), Worst()
        self.started()

    def started(self) -> None:
        self._slack = self._tolerance + UNIT.get(self.dtype, 2.0**-3)
        self._total, self._apart, self._odd = 0.0, 0.0, False

    def whole(self, expected: Array, got: Array, first: int) -> None:
        self.rows += got.shape[0]
        self._range(got, first * self._width)
        with quiet():
            if self._width > 1:
                self._sums(row_sums(got), first)
            if self.same:
                self._divergence.offer(0.0, lambda: self.place(first))
            else:
                self._divergences(expected, got, first)

    def part(self, expected: Array, got: Array) -> None:
        self._range(got.reshape(1, -1), -1)
        with quiet():
            self._total += float(got.sum())
            if not self.same:
                self._apart += float(divergence(expected.reshape(1, -1), got.reshape(1, -1), cap=False)[0])

    def close(self, row: int) -> None:
        self.rows += 1
        self._sums(np.array([self._total]), row)
        apart = 1.0 if math.isnan(self._apart) else min(1.0, max(0.0, self._apart))
        self._divergence.offer(apart, lambda: self.place(row, ("the row", f"{apart:.6g} bit from it")))
        self.started()

    def _range(self, got: Array, start: int) -> None:
        if got.min() >= 0 and got.max() <= 1:  # NaN fails both
            return
        beyond = np.where(np.isnan(got), math.inf, np.maximum(-got, got - 1)).reshape(-1)
        self.outside += int(np.count_nonzero(beyond > 0))
        at = int(beyond.argmax())
        flat = start + at if start >= 0 else self._filled + at
        row, column = divmod(flat, self._width) if start >= 0 else (0, flat)
        self._outside.offer(
            float(beyond[at]), lambda: self.place(row, ("0 to 1", float(got.reshape(-1)[at])), column)
        )

    def _sums(self, sums: Array, first: int) -> None:
        error = np.abs(sums - 1)
        error = np.where(np.isnan(error), math.inf, error)
        self.sum_violations += int(np.count_nonzero(error > self._slack))
        at = int(error.argmax())
        self._sum.offer(float(error[at]), lambda: self.place(first + at, ("a sum of 1", float(sums[at]))))

    def _divergences(self, expected: Array, got: Array, first: int) -> None:
        total, apart, share = (one[: expected.size].reshape(expected.shape) for one in scratch(expected.size))
        np.add(expected, got, out=total)
        np.subtract(expected, got, out=apart)
        np.multiply(apart, apart, out=apart)
        total += 1e-300  # 0 / 0 is no distance
        apart /= total
        bound = row_sums(apart)
        odd = not math.isfinite(float(bound.sum())) or expected.min() < 0 or got.min() < 0
        if odd:
            rows = np.arange(bound.size)
        else:
            most = float(bound.max())
            np.divide(apart, total, out=share)
            least = max(self._divergence.value, most * _LEAST) / _most(float(share.max()))
            rows = np.flatnonzero(bound >= least * (1 - 1e-9)) if most > 0 else np.empty(0, np.int64)
        if not rows.size:
            self._divergence.offer(0.0, lambda: self.place(first))
            return
        found = divergence(expected[rows], got[rows])
        at = int(found.argmax())
        told = f"{found[at]:.6g} bit from it"
        self._divergence.offer(float(found[at]), lambda: self.place(first + int(rows[at]), ("the row", told)))

    def figures(self) -> dict[str, Evidence]:
        """Return ``distribution``."""
        apart, total = self._divergence, self._sum
        return {
            "distribution": Distribution(
                rows=self.rows,
                outside=self.outside,
                outside_worst=self._outside.place,
                max_sum_error=measure(total.value) if total.place is not None else None,
                sum_worst=total.place,
                sum_violations=self.sum_violations,
                max_divergence=measure(apart.value) if apart.place is not None else None,
                divergence_worst=apart.place if apart.value > 0 else None,
            )
        }


_LEAST: Final = 1 / (4 * math.log(2))


def _most(square: float) -> float:
    """Return the greatest JS / Δ in bits of terms whose ((p - q) / (p + q))² is ``square`` at most, 0 to 1.

    ((1 + t) ln(1 + t) + (1 - t) ln(1 - t)) / (4 ln 2 · t²) rises with t, from 1/(4 ln 2) to 1/2.
    """
    t = math.sqrt(min(square, 1.0))
    if t < 1e-3:
        return _LEAST * (1 + t * t)
    rest = (1 - t) * math.log1p(-t) if t < 1 else 0.0
    return _LEAST * ((1 + t) * math.log1p(t) + rest) / (t * t)


def divergence(expected: Array, got: Array, *, cap: bool = True) -> Array:
    """Return the Jensen-Shannon divergence in bits of each row of two float64 [rows, width] arrays.

    J. Lin, 1991: ½ Σ p log₂(p/m) + ½ Σ q log₂(q/m), m = ½(p + q). Negative elements count as 0; a row that is
    not finite has 1, unless it is equal on both sides. ``cap`` keeps it within [0, 1].
    """
    odd = ~(np.isfinite(expected).all(axis=1) & np.isfinite(got).all(axis=1))
    p, q = np.maximum(expected, 0), np.maximum(got, 0)
    m = (p + q) / 2
    terms = np.zeros(p.shape)
    for one in (p, q):
        inside = (one > 0) & (m > 0)
        terms += np.where(inside, one * np.log2(np.where(inside, one, 1) / np.where(inside, m, 1)), 0)
    total: Array = terms.sum(axis=1) / 2
    if odd.any():
        equal = ((expected == got) | (np.isnan(expected) & np.isnan(got))).all(axis=1)
        total = np.where(odd, np.where(equal, 0.0, 1.0), total)
    return np.clip(total, 0, 1) if cap else total
