"""Numbers of weights and constants: least, greatest, NaN and infinite, by element type; read once.

Small tensors are taken from the parsed copy of the model; large and external ones come in pieces from the
content pass (:mod:`sandbox.inspect.contents`), which reads no byte twice, however many tensors name it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sandbox.inspect import ranges
from sandbox.inspect.problems import Problems
from sandbox.inspect.ranges import Range
from sandbox.messages import text_of
from sandbox.wire_places import places
from sandbox.wire_tensor import DTYPES, Buffer, TensorRecord, skip, varint

MAX_TOLD: Final = 12
_RAW_DATA: Final = 9
_PLAIN: Final = {4: "float32", 10: "float64"}
"""Typed value fields whose packed form is the raw form."""


@dataclass(slots=True)
class IntegerFacts:
    """What is known of the elements of large integer tensors of one name."""

    least: int
    greatest: int
    zero: bool | None
    minus_one: bool | None

    def holds(self, number: int) -> bool | None:
        """Whether one of them is ``number``; None where that was not looked at."""
        if not self.least <= number <= self.greatest:
            return False
        if number in {self.least, self.greatest}:
            return True
        return {0: self.zero, -1: self.minus_one}.get(number)


def name_of(tensor: Any) -> str:
    """Return a tensor's name as text."""
    return text_of(tensor.name)


@dataclass(slots=True)
class _Total:
    tensors: int = 0
    read: int = 0
    elements: int = 0
    range: Range = field(default_factory=Range)


class Looking:
    """Looks at one tensor's elements, piece by piece (a Watcher of :mod:`sandbox.inspect.bytes`)."""

    def __init__(self, weights: Weights, dtype: str, name: str, total: _Total, at: int | str) -> None:
        self.dtype, self.name, self.total, self.at = dtype, name, total, at
        self.range = Range()
        self.zero = self.minus = False
        self.exact = dtype in {"int32", "int64", "uint32", "uint64"}
        self._weights = weights

    def feed(self, _at: int, piece: memoryview) -> None:
        """Look at the next elements."""
        self.range.add(ranges.look(self.dtype, piece))
        if self.exact:
            numbers = np.frombuffer(piece, ranges.INTEGERS[self.dtype])
            self.zero = self.zero or not numbers.all()
            self.minus = self.minus or (self.dtype[0] == "i" and bool((numbers == -1).any()))

    def end(self) -> None:
        """Put what was seen to the rest."""
        self._weights.looked(self)


