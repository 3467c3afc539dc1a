"""Embeddings: direction and length of each row, and whether its nearest rows stay the nearest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from acceptd.compare.decode import Array
from acceptd.compare.gauge import Rows, Worst, measure, quiet
from acceptd.kind_facts import Embedding, Place
from acceptd.values import Evidence

MAX_ROWS: Final = 1024
MAX_ELEMENTS: Final = 4 << 20
"""Of one output over all its sets; kept as float32 on both sides until the neighbours are known."""
LEAST_COST: Final = 256
"""A row costs room as if it were so wide: its neighbours take time however narrow it is."""
NEAR: Final = 1e-6
"""Cosines this close are equally near."""


@dataclass
class Room:
    """How many elements all pools together may still keep."""

    elements: int = 4 * MAX_ELEMENTS


@dataclass
class Pool:
    """Rows of one output over all its sets, compared with one kind of thing."""

    room: Room = field(default_factory=Room)
    expected: list[Array] = field(default_factory=list)
    got: list[Array] = field(default_factory=list)
    known: dict[int, tuple[int, Array]] = field(default_factory=dict)

    def take(self, expected: Array, got: Array) -> range:
        """Keep rows of both sides, as many as there is room for; return their numbers."""
        width, first = max(1, expected.shape[1]), len(self.expected)
        if self.expected and self.expected[0].size != width:
            return range(0)
        cost = max(width, LEAST_COST)
        left = min(self.room.elements // cost, (MAX_ELEMENTS - first * width) // width)
        rows = max(0, min(MAX_ROWS - first, left, expected.shape[0]))
        for row in range(rows):
            self.expected.append(expected[row].astype(np.float32))
            self.got.append(got[row].astype(np.float32))
        self.room.elements -= rows * cost
        return range(first, first + rows)

    def agreement(self, k: int) -> tuple[int, Array]:
        """Return the k that was used (0: too few rows), and for each row the share of neighbours that stay."""
        if k not in self.known:
            self.known[k] = self._agreement(k)
        return self.known[k]

    def _agreement(self, k: int) -> tuple[int, Array]:
        count = len(self.expected)
        k = min(k, (count - 1) // 2)
        if k < 1:
            return 0, np.ones(count)
        with quiet():
            near, other = (_cosines(np.stack(side)) for side in (self.expected, self.got))
        least = np.partition(near, count - k, axis=1)[:, count - k, None] - NEAR
        chosen = np.argsort(-other, axis=1, kind="stable")[:, :k]
        share: Array = (np.take_along_axis(near, chosen, axis=1) >= least).mean(axis=1)
        return k, share


def _cosines(rows: Array) -> Array:
    """Return the cosine of every two rows as float64; a row is furthest from itself and from what is no number."""
    wide = rows.astype(np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    wide /= np.where(length > 0, length, 1)[:, None]
    found: Array = wide @ wide.T
    found[~np.isfinite(found)] = -2.0
    np.fill_diagonal(found, -3.0)
    return found


class Vectors(Rows):
    """Rows as vectors, see docs/parity.md. ``pool``: where rows are kept for their neighbours."""

    def __init__(self, k: int, pool: Pool) -> None:
        super().__init__()
        self._k, self._pool = k, pool
        self.rows = 0
        self._cosine, self._norm = Worst(), Worst()
        self._kept: list[tuple[int, Place]] = []
        self.started()

    def started(self) -> None:
        self._products = np.zeros(3)
        self._equal = True
        self._parts: list[tuple[Array, Array]] = []

    def whole(self, expected: Array, got: Array, first: int) -> None:
        self.rows += expected.shape[0]
        with quiet():
            numbers = self._pool.take(expected, got)
            self._kept += [(number, self.place(first + row)) for row, number in enumerate(numbers)]
            products = [
                np.einsum("ij,ij->i", *pair) for pair in ((expected, got), (expected, expected), (got, got))
            ]
            odd = not math.isfinite(sum(float(one.sum()) for one in products))
            equal = _equal(expected, got) if odd else np.zeros(expected.shape[0], np.bool_)
            self._judge(products[0], products[1], products[2], equal, first)

    def part(self, expected: Array, got: Array) -> None:
        with quiet():
            if self._width <= MAX_ELEMENTS // 4:
                self._parts.append((expected.astype(np.float32), got.astype(np.float32)))
            self._products += [expected @ got, expected @ expected, got @ got]
        self._equal = self._equal and bool(_equal(expected[None], got[None])[0])

    def close(self, row: int) -> None:
        self.rows += 1
        if self._parts:
            sides = [np.concatenate(side)[None] for side in zip(*self._parts, strict=True)]
            self._kept += [(number, self.place(row)) for number in self._pool.take(*sides)]
        with quiet():
            products = [np.array([one]) for one in self._products]
            self._judge(products[0], products[1], products[2], np.array([self._equal]), row)
        self.started()

    def _judge(self, dot: Array, left: Array, right: Array, equal: Array, first: int) -> None:
        """Take the products of rows; ``equal``: rows whose elements are the same, which have no need of them."""
        lengths = np.sqrt(left), np.sqrt(right)
        cosine = np.clip(dot / (lengths[0] * lengths[1]), -1, 1)
        nothing = (left == 0) & (right == 0)
        cosine = np.where((left == 0) | (right == 0), np.where(nothing, 1.0, 0.0), cosine)
        error = np.abs(lengths[1] - lengths[0]) / lengths[0]
        cosine, error = np.where(equal, 1.0, cosine), np.where(nothing | equal, 0.0, error)
        cosine, error = np.where(np.isnan(cosine), -math.inf, cosine), np.where(np.isnan(error), math.inf, error)
        at, far = int(cosine.argmin()), int(error.argmax())
        self._cosine.offer(
            -float(cosine[at]), lambda: self.place(first + at, ("the row", f"cosine {cosine[at]:.9g}"))
        )
        told = f"length {lengths[0][far]:.9g}", f"length {lengths[1][far]:.9g}"
        self._norm.offer(float(error[far]), lambda: self.place(first + far, told))

    def figures(self) -> dict[str, Evidence]:
        """Return ``embedding``; its neighbours are those of the pool as it is now."""
        k, shares = self._pool.agreement(self._k) if self._kept else (0, np.ones(0))
        own = shares[[number for number, _ in self._kept]] if k else np.ones(0)
        worst = None
        if k:
            at = int(own.argmin())
            place = self._kept[at][1]
            told = {"expected": f"its {k} nearest rows", "got": f"{round(float(own[at]) * k)} of them"}
            worst = place.model_copy(update=told)
        found = self._cosine.place is not None
        return {
            "embedding": Embedding(
                rows=self.rows,
                min_cosine=measure(-self._cosine.value) if found else None,
                cosine_worst=self._cosine.place,
                max_norm_error=measure(self._norm.value) if found else None,
                norm_worst=self._norm.place,
                k=k,
                neighbours=measure(float(own.mean())) if k else None,
                neighbours_worst=worst if worst is not None and own.min() < 1 else None,
            )
        }


def _equal(expected: Array, got: Array) -> Array:
    """Say of each row whether its elements are the same, NaN and infinities too."""
    found: Array = ((expected == got) | (np.isnan(expected) & np.isnan(got))).all(axis=1)
    return found
