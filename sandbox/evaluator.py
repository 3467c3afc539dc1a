"""onnx's reference evaluator as a session: its types and values in the words of the ``run`` job.

It computes in numpy, by the operators' own definitions, and shares no kernel with onnxruntime. It has
faults of its own, so that whatever goes wrong here says nothing of the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from onnx.external_data_helper import _get_all_tensors
from onnx.reference import ReferenceEvaluator

from sandbox.interface import MAX_NESTING, RuntimeType, RuntimeValue
from sandbox.mended import mended
from sandbox.tensors import (
    BY_NUMBER,
    ELEMENTS,
    NAME_OF,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    array_bytes,
    count_of,
    tensor_of,
    to_array,
    unpack_strings,
)

Array = np.ndarray[Any, Any]
_PACKED: Final = {
    name: np.dtype(getattr(ml_dtypes, name.replace("float4e2m1", "float4_e2m1fn")))
    for name in ("int4", "uint4", "int2", "uint2", "float4e2m1")
}
"""numpy's type, one element to a byte, of what lies several to a byte in a file."""
_NAME_OF: Final = NAME_OF | {array: name for name, array in _PACKED.items()}


class UnsuitedError(ValueError):
    """A value that cannot pass between the evaluator and a blob."""


def loaded(path: str) -> onnx.ModelProto:
    """Return the model with its external data in it.

    onnx's own loader asks the kernel for more than a job's root has. Where data may lie is judged by
    ``inspect``, and the root holds no file but those.
    """
    model = onnx.load(path, load_external_data=False)
    for tensor in _get_all_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {one.key: one.value for one in tensor.external_data}
        with open(os.path.join(os.path.dirname(path), entries["location"]), "rb") as file:
            file.seek(int(entries.get("offset", "0")))
            tensor.raw_data = file.read(int(entries["length"]) if "length" in entries else -1)
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    return model


class Evaluator:
    """A loaded model. Raises whatever onnx raises on what it cannot load."""

    def __init__(self, model: onnx.ModelProto) -> None:
        weights = {one.name for one in model.graph.initializer}
        weights |= {one.values.name for one in model.graph.sparse_initializer}
        values = [RuntimeValue(one.name, type_of(one.type), shape_of(one.type)) for one in model.graph.input]
        self.inputs = [value for value in values if value.name not in weights]
        self.overridables = [value.name for value in values if value.name in weights]
        self.outputs = [
            RuntimeValue(one.name, type_of(one.type), shape_of(one.type)) for one in model.graph.output
        ]
        opset = max((one.version for one in model.opset_import if one.domain == ""), default=0)
        self._session = ReferenceEvaluator(model, new_ops=mended(opset))

    def run(self, feed: Mapping[str, Value]) -> list[Value]:
        """Return the outputs in the order of the file. Raises whatever an operator raises, or UnsuitedError."""
        given = {name: to_evaluator(value) for name, value in feed.items()}
        for value in self.inputs:
            if value.type.kind == "optional":
                given.setdefault(value.name, None)
        with np.errstate(all="ignore"):
            results = self._session.run(None, given)
        return [from_evaluator(got, port.type) for got, port in zip(results, self.outputs, strict=True)]


def type_of(proto: Any, depth: int = 0) -> RuntimeType:
    """Return the type of a ``TypeProto``; kind ``unknown`` for what is not known or nests too deeply."""
    case = proto.WhichOneof("value")
    if depth > MAX_NESTING or case is None:
        return RuntimeType("unknown", "")
    inner = getattr(proto, case)
    if case in {"tensor_type", "sparse_tensor_type"}:
        return RuntimeType(case.removesuffix("_type"), _dtype(inner.elem_type))
    if case in {"sequence_type", "optional_type"}:
        item = type_of(inner.elem_type, depth + 1)
        return RuntimeType(case.removesuffix("_type"), item.dtype, "", item)
    if case == "map_type":
        item = type_of(inner.value_type, depth + 1)
        return RuntimeType("map", item.dtype, _dtype(inner.key_type), item)
    return RuntimeType("unknown", "")


