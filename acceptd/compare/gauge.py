"""What every measure of a kind shares: where it stands in a value, rows along the last axis, the worst place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from acceptd.compare.decode import Array
from acceptd.kind_facts import Measure, Place
from acceptd.values import Evidence

NARROW = 16
"""Rows of so few elements are summed and searched column by column: numpy's own loops over short rows are slow."""


class Gauge(Protocol):
    """A measure that is fed every tensor of an output, in order, in chunks of whole rows or parts of one row."""

    def begin(self, shape: Sequence[int], dtype: str, prefix: Sequence[int]) -> None:
        """Start a tensor of ``shape``; ``prefix`` is its place in a sequence of tensors."""
        ...

    def add(self, expected: Array, got: Array, start: int, *, same: bool) -> None:
        """Take float64 elements from flat index ``start``. ``same``: the bytes of both sides are equal."""
        ...

    def figures(self) -> dict[str, Evidence]:
        """Return the filled parts of ``OutputStats`` by field name."""
        ...


class Worst:
    """The greatest badness so far and its place; the first of equal ones stays."""

    def __init__(self) -> None:
        self.value = -math.inf
        self.place: Place | None = None

    def offer(self, value: float, place: Callable[[], Place]) -> None:
        """Take a badness (NaN counts as infinite); ``place`` is called only where it is the worst so far."""
        badness = math.inf if math.isnan(value) else value
        if badness > self.value:
            self.value, self.place = badness, place()


class Rows:
    """Base of measures over rows along the last axis; a scalar is one row of one element.

    A subclass has :meth:`whole` for many rows at once, and :meth:`part` with :meth:`close` for a row that is
    wider than a chunk; or :meth:`add` of its own, which takes elements as they come and needs none of the three.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] = ()
        self._prefix: list[int] = []
        self._width = 1
        self._filled = 0
        self.dtype = ""
        self.same = False
        """Whether the bytes of both sides of the present chunk are equal."""

    def begin(self, shape: Sequence[int], dtype: str, prefix: Sequence[int]) -> None:
        """Start a tensor."""
        self._shape, self._prefix, self.dtype = tuple(shape), list(prefix), dtype
        self._width = shape[-1] if shape else 1
        self._filled = 0
        self.started()

    def started(self) -> None:
        """A tensor begins: forget the parts of a row."""

    def add(self, expected: Array, got: Array, start: int, *, same: bool) -> None:
        """Take the next elements."""
        row, width = start // self._width, self._width
        self.same = same
        if not self._filled and expected.size % width == 0:
            self.whole(expected.reshape(-1, width), got.reshape(-1, width), row)
            return
        self.part(expected, got)
        self._filled += int(expected.size)
        if self._filled >= width:
            self._filled = 0
            self.close(row)

    def whole(self, expected: Array, got: Array, first: int) -> None:
        """Take [rows, width] from row ``first``."""
        raise NotImplementedError

    def part(self, expected: Array, got: Array) -> None:
        """Take the next elements of one row, from column ``_filled``."""
        raise NotImplementedError

    def close(self, row: int) -> None:
        """The row of the last parts is whole."""
        raise NotImplementedError

    def place(self, row: int, sides: Sequence[object] = ("", ""), column: int | None = None) -> Place:
        """Return the place of a row, or of an element in it, with what was expected there and what was got."""
        leading = self._shape[:-1]
        index = [int(axis) for axis in np.unravel_index(row, leading)] if leading else []
        index = [*self._prefix, *index, *([column] if column is not None and self._shape else [])]
        return Place(index=index[:80], expected=text(sides[0]), got=text(sides[1]))


def text(value: object) -> str:
    """Return a value in at most 200 characters: a number as short as its float64 can be told."""
    return (f"{value:.9g}" if isinstance(value, float) else str(value))[:200]


def measure(value: float) -> Measure:
    """Return a figure as evidence: 12 digits, as the last hang on the order of a sum; a string if not finite."""
    if math.isfinite(value):
        return float(f"{value:.12g}")
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def row_sums(rows: Array) -> Array:
    """Return the sum of each row of a float64 [rows, width] array."""
    if rows.shape[1] > NARROW:
        wide: Array = rows.sum(axis=1)
        return wide
    total = np.zeros(rows.shape[0])
    for column in range(rows.shape[1]):
        total += rows[:, column]
    return total


def quiet() -> Any:
    """Return a context in which NaN, infinity and overflow warn of nothing: values are hostile."""
    return np.errstate(all="ignore")
