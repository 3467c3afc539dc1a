"""Values as bytes: every ONNX element type, and the blob files that carry them out of a job.

The byte form is that of ONNX ``raw_data`` (onnx.proto, TensorProto): little-endian, C order; a
bool is one byte, 0 or 1; 4-bit elements lie two and 2-bit elements four to a byte, the first in the
low bits. A string is a little-endian uint32 length and that many bytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from sandbox.messages import RefusedError

MAX_RANK: Final = 64
MAX_ELEMENTS: Final = 2**62
MAX_NESTING: Final = 16
_CHUNK: Final = 1 << 30
_LENGTH: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Element:
    """One element type: ONNX's number (TensorProto.DataType), its bits, and numpy's view of it.

    ``array`` is None where numpy has no byte-sized element (2 and 4 bits) and for strings.
    ``native`` says that onnxruntime's ``run`` gives and takes it as a plain array.
    """

    name: str
    number: int
    bits: int
    array: np.dtype[Any] | None
    floating: bool = False
    native: bool = True


_NATIVE: Final = (
    ("float32", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6), ("int64", 7),
    ("bool", 9), ("float16", 10), ("float64", 11), ("uint32", 12), ("uint64", 13),
    ("complex64", 14), ("complex128", 15),
)  # fmt: skip
_ML_DTYPES: Final = (
    ("bfloat16", 16, ml_dtypes.bfloat16),
    ("float8e4m3fn", 17, ml_dtypes.float8_e4m3fn),
    ("float8e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz),
    ("float8e5m2", 19, ml_dtypes.float8_e5m2),
    ("float8e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz),
    ("float8e8m0", 24, ml_dtypes.float8_e8m0fnu),
)
_PACKED: Final = (("uint4", 21, 4), ("int4", 22, 4), ("float4e2m1", 23, 4), ("uint2", 25, 2), ("int2", 26, 2))


def _table() -> dict[str, Element]:
    rows = [Element("string", 8, 0, None)]
    for name, number in _NATIVE:
        plain = np.dtype(name)
        rows.append(Element(name, number, plain.itemsize * 8, plain, floating=plain.kind in "fc"))
    for name, number, scalar in _ML_DTYPES:
        wide = np.dtype(scalar)
        rows.append(Element(name, number, wide.itemsize * 8, wide, floating=True, native=False))
    rows += [Element(name, number, bits, None, native=False) for name, number, bits in _PACKED]
    return {row.name: row for row in rows}


ELEMENTS: Final = _table()
PACKED: Final = frozenset(name for name, _, _ in _PACKED)
"""Names of the element types of which several lie in one byte."""
NAME_OF: Final = {element.array: element.name for element in ELEMENTS.values() if element.array is not None}
"""Name by numpy type; quicker than numpy's own ``dtype.name``."""
BY_NUMBER: Final = {element.number: element for element in ELEMENTS.values()}


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor: element type's name, shape, and ``data`` in the byte form of this module."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A sequence of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value; None when absent."""

    value: Value | None


@dataclass(frozen=True, slots=True)
class MapValue:
    """A map: two tensors of rank 1 and equal length."""

    keys: TensorValue
    values: TensorValue


Value = TensorValue | SequenceValue | OptionalValue | MapValue


def count_of(shape: Sequence[int]) -> int:
    """Return the number of elements. Raise ValueError for a negative or absurd dimension or rank."""
    if len(shape) > MAX_RANK:
        raise ValueError(f"rank {len(shape)} is above {MAX_RANK}")
    total, product = 1, 1
    for size in shape:
        if size < 0:
            raise ValueError(f"dimension {size} is negative")
        total *= size
        product *= max(size, 1)
        if product > MAX_ELEMENTS:
            raise ValueError("the product of the dimensions is above 2**62")
    return total


def nbytes_of(element: Element, shape: Sequence[int]) -> int:
    """Return the size in bytes of a tensor that is not of strings. Raise ValueError as :func:`count_of`."""
    return (count_of(shape) * element.bits + 7) // 8


def element_of(name: str) -> Element:
    """Return the element type of that name. Raise ValueError when there is none."""
    try:
        return ELEMENTS[name]
    except KeyError:
        raise ValueError(f"unknown element type {name[:40]!r}") from None


def pack_strings(items: Iterable[bytes]) -> bytes:
    """Return the byte form of strings. Raise ValueError for one of 4 GiB or more."""
    parts: list[bytes] = []
    for item in items:
        if len(item) > 0xFFFFFFFF:
            raise ValueError("a string of 4 GiB or more")
        parts += (_LENGTH.pack(len(item)), item)
    return b"".join(parts)


