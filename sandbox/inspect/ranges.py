"""Least and greatest number, NaN and infinite, of raw elements; integer comparisons where numpy has no fast float.

The bits of an IEEE 754 number order like integers of its size, negative ones in reverse, so float16 and
bfloat16, for which numpy has no vector code, are looked at as integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
INTEGERS: Final = {
    "int8": "<i1", "uint8": "<u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8",
}  # fmt: skip
_FLOATS: Final = {"float32": "<f4", "float64": "<f8", "complex64": "<f4", "complex128": "<f8"}
_HALVES: Final = {"float16": 0x7C00, "bfloat16": 0x7F80}
"""Bits of the exponent: from there on, without the sign, nothing is finite."""
_SIGN: Final = 0x8000
_EIGHTS: Final = {
    "float8e4m3fn": (4, 3, 7), "float8e4m3fnuz": (4, 3, 8), "float8e5m2": (5, 2, 15), "float8e5m2fnuz": (5, 2, 16),
    "float8e8m0": (8, 0, 127),
}  # fmt: skip
"""Bits of exponent and mantissa, and bias (ONNX, "Float stored in 8 bits")."""


@dataclass(slots=True)
class Range:
    """Over the finite elements; None where there are none."""

    least: float | int | None = None
    greatest: float | int | None = None
    nan: int = 0
    infinite: int = 0

    def add(self, other: Range) -> None:
        """Take in another range."""
        self.nan += other.nan
        self.infinite += other.infinite
        if other.least is not None and (self.least is None or other.least < self.least):
            self.least = other.least
        if other.greatest is not None and (self.greatest is None or other.greatest > self.greatest):
            self.greatest = other.greatest

    def frame(self) -> dict[str, Any]:
        """Return it as part of ElementRange."""
        return {
            "least": None if self.least is None else float(self.least),
            "greatest": None if self.greatest is None else float(self.greatest),
            "nan": self.nan,
            "infinite": self.infinite,
        }


def width(dtype: str) -> int:
    """Return the bytes of one element; 0 for types that are not looked into."""
    if dtype in _HALVES:
        return 2
    if dtype in _EIGHTS or dtype == "bool":
        return 1
    kind = INTEGERS.get(dtype) or _FLOATS.get(dtype)
    return (np.dtype(kind).itemsize if kind else 0) * (2 if dtype.startswith("complex") else 1)


def look(dtype: str, raw: memoryview) -> Range:
    """Return the range of raw little-endian elements. Raises ValueError for a length that is no multiple."""
    if not len(raw) or dtype == "bool":
        return Range()
    if dtype in INTEGERS:
        whole: Array = np.frombuffer(raw, INTEGERS[dtype])
        return Range(int(whole.min()), int(whole.max()))
    if dtype in _HALVES:
        return _half(np.frombuffer(raw, "<u2"), _HALVES[dtype], dtype)
    if dtype in _EIGHTS:
        return _eight(np.frombuffer(raw, np.uint8), dtype)
    found = _float(np.frombuffer(raw, _FLOATS[dtype]))
    return Range(None, None, found.nan, found.infinite) if dtype.startswith("complex") else found


def _float(array: Array) -> Range:
    least, greatest = float(array.min()), float(array.max())
    if math.isfinite(least) and math.isfinite(greatest):
        return Range(least, greatest)
    finite = array[np.isfinite(array)]
    nan = int(np.isnan(array).sum())
    found = Range(nan=nan, infinite=array.size - finite.size - nan)
    if finite.size:
        found.least, found.greatest = float(finite.min()), float(finite.max())
    return found


def _half(bits: Array, exponent: int, dtype: str) -> Range:
    nan = infinite = 0
    size = bits & 0x7FFF
    if int(size.max()) >= exponent:
        nan, infinite = int((size > exponent).sum()), int((size == exponent).sum())
        bits = bits[size < exponent]
    if not bits.size:
        return Range(nan=nan, infinite=infinite)
    top, bottom, signed = int(bits.max()), int(bits.min()), int(bits.view("<i2").max())
    greatest = signed if signed >= 0 else bottom
    least = top if top >= _SIGN else bottom
    return Range(_number(least, dtype), _number(greatest, dtype), nan, infinite)


def _number(bits: int, dtype: str) -> float:
    if dtype == "float16":
        return float(np.array([bits], "<u2").view("<f2")[0])
    return float(np.array([bits << 16], "<u4").view("<f4")[0])


def _eight(codes: Array, dtype: str) -> Range:
    numbers = _table(dtype)
    counts = np.bincount(codes, minlength=256).tolist()
    found = Range()
    for number, count in zip(numbers, counts, strict=True):
        if not count:
            continue
        if math.isnan(number):
            found.nan += count
        elif math.isinf(number):
            found.infinite += count
        else:
            found.add(Range(number, number))
    return found


@cache
def _table(dtype: str) -> tuple[float, ...]:
    exponents, mantissas, bias = _EIGHTS[dtype]
    if dtype == "float8e8m0":
        return tuple(math.nan if code == 255 else 2.0 ** (code - bias) for code in range(256))
    return tuple(_decode(code, exponents, mantissas, bias, dtype) for code in range(256))


def _decode(code: int, exponents: int, mantissas: int, bias: int, dtype: str) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent = code >> mantissas & (1 << exponents) - 1
    mantissa = code & (1 << mantissas) - 1
    if dtype.endswith("uz"):
        if code == 0x80:
            return math.nan
    elif dtype == "float8e5m2" and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    elif dtype == "float8e4m3fn" and code & 0x7F == 0x7F:
        return math.nan
    scale = 2.0 ** (max(exponent, 1) - bias - mantissas)
    return sign * scale * (mantissa + ((1 << mantissas) if exponent else 0))
