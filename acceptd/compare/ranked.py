"""Logits and probabilities: the top class of each row, and the set of its k highest ones."""

from __future__ import annotations

import math

import numpy as np

from acceptd.compare.decode import Array
from acceptd.compare.gauge import NARROW, Rows
from acceptd.kind_facts import Place, Ranking
from acceptd.values import Evidence


class Ranked(Rows):
    """Top classes of both sides. Ties go to the lowest index; NaN is no class."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.rows = 0
        self.top1_mismatches = 0
        self.topk_mismatches = 0
        self._top1: Place | None = None
        self._topk: Place | None = None
        self.started()

    def started(self) -> None:
        self._best: list[tuple[Array, Array]] = [(np.empty(0), np.empty(0, np.int64))] * 2

    def whole(self, expected: Array, got: Array, first: int) -> None:
        self.rows += expected.shape[0]
        if self.same:
            return
        left, right = ranked(expected), ranked(got)
        tops = top(left), top(right)
        other = np.flatnonzero(tops[0] != tops[1])
        self.top1_mismatches += other.size
        if other.size and self._top1 is None:
            row = int(other[0])
            told = [
                f"class {one[row]} ({rows[row, one[row]]:.9g})"
                for one, rows in zip(tops, (expected, got), strict=True)
            ]
            self._top1 = self.place(first + row, told)
        if 1 < self.k < self._width:
            changed = np.flatnonzero((highest(left, self.k) != highest(right, self.k)).any(axis=1))
            self.topk_mismatches += changed.size
            if changed.size and self._topk is None:
                row = int(changed[0])
                sets = [np.flatnonzero(highest(one[row : row + 1], self.k)[0]) for one in (left, right)]
                self._topk = self.place(first + row, [_set(one) for one in sets])
        elif self.k == 1:
            self.topk_mismatches, self._topk = self.top1_mismatches, self._top1

    def part(self, expected: Array, got: Array) -> None:
        for side, given in enumerate((expected, got)):
            values = ranked(given.reshape(1, -1))
            at = values.argmax(axis=1) if self.k == 1 else np.flatnonzero(highest(values, self.k)[0])
            value = np.concatenate([self._best[side][0], values[0, at]])
            index = np.concatenate([self._best[side][1], at + self._filled])
            order = np.lexsort((index, -value))[: self.k]
            self._best[side] = value[order], index[order]

    def close(self, row: int) -> None:
        self.rows += 1
        (values, left), (others, right) = self._best
        if left[0] != right[0]:
            self.top1_mismatches += 1
            told = f"class {left[0]} ({values[0]:.9g})", f"class {right[0]} ({others[0]:.9g})"
            self._top1 = self._top1 or self.place(row, told)
        if self.k == 1:
            self.topk_mismatches, self._topk = self.top1_mismatches, self._top1
        elif set(left.tolist()) != set(right.tolist()):
            self.topk_mismatches += 1
            self._topk = self._topk or self.place(row, (_set(np.sort(left)), _set(np.sort(right))))
        self.started()

    def figures(self) -> dict[str, Evidence]:
        """Return ``ranking``."""
        return {
            "ranking": Ranking(
                k=self.k,
                rows=self.rows,
                top1_mismatches=self.top1_mismatches,
                topk_mismatches=self.topk_mismatches,
                top1_worst=self._top1,
                topk_worst=self._topk,
            )
        }


def _set(classes: Array) -> str:
    return "classes " + ", ".join(map(str, classes[:24].tolist()))


def ranked(rows: Array) -> Array:
    """Return rows in which NaN is less than everything; the same array where there is none."""
    return np.where(np.isnan(rows), -math.inf, rows) if math.isnan(rows.max(initial=-math.inf)) else rows


def top(rows: Array) -> Array:
    """Return the index of the greatest element of each row, the lowest of equal ones. [rows, width], no NaN."""
    if rows.shape[1] > NARROW:
        found: Array = rows.argmax(axis=1)
        return found
    columns = np.ascontiguousarray(rows.T)
    best, index = columns.max(axis=0), np.zeros(rows.shape[0], np.int8)
    for column in range(rows.shape[1] - 1, -1, -1):  # the lowest one stays
        np.copyto(index, np.int8(column), where=columns[column] == best)
    return index


def highest(rows: Array, k: int) -> Array:
    """Return a mask of the ``k`` highest elements of each row; of equal ones at the border the lowest indices."""
    width = rows.shape[1]
    if k >= width:
        return np.ones(rows.shape, np.bool_)
    border = np.partition(rows, width - k, axis=1)[:, width - k, None]
    above, equal = rows > border, rows == border
    left = k - above.sum(axis=1, keepdims=True)
    mask: Array = above | (equal & (np.cumsum(equal, axis=1) <= left))
    return mask
