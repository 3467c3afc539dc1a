"""Raw little-endian bytes of every ONNX element type to numbers, a range of elements at a time.

The byte form is ONNX's ``raw_data`` (onnx.proto): C order, 4-bit elements two and 2-bit elements
four to a byte, first element in the low bits. The small floats follow the OCP 8-bit and MX formats;
``fnuz`` variants have no negative zero and their NaN at 0x80.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from acceptd.compare.blob import Blob, MalformedError
from acceptd.values import TensorRef

Array = np.ndarray[Any, Any]

NATIVE: Final = {
    "float32": "<f4", "float64": "<f8", "float16": "<f2", "int8": "<i1", "uint8": "<u1", "int16": "<i2",
    "uint16": "<u2", "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8", "bool": "<u1",
    "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip
MINIFLOATS: Final = {
    "float8e4m3fn": (4, 3, 7, "fn"),
    "float8e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "fnuz"),
}
"""Exponent bits, mantissa bits, bias, and how infinities and NaN are coded."""
PACKED: Final = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}
FLOATS: Final = frozenset({"float16", "float32", "float64", "bfloat16", "float8e8m0", "float4e2m1", *MINIFLOATS})
MAX_ELEMENTS: Final = 2**48

_E2M1: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float64)


def count(shape: list[int]) -> int:
    """Return the number of elements; raise MalformedError beyond 2^48."""
    total, product = 1, 1
    for size in shape:
        total *= size
        product *= max(size, 1)
        if product > MAX_ELEMENTS:
            raise MalformedError("more elements than any file holds")
    return total


def bits(dtype: str) -> int:
    """Return the bits of one element; raise MalformedError for a type without a fixed width."""
    if dtype in NATIVE:
        return np.dtype(NATIVE[dtype]).itemsize * 8
    if dtype in MINIFLOATS or dtype == "float8e8m0":
        return 8
    if dtype == "bfloat16":
        return 16
    if dtype in PACKED:
        return PACKED[dtype]
    raise MalformedError(f"no element type {dtype}")


def check(ref: TensorRef, blob: Blob) -> int:
    """Return the number of elements of a tensor whose bytes really lie in the file, or raise MalformedError."""
    total = count(ref.shape)
    if ref.dtype == "string":
        if ref.nbytes < 4 * total:
            raise MalformedError("fewer bytes than the strings' lengths need")
    elif ref.nbytes != (total * bits(ref.dtype) + 7) // 8:
        raise MalformedError(f"{ref.nbytes} bytes for {total} elements of {ref.dtype}")
    if ref.offset + ref.nbytes > blob.size:
        raise MalformedError("the tensor lies beyond the end of the file")
    return total


def read(ref: TensorRef, blob: Blob, start: int, stop: int) -> tuple[bytes, Array]:
    """Return (raw bytes, numbers) of elements ``start`` to ``stop`` of a checked tensor.

    Numbers are float64 for every float, for bool and for integers of up to 32 bits; int64 and
    uint64 as they are; complex128 for complex.
    """
    width = bits(ref.dtype)
    first, last = start * width // 8, (stop * width + 7) // 8
    raw = blob.read(ref.offset + first, last - first)
    if ref.dtype in PACKED:
        values = unpack(raw, ref.dtype)
        skip = start - first * 8 // width
        return raw, values[skip : skip + stop - start]
    return raw, numbers(raw, ref.dtype)


class Reader:
    """Numbers of one checked tensor, a range of elements at a time, into memory that is used again.

    ``capacity``: the greatest number of elements of one :meth:`take`. What it gives is valid until the next.
    """

    def __init__(self, ref: TensorRef, blob: Blob, capacity: int) -> None:
        self._ref, self._blob = ref, blob
        self._wide = ref.dtype in {"float32", "float16"}
        if self._wide:
            self._raw = np.empty(capacity, NATIVE[ref.dtype])
            self._values = np.empty(capacity, np.float64)

    def take(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return (raw bytes as uint8, numbers as :func:`read` gives them) of elements ``start`` to ``stop``."""
        if not self._wide:
            raw, values = read(self._ref, self._blob, start, stop)
            return np.frombuffer(raw, np.uint8), values
        part, size = self._raw[: stop - start], self._raw.itemsize
        octets = part.view(np.uint8)
        self._blob.into(self._ref.offset + start * size, memoryview(octets.data))
        values = self._values[: stop - start]
        with np.errstate(invalid="ignore"):
            np.copyto(values, part)
        return octets, values


def numbers(raw: bytes, dtype: str) -> Array:
    """Return the numbers of whole elements of a type that is not packed. A signalling NaN is a NaN."""
    with np.errstate(invalid="ignore"):
        return _numbers(raw, dtype)


def _numbers(raw: bytes, dtype: str) -> Array:
    if dtype == "bfloat16":
        wide = np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    if dtype in MINIFLOATS or dtype == "float8e8m0":
        looked_up: Array = _table(dtype)[np.frombuffer(raw, np.uint8)]
        return looked_up
    array: Array = np.frombuffer(raw, NATIVE[dtype])
    if dtype in {"int64", "uint64"}:
        return array
    if dtype == "bool":
        return np.not_equal(array, 0).astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else array.astype(np.float64)


def unpack(raw: bytes, dtype: str) -> Array:
    """Return all elements that lie in ``raw``, padding included, as float64."""
    width = PACKED[dtype]
    octets = np.frombuffer(raw, np.uint8)
    shifts = np.arange(0, 8, width, dtype=np.uint8)
    codes = ((octets[:, None] >> shifts) & np.uint8((1 << width) - 1)).reshape(-1)
    if dtype == "float4e2m1":
        looked_up: Array = _E2M1[codes]
        return looked_up
    values = codes.astype(np.float64)
    if dtype.startswith("int"):
        values[codes >= 1 << (width - 1)] -= 1 << width
    return values


@functools.cache
def _table(dtype: str) -> Array:
    """Return the 256 values of an 8-bit float."""
    if dtype == "float8e8m0":  # OCP MX scale: 2^(code - 127), 0xff is NaN
        return np.array([math.nan if code == 255 else math.ldexp(1.0, code - 127) for code in range(256)])
    return np.array([_minifloat(code, *MINIFLOATS[dtype]) for code in range(256)])


def _minifloat(code: int, exponent_bits: int, mantissa_bits: int, bias: int, coding: str) -> float:
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if coding == "fnuz" and code == 0x80:
        return math.nan
    if coding == "fn" and exponent == top and mantissa == (1 << mantissa_bits) - 1:
        return math.nan
    if coding == "ieee" and exponent == top:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)