def unpack_strings(data: bytes | memoryview, count: int) -> list[bytes]:
    """Return ``count`` strings. Raise ValueError when ``data`` is not exactly their byte form."""
    items: list[bytes] = []
    position, size = 0, len(data)
    for _ in range(count):
        if position + 4 > size:
            raise ValueError("the string tensor is cut short")
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if position + length > size:
            raise ValueError("the string tensor is cut short")
        items.append(bytes(data[position : position + length]))
        position += length
    if position != size:
        raise ValueError("bytes are left over after the last string")
    return items


def array_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the bytes of a numeric array in little-endian C order, without a copy where it is so already."""
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data


def tensor_of(array: np.ndarray[Any, Any], dtype: str) -> TensorValue:
    """Return ``array`` (of the numpy type of ``dtype``; object or text arrays for ``string``) as a value."""
    if dtype == "string":
        items = (item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1).tolist())
        return TensorValue(dtype, array.shape, pack_strings(items))
    return TensorValue(dtype, array.shape, array_bytes(array))


def to_array(value: TensorValue) -> np.ndarray[Any, Any]:
    """Return a read-only array over the bytes of ``value``. Raise ValueError where numpy has no such type."""
    element = element_of(value.dtype)
    if element.array is None:
        raise ValueError(f"numpy has no element type {value.dtype}")
    return np.frombuffer(value.data, element.array).reshape(value.shape)


class BlobFullError(Exception):
    """The blob may not grow further (RLIMIT_FSIZE), or its file system is full."""


class BlobWriter:
    """Appends values to a blob descriptor, from offset 0."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.offset = 0

    def write(self, data: bytes | memoryview) -> tuple[int, int]:
        """Append ``data``; return (offset, size). Raise BlobFullError when it cannot be written whole."""
        start, view = self.offset, memoryview(data)
        position = 0
        while position < len(view):
            try:
                written = os.write(self._descriptor, view[position : position + _CHUNK])
            except OSError as error:  # EFBIG at RLIMIT_FSIZE, ENOSPC on a full tmpfs
                raise BlobFullError(error.strerror or "the blob cannot be written") from error
            position += written
            self.offset += written
        return start, len(view)

    def store(self, value: Value) -> dict[str, Any]:
        """Append ``value`` and return its reference (``ValueRef`` as JSON data)."""
        if isinstance(value, TensorValue):
            offset, size = self.write(value.data)
            shape = list(value.shape)
            return {"kind": "tensor", "dtype": value.dtype, "shape": shape, "offset": offset, "nbytes": size}
        if isinstance(value, SequenceValue):
            return {"kind": "sequence", "items": [self.store(item) for item in value.items]}
        if isinstance(value, OptionalValue):
            return {"kind": "optional", "value": None if value.value is None else self.store(value.value)}
        return {"kind": "map", "keys": self.store(value.keys), "values": self.store(value.values)}


class BlobReader:
    """Reads values back from a blob descriptor by their references."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, offset: int, size: int) -> memoryview:
        """Return exactly ``size`` bytes from ``offset``, aligned for any element type. Raise ValueError."""
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        if offset < 0 or size < 0 or offset + size > end:
            raise ValueError(f"bytes {offset} to {offset + size} are not in a blob of {end}")
        view = np.empty(size, np.uint8).data
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        position = 0
        while position < size:
            got = os.readv(self._descriptor, [view[position : position + _CHUNK]])
            if got == 0:
                raise ValueError("the blob ended early")
            position += got
        return view

    def fetch(self, ref: dict[str, Any], depth: int = 0) -> Value:
        """Return the value behind ``ref``. Raise ValueError when dtype, shape and size do not agree."""
        if depth > MAX_NESTING:
            raise ValueError("values nest too deeply")
        kind = ref["kind"]
        if kind == "tensor":
            return self._tensor(ref)
        if kind == "sequence":
            return SequenceValue(tuple(self.fetch(item, depth + 1) for item in ref["items"]))
        if kind == "optional":
            inner = ref["value"]
            return OptionalValue(None if inner is None else self.fetch(inner, depth + 1))
        if kind == "map":
            return MapValue(self._tensor(ref["keys"]), self._tensor(ref["values"]))
        raise ValueError(f"unknown kind {str(kind)[:40]!r}")

    def _tensor(self, ref: dict[str, Any]) -> TensorValue:
        element = element_of(ref["dtype"])
        shape, size = tuple(ref["shape"]), ref["nbytes"]
        if element.name == "string":
            data = self.read(ref["offset"], size)
            unpack_strings(data, count_of(shape))
            return TensorValue("string", shape, data)
        if nbytes_of(element, shape) != size:
            raise ValueError(f"{size} bytes for {element.name} {list(shape)}")
        return TensorValue(element.name, shape, self.read(ref["offset"], size))


def blob_is_full(where: str, error: BlobFullError) -> RefusedError:
    """Return the job's honest ending for results beyond the cap on a blob."""
    message = f"the values are larger than the cap on one job's output ({error})"
    return RefusedError("resources/output-limit", where, message)
