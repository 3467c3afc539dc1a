"""Values on their way into onnxruntime and out of it.

``run`` takes and gives plain numpy arrays, lists and dicts. It cannot give bfloat16, float8 and the
2-bit and 4-bit integers (and gives float8e4m3fn as if it were uint8), so a session with such an
output is run with ``OrtValue`` throughout; such inputs are always ``OrtValue``. Measured with
onnxruntime 1.32: memory of any of these types can be had by number and filled by address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from sandbox.interface import RuntimeType, RuntimeValue
from sandbox.tensors import (
    BY_NUMBER,
    ELEMENTS,
    NAME_OF,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    count_of,
    tensor_of,
    to_array,
    unpack_strings,
)


class UnexpressibleError(ValueError):
    """The type cannot pass onnxruntime's Python interface."""


def needs_ort_values(outputs: Sequence[RuntimeValue]) -> bool:
    """Say whether a session with these outputs must be run with ``OrtValue`` on both sides."""
    return any(
        value.type.kind == "tensor" and value.type.dtype in ELEMENTS and not ELEMENTS[value.type.dtype].native
        for value in outputs
    )


def to_runtime(value: Value, *, as_ort: bool) -> Any:
    """Return what the session takes for ``value``: array, list, dict, None or ``OrtValue``.

    Raises :class:`UnexpressibleError`, or ValueError for text that is not UTF-8.
    """
    if isinstance(value, TensorValue):
        return _tensor_in(value, as_ort=as_ort)
    if as_ort:
        raise UnexpressibleError("a sequence, map or optional beside a bfloat16, float8 or sub-byte output")
    if isinstance(value, OptionalValue):
        return None if value.value is None else to_runtime(value.value, as_ort=False)
    if isinstance(value, SequenceValue):
        return [_item_in(item) for item in value.items]
    keys, values = _plain(value.keys), _plain(value.values)
    return dict(zip(keys, values, strict=True))


def _item_in(value: Value) -> Any:
    if isinstance(value, TensorValue) and not ELEMENTS[value.dtype].native:
        raise UnexpressibleError(f"a sequence of {value.dtype}")
    return to_runtime(value, as_ort=False)


def _tensor_in(value: TensorValue, *, as_ort: bool) -> Any:
    element = ELEMENTS[value.dtype]
    if element.name == "string":
        if as_ort:
            raise UnexpressibleError("a string input beside a bfloat16, float8 or sub-byte output")
        array = np.empty(count_of(value.shape), object)
        array[:] = [item.decode() for item in unpack_strings(value.data, array.size)]
        return array.reshape(value.shape)
    if element.native:
        array = to_array(value)
        return ort.OrtValue.ortvalue_from_numpy(array) if as_ort else array
    try:
        target = ort.OrtValue.ortvalue_from_shape_and_type(list(value.shape), element.number)
    except RuntimeError as error:
        if "not supported" not in str(error):
            raise
        # An older onnxruntime does not know the newer element types.
        raise UnexpressibleError(f"{element.name}: {error}") from error
    size = target.tensor_size_in_bytes()
    if size != len(value.data):
        raise UnexpressibleError(f"{element.name} {list(value.shape)} takes {size} bytes, not {len(value.data)}")
    if size:
        ctypes.memmove(target.data_ptr(), bytes(value.data), size)
    return target


def _plain(value: TensorValue) -> list[Any]:
    if value.dtype == "string":
        return [item.decode() for item in unpack_strings(value.data, count_of(value.shape))]
    return list(to_array(value).tolist())


def from_runtime(result: Any, kind: RuntimeType) -> Value:
    """Return what the session gave as a value; ``kind`` is the output's type by the runtime.

    Arrays are not copied. Raises :class:`UnexpressibleError` (sparse tensors), ValueError or TypeError
    where the result is not of its declared kind.
    """
    if kind.kind == "optional":
        return OptionalValue(None if result is None else from_runtime(result, kind.item or kind))
    if isinstance(result, np.ndarray):
        if kind.dtype in ELEMENTS and not ELEMENTS[kind.dtype].native:
            raise UnexpressibleError(f"{kind.words()}: run gives {result.dtype.name}")
        return _array_out(result)
    if isinstance(result, ort.OrtValue):
        return _ort_out(result)
    if isinstance(result, list) and kind.kind == "sequence" and kind.item is not None:
        return SequenceValue(tuple(from_runtime(item, kind.item) for item in result))
    if isinstance(result, dict) and kind.kind == "map":
        return _map_out(result, kind)
    if kind.kind == "tensor" and isinstance(result, bool | int | float | str | np.generic):
        return tensor_of(_column([result], kind.dtype).reshape(()), kind.dtype)
    raise UnexpressibleError(f"a {type(result).__name__} where {kind.words() or kind.kind} was expected")


def _array_out(array: np.ndarray[Any, Any]) -> TensorValue:
    if array.dtype.kind in "OUS":
        return tensor_of(array, "string")
    name = NAME_OF.get(array.dtype)
    if name is None:
        raise UnexpressibleError(f"an array of {array.dtype.name}")
    return tensor_of(array, name)


def _ort_out(result: Any) -> TensorValue:
    """Read a tensor's memory by its address; for strings, which have none, through numpy."""
    if not result.has_value() or not result.is_tensor():
        raise UnexpressibleError(f"a {result.data_type()} beside a bfloat16, float8 or sub-byte output")
    element = BY_NUMBER.get(result.element_type())
    if element is None:
        raise UnexpressibleError(f"a {result.data_type()}")
    if element.name == "string":
        return tensor_of(result.numpy(), "string")
    size = result.tensor_size_in_bytes()
    data = ctypes.string_at(result.data_ptr(), size) if size else b""
    return TensorValue(element.name, tuple(result.shape()), data)


def _column(values: list[Any], dtype: str) -> np.ndarray[Any, Any]:
    element = ELEMENTS.get(dtype)
    if element is None or (element.array is None and dtype != "string"):
        raise UnexpressibleError(f"a map or sequence of {dtype}")
    return np.array(values, object if element.array is None else element.array)


def _map_out(result: dict[Any, Any], kind: RuntimeType) -> MapValue:
    keys = tensor_of(_column(list(result), kind.key_dtype), kind.key_dtype)
    values = [np.asarray(item).reshape(()).item() for item in result.values()]
    return MapValue(keys, tensor_of(_column(values, kind.dtype), kind.dtype))


def tensors_in(value: Value) -> list[TensorValue]:
    """Return all tensors inside a value, keys of maps included."""
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, SequenceValue):
        return [tensor for item in value.items for tensor in tensors_in(item)]
    if isinstance(value, OptionalValue):
        return [] if value.value is None else tensors_in(value.value)
    return [value.keys, value.values]


def all_finite(values: Sequence[Value]) -> bool | None:
    """Say whether every floating element is finite; None when there is none.

    float4e2m1 has no non-finite code and float8e8m0's NaN counts (OCP microscaling formats, 5.4).
    """
    found = False
    for value in values:
        for tensor in tensors_in(value):
            element = ELEMENTS[tensor.dtype]
            if not element.floating:
                continue
            found = True
            if not _finite(to_array(tensor)):
                return False
    return True if found else None


def _finite(array: np.ndarray[Any, Any], chunk: int = 1 << 20) -> bool:
    """In chunks, so that a large output does not need a mask of its own size."""
    check: Callable[[Any], Any] = np.isfinite
    flat = array.reshape(-1)
    return all(bool(check(flat[start : start + chunk]).all()) for start in range(0, flat.size, chunk))