def _dtype(number: int) -> str:
    element = BY_NUMBER.get(number)
    return element.name if element is not None else ""


def shape_of(proto: Any) -> tuple[int | str, ...] | None:
    """Return the shape of a tensor type: numbers, names, ``?``; None for an unknown rank or another type."""
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in proto.tensor_type.shape.dim
    )


def to_evaluator(value: Value) -> Any:
    """Return what the evaluator takes for ``value``: array, list, dict or None."""
    if isinstance(value, TensorValue):
        return _array(value)
    if isinstance(value, OptionalValue):
        return None if value.value is None else to_evaluator(value.value)
    if isinstance(value, SequenceValue):
        return [to_evaluator(item) for item in value.items]
    return dict(zip(_array(value.keys).tolist(), _array(value.values).tolist(), strict=True))


def _array(value: TensorValue) -> Array:
    if value.dtype == "string":
        array = np.empty(count_of(value.shape), object)
        array[:] = [item.decode() for item in unpack_strings(value.data, array.size)]
        return array.reshape(value.shape)
    packed = _PACKED.get(value.dtype)
    return to_array(value) if packed is None else _unpacked(value, packed)


def _unpacked(value: TensorValue, array: np.dtype[Any]) -> Array:
    bits = ELEMENTS[value.dtype].bits
    raw = np.frombuffer(value.data, np.uint8)
    steps = np.arange(0, 8, bits, dtype=np.uint8)
    flat: Array = ((raw[:, None] >> steps) & np.uint8((1 << bits) - 1)).reshape(-1)[: count_of(value.shape)]
    if value.dtype.startswith("int"):  # ml_dtypes reads the sign from the whole byte
        flat = (flat.astype(np.int8) << (8 - bits)) >> (8 - bits)
    return np.ascontiguousarray(flat).view(array).reshape(value.shape)


def _packed(array: Array, dtype: str) -> TensorValue:
    bits = ELEMENTS[dtype].bits
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    each = 8 // bits
    padded = np.zeros(-(-flat.size // each) * each, np.uint8)
    padded[: flat.size] = flat
    shifted = padded.reshape(-1, each) << np.arange(0, 8, bits, dtype=np.uint8)
    return TensorValue(dtype, array.shape, np.bitwise_or.reduce(shifted, axis=1, dtype=np.uint8).tobytes())


def from_evaluator(result: Any, kind: RuntimeType) -> Value:
    """Return what the evaluator gave as a value of its own type; it need not be ``kind``, the file's word.

    Raises UnsuitedError: a sparse tensor, an array of objects, or nothing where something is owed.
    """
    if kind.kind == "optional":
        return OptionalValue(None if result is None else from_evaluator(result, kind.item or kind))
    if isinstance(result, np.ndarray | np.generic):
        return _tensor(np.asarray(result), kind)
    if isinstance(result, list) and kind.kind == "sequence":
        return SequenceValue(tuple(from_evaluator(item, kind.item or kind) for item in result))
    if isinstance(result, dict) and kind.kind == "map":
        return _map(result, kind)
    raise UnsuitedError(f"a {type(result).__name__} where the file says {kind.words() or kind.kind}")


def _tensor(array: Array, kind: RuntimeType) -> TensorValue:
    if array.dtype.kind in "OUS" and kind.dtype == "string":
        return tensor_of(array, "string")
    name = _NAME_OF.get(array.dtype)
    if name is None:
        raise UnsuitedError(f"an array of {array.dtype.name}")
    if name in _PACKED:
        return _packed(array, name)
    return TensorValue(name, array.shape, array_bytes(array))


def _map(result: Mapping[Any, Any], kind: RuntimeType) -> MapValue:
    return MapValue(_column(list(result), kind.key_dtype), _column(list(result.values()), kind.dtype))


def _column(items: Sequence[Any], dtype: str) -> TensorValue:
    element = ELEMENTS.get(dtype)
    if element is None or (element.array is None and dtype != "string"):
        raise UnsuitedError(f"a map of {dtype}")
    plain = [np.asarray(item).reshape(()).item() for item in items]
    return tensor_of(np.array(plain, object if element.array is None else element.array), dtype)
