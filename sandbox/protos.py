"""Golden files in ONNX's own form: one TensorProto, SequenceProto, OptionalProto or MapProto each.

Stricter than onnx's helpers: a value in two fields, external data, out-of-range integers, a wrong
length or a field that belongs to no such message makes the file undecodable, since each reader
would take something else from it. Sources: onnx.proto and onnx-data.proto of onnx 1.23.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from sandbox.messages import text_of
from sandbox.tensors import (
    BY_NUMBER,
    MAX_NESTING,
    PACKED,
    Element,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    array_bytes,
    count_of,
    nbytes_of,
    pack_strings,
)

_TYPED: Final = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_FIELD_OF: Final = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
    "int64": "int64_data", "uint64": "uint64_data", "uint32": "uint64_data", "string": "string_data",
}  # fmt: skip
"""Typed field by element type; every other type is in ``int32_data``."""
_MAP_KEYS: Final = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string"})


class UndecodableError(ValueError):
    """The bytes are not the one value that a golden file holds."""


def decode(raw: bytes, kind: str) -> tuple[str, Value]:
    """Return (name, value) of a golden file; the name may be empty.

    ``kind`` is the declared kind (``tensor``, ``sequence``, ``optional``, ``map``) and is tried
    first; the others after it, because the wire form does not say which message it is. Raises
    :class:`UndecodableError` with the first attempt's reason.
    """
    order = sorted(_DECODERS, key=lambda other: other != kind)
    first: UndecodableError | None = None
    for candidate in order:
        message_type, convert = _DECODERS[candidate]
        try:
            return _decode_as(raw, message_type, convert, declared=candidate == kind)
        except UndecodableError as error:
            first = first or error
    raise first or UndecodableError("no such kind of value")


def _decode_as(
    raw: bytes, message_type: Any, convert: Callable[[Any], Value], *, declared: bool
) -> tuple[str, Value]:
    if not raw and not declared:
        raise UndecodableError("the file is empty")
    message = message_type()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise UndecodableError(f"no {message_type.__name__}: {error}") from error
    if len(UnknownFieldSet(message)):
        raise UndecodableError(f"fields that no {message_type.__name__} has")
    try:
        value = convert(message)
    except UndecodableError:
        raise
    except (ValueError, OverflowError) as error:
        raise UndecodableError(str(error)) from error
    return text_of(message.name), value


def tensor(message: Any) -> TensorValue:
    """Return the value of a TensorProto. Raise UndecodableError or ValueError (see the module's text)."""
    element = BY_NUMBER.get(message.data_type)
    if element is None:
        empty = "; the file is empty, or names no type" if not message.data_type else ""
        raise UndecodableError(f"element type {message.data_type} is none that can be read{empty}")
    if message.external_data or message.data_location != onnx.TensorProto.DEFAULT:
        raise UndecodableError("a golden value may not lie in external data")
    if message.HasField("segment"):
        raise UndecodableError("a segmented tensor")
    shape = tuple(message.dims)
    filled = [name for name in _TYPED if len(getattr(message, name))]
    if message.HasField("raw_data"):
        if filled:
            raise UndecodableError(f"the value stands in raw_data and in {filled[0]}")
        return TensorValue(element.name, shape, _raw(element, shape, message.raw_data))
    expected = _FIELD_OF.get(element.name, "int32_data")
    if any(name != expected for name in filled):
        raise UndecodableError(f"a {element.name} tensor has its values in {expected}, not in {filled[0]}")
    values = getattr(message, expected)
    if element.name == "string":
        if len(values) != count_of(shape):
            raise UndecodableError(f"{len(values)} strings for the shape {list(shape)}")
        return TensorValue("string", shape, pack_strings(values))
    return TensorValue(element.name, shape, _typed(element, shape, values))


def _raw(element: Element, shape: tuple[int, ...], raw: bytes) -> bytes:
    if element.name == "string":
        raise UndecodableError("strings may not stand in raw_data")
    need = nbytes_of(element, shape)
    if len(raw) != need:
        raise UndecodableError(f"{len(raw)} bytes where {element.name} {list(shape)} takes {need}")
    if element.name == "bool" and raw.strip(b"\0\1"):
        raise UndecodableError("a bool that is neither 0 nor 1")
    return raw


def _typed(element: Element, shape: tuple[int, ...], values: Any) -> bytes | memoryview:
    need = nbytes_of(element, shape)
    if element.name in {"float32", "complex64"}:
        array: np.ndarray[Any, Any] = np.array(values, "<f4")
    elif element.name in {"float64", "complex128"}:
        array = np.array(values, "<f8")
    else:
        array = _integers(element, values)
    if array.nbytes != need:
        raise UndecodableError(f"{len(values)} values do not fill {element.name} {list(shape)}")
    return array_bytes(array)


def _integers(element: Element, values: Any) -> np.ndarray[Any, Any]:
    """Integers of ``int32_data``, ``int64_data`` and ``uint64_data``; small floats are stored as their bits."""
    if element.name == "bool":
        target = np.dtype(np.uint8)
        low, high = 0, 1
    elif element.array is not None and element.array.kind in "iu":
        target = element.array
        low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    else:
        target = np.dtype(f"u{max(element.bits, 8) // 8}")
        low, high = 0, int(np.iinfo(target).max)
    wide = np.array(values, np.uint64 if element.name in {"uint32", "uint64"} else np.int64)
    if wide.size and not (low <= int(wide.min()) and int(wide.max()) <= high):
        raise UndecodableError(f"a value outside {low} to {high} in a {element.name} tensor")
    return wide.astype(target)


def sequence(message: Any, depth: int = 0) -> SequenceValue:
    """Return the value of a SequenceProto. Raise UndecodableError or ValueError."""
    field = _one_field(message, _SEQUENCE_FIELDS)
    items = getattr(message, field) if field else ()
    return SequenceValue(tuple(_nested(field, item, depth) for item in items))


def optional(message: Any, depth: int = 0) -> OptionalValue:
    """Return the value of an OptionalProto; absent when no value field is set."""
    present = [name for name in _OPTIONAL_FIELDS.values() if message.HasField(name)]
    if not present:
        return OptionalValue(None)
    field = _OPTIONAL_FIELDS.get(message.elem_type, "")
    if present != [field]:
        raise UndecodableError(f"the element type {message.elem_type} does not go with {present[0]}")
    return OptionalValue(_nested(field, getattr(message, field), depth))


def mapping(message: Any) -> MapValue:
    """Return the value of a MapProto: each value of its sequence is a tensor of one element."""
    element = BY_NUMBER.get(message.key_type)
    if element is None or element.name not in _MAP_KEYS:
        raise UndecodableError(f"a map cannot have keys of the type {message.key_type}")
    textual = element.name == "string"
    if len(message.keys if textual else message.string_keys):
        raise UndecodableError("the map has keys of two types")
    keys = list(message.string_keys if textual else message.keys)
    if len(set(keys)) != len(keys):
        raise UndecodableError("the map has a key twice")
    packed = pack_strings(keys) if textual else array_bytes(_integers(element, keys))
    items = sequence(message.values).items
    values = [item for item in items if isinstance(item, TensorValue)]
    if len(values) != len(items) or len(values) != len(keys) or not values:
        raise UndecodableError("a map needs one tensor of one element for each key")
    dtype = values[0].dtype
    if any(value.dtype != dtype or count_of(value.shape) != 1 for value in values):
        raise UndecodableError("a map needs one tensor of one element, of one type, for each key")
    if dtype in PACKED:
        raise UndecodableError(f"map values of the type {dtype}")
    joined = b"".join(bytes(value.data) for value in values)
    return MapValue(TensorValue(element.name, (len(keys),), packed), TensorValue(dtype, (len(keys),), joined))


_SEQUENCE_FIELDS: Final = {
    1: "tensor_values", 2: "sparse_tensor_values", 3: "sequence_values", 4: "map_values", 5: "optional_values",
}  # fmt: skip
_OPTIONAL_FIELDS: Final = {
    1: "tensor_value", 2: "sparse_tensor_value", 3: "sequence_value", 4: "map_value", 5: "optional_value",
}  # fmt: skip


def _one_field(message: Any, fields: dict[int, str]) -> str | None:
    filled = [name for name in fields.values() if len(getattr(message, name))]
    if not filled:
        return None
    if filled != [fields.get(message.elem_type)]:
        raise UndecodableError(f"the element type {message.elem_type} does not go with {filled[0]}")
    return filled[0]


def _nested(field: str | None, message: Any, depth: int) -> Value:
    if depth >= MAX_NESTING:
        raise UndecodableError("values nest too deeply")
    name = (field or "").removesuffix("s")
    if name == "tensor_value":
        return tensor(message)
    if name == "sequence_value":
        return sequence(message, depth + 1)
    if name == "optional_value":
        return optional(message, depth + 1)
    if name == "map_value":
        return mapping(message)
    raise UndecodableError("sparse tensors have no byte form here")


_DECODERS: Final[dict[str, tuple[Any, Callable[[Any], Value]]]] = {
    "tensor": (onnx.TensorProto, tensor),
    "sequence": (onnx.SequenceProto, sequence),
    "optional": (onnx.OptionalProto, optional),
    "map": (onnx.MapProto, mapping),
}