class Weights:
    """Collects over all tensors of a model."""

    def __init__(self) -> None:
        self.integers: dict[str, IntegerFacts] = {}
        self._totals: dict[str, _Total] = {}
        self._small: dict[str, list[tuple[bytes, Any, Callable[[], str]]]] = {}
        self._faults: list[tuple[int | str, str, str]] = []
        """(offset in the file or place, name, what)."""
        self._count = 0

    def small(self, tensor: Any, place: Callable[[], str]) -> None:
        """Take a tensor of the parsed copy; one without values is a large one, which comes by its record."""
        number = tensor.data_type
        dtype = DTYPES[number] if 0 < number < len(DTYPES) else ""
        raw = tensor.raw_data
        if not raw:
            if dtype == "float32" and tensor.float_data:
                raw = np.array(tensor.float_data, "<f4").tobytes()
            elif dtype == "float64" and tensor.double_data:
                raw = np.array(tensor.double_data, "<f8").tobytes()
            elif dtype == "int64" and tensor.int64_data:
                raw = np.array(tensor.int64_data, "<i8").tobytes()
            elif dtype == "int32" and tensor.int32_data:
                raw = np.array(tensor.int32_data, "<i4").tobytes()
            else:
                return
        width = ranges.width(dtype)
        if width and len(raw) % width == 0:
            self._small.setdefault(dtype, []).append((raw, tensor, place))

    def watcher(
        self, tensor: TensorRecord, name: str, at: int | str, size: int, *, again: bool = False
    ) -> Looking | None:
        """Count a large or external tensor of ``size`` bytes; return who looks at them, or None where nobody can.

        ``at`` is its offset in the model file, or its place. ``again``: another tensor has the same bytes.
        """
        dtype = DTYPES[tensor.dtype] if 0 < tensor.dtype < len(DTYPES) else ""
        total = self._total(dtype, tensor.elements if all(dim >= 0 for dim in tensor.dims) else 0)
        width = ranges.width(dtype)
        if again or not size or not width or size % width:
            return None
        return Looking(self, dtype, name, total, at)

    def finish(self, buf: Buffer, size: int, problems: Problems) -> list[dict[str, Any]]:
        """Add the problems and return the ``weights`` of the facts frame."""
        for dtype, parts in self._small.items():
            self._join(dtype, parts)
        offsets = [at for at, _, _ in self._faults if isinstance(at, int)]
        where = places(buf, size, offsets) if offsets else {}
        for at, name, what in self._faults:
            place = where[at] if isinstance(at, int) else at
            problems.add("structure/non-finite-weights", place, f"tensor {name[:100]!r}: {what}")
        return [
            {
                "dtype": dtype, "tensors": total.tensors, "read": total.read, "elements": total.elements,
                **total.range.frame(),
            }
            for dtype, total in sorted(self._totals.items())
        ][:32]  # fmt: skip

    def _join(self, dtype: str, parts: list[tuple[bytes, Any, Callable[[], str]]]) -> None:
        whole = b"".join(raw for raw, _, _ in parts)
        total = self._total(dtype, len(whole) // (ranges.width(dtype) or 1), len(parts))
        total.read += len(parts)
        joined = ranges.look(dtype, memoryview(whole))
        total.range.add(joined)
        if joined.nan or joined.infinite:
            for raw, tensor, place in parts:
                one = ranges.look(dtype, memoryview(raw))
                if _faulty(one, len(raw) // (ranges.width(dtype) or 1)):
                    self._fault(place(), name_of(tensor), one, dtype)

    def looked(self, looking: Looking) -> None:
        """Take what was seen of one tensor."""
        whole, dtype, name = looking.range, looking.dtype, looking.name
        zero, minus = looking.zero, looking.minus
        looking.total.read += 1
        looking.total.range.add(whole)
        if _faulty(whole, 2):
            self._fault(looking.at, name, whole, dtype)
        if dtype in ranges.INTEGERS and whole.least is not None and whole.greatest is not None:
            least, greatest = int(whole.least), int(whole.greatest)
            before = self.integers.get(name)
            if before is not None:
                least, greatest = min(least, before.least), max(greatest, before.greatest)
                zero, minus = zero or bool(before.zero), minus or bool(before.minus_one)
            self.integers[name] = IntegerFacts(least, greatest, zero or None, minus or None)
            if looking.exact and before is None:
                self.integers[name] = IntegerFacts(least, greatest, zero, minus)

    def _total(self, dtype: str, elements: int, tensors: int = 1) -> _Total:
        total = self._totals.setdefault(dtype or "unknown", _Total())
        total.tensors += tensors
        total.elements = min(total.elements + elements, 1 << 62)
        return total

    def _fault(self, at: int | str, name: str, found: Range, dtype: str) -> None:
        if len(self._faults) < MAX_TOLD:
            self._faults.append((at, name, f"{found.nan} NaN and {found.infinite} infinite {dtype}"))


def _faulty(found: Range, elements: int) -> bool:
    """Whether it is worth a word: a single infinite number is the usual filler of a mask or a maximum."""
    return bool(found.nan) or (bool(found.infinite) and elements > 1)


def _ignore(_code: str, _offset: int, _message: str) -> None:
    """Problems were noted by the walk already."""


def values_at(buf: Buffer, tensor: TensorRecord) -> tuple[int, int]:
    """Return where the values of a tensor lie in the raw form; an empty range for other forms."""
    dtype = DTYPES[tensor.dtype] if 0 < tensor.dtype < len(DTYPES) else ""
    pos = tensor.start
    while pos < tensor.stop:
        tag, pos = varint(buf, pos, tensor.stop, _ignore)
        number = tag >> 3
        if tag & 7 == 2 and (number == _RAW_DATA or _PLAIN.get(number) == dtype):
            length, pos = varint(buf, pos, tensor.stop, _ignore)
            return pos, min(pos + length, tensor.stop)
        pos = skip(buf, tag & 7, pos, tensor.stop, _ignore)
    return tensor.start, tensor.start


def warm() -> None:
    """Look once at numbers of every type, so that numpy has imported what it imports lazily."""
    for dtype in (*ranges.INTEGERS, "float16", "bfloat16", "float32", "float64", "float8e4m3fn", "float8e5m2"):
        for pattern in (b"\0", b"\xff", b"\x7c", b"\0\x7c"):
            ranges.look(dtype, memoryview(pattern * 16))
