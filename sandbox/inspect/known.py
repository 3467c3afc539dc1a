"""What can be told of a value without evaluating anything: element type, shape, small constants, origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sandbox.wire_tensor import BITS, DTYPES

Shape = tuple[int | None, ...]
"""Sizes; None where one is not known."""

DATA: Final = 1
"""Depends on the values of graph inputs, not only on their shapes."""
DIRECT: Final = 2
"""Is a graph input itself."""

SATURATED: Final = 1 << 62
MAX_NUMBERS: Final = 4096
"""Elements of a constant that are looked at one by one; larger ones are not in this copy of the model."""

_BITS_BY_NAME: Final = {DTYPES[number]: bits for number, bits in BITS.items()}
_RAW: Final = {
    "int8": "<i1", "uint8": "<u1", "bool": "<u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float32": "<f4", "float64": "<f8", "float16": "<f2",
}  # fmt: skip
_TYPED: Final = {
    "int64": "int64_data", "uint64": "uint64_data", "uint32": "uint64_data", "float32": "float_data",
    "float64": "double_data", "int8": "int32_data", "uint8": "int32_data", "bool": "int32_data",
    "int16": "int32_data", "uint16": "int32_data", "int32": "int32_data",
}  # fmt: skip
_NOT_YET: Final = object()


@dataclass(slots=True)
class Known:
    """One value. Empty ``dtype`` and ``shape`` None: unknown. ``tensor`` is a constant's TensorProto."""

    dtype: str = ""
    shape: Shape | None = None
    tensor: Any = None
    origin: int = 0
    """Of DATA and DIRECT."""
    constant: bool = False
    """Can be worked out before the model runs."""
    _numbers: Any = field(default=_NOT_YET, repr=False)

    @property
    def numbers(self) -> tuple[Any, ...] | None:
        """The elements of a small numeric constant in order, else None."""
        if self._numbers is _NOT_YET:
            self._numbers = None if self.tensor is None else numbers_of(self.tensor)
        found: tuple[Any, ...] | None = self._numbers
        return found

    @property
    def integer(self) -> bool:
        """Whether its elements are integers."""
        return self.dtype.startswith(("int", "uint"))

    def bytes(self, free: int | None = None) -> int | None:
        """Return its size in memory, saturating; None where that is not known. Unknown sizes count as ``free``."""
        if self.shape is None or not self.dtype or (free is None and None in self.shape):
            return None
        bits = _BITS_BY_NAME.get(self.dtype, 64)
        total = 1
        for size in self.shape:
            total *= free or 0 if size is None else size
            if total > SATURATED:
                return 0 if 0 in self.shape else SATURATED
        return min((total * (bits or 64) + 7) // 8, SATURATED)


NOTHING: Final = Known()
"""An input that is left out."""
UNKNOWN: Final = Known()
"""A value of which nothing is known."""


def of_numbers(dtype: str, shape: Shape, numbers: tuple[Any, ...], origin: int = 0) -> Known:
    """Return a small constant."""
    return Known(dtype, shape, None, origin, constant=True, _numbers=numbers)


def of_tensor(tensor: Any) -> Known:
    """Return the constant that a TensorProto stands for; its values may be stored elsewhere or left out."""
    number = tensor.data_type
    dtype = DTYPES[number] if 0 < number < len(DTYPES) else ""
    return Known(dtype, tuple(tensor.dims), tensor, constant=True)


def numbers_of(tensor: Any) -> tuple[Any, ...] | None:
    """Return the elements of a small numeric TensorProto; None for others, and where it contradicts itself."""
    number = tensor.data_type
    dtype = DTYPES[number] if 0 < number < len(DTYPES) else ""
    count = 1
    for dim in tensor.dims:
        count *= dim
    if not 0 <= count <= MAX_NUMBERS or dtype not in _RAW:
        return None
    values: Any
    if tensor.raw_data:
        kind = np.dtype(_RAW[dtype])
        if len(tensor.raw_data) != count * kind.itemsize:
            return None
        values = np.frombuffer(tensor.raw_data, kind).tolist()
    else:
        values = getattr(tensor, _TYPED[dtype]) if dtype in _TYPED else ()
    return tuple(values) if len(values) == count else None


class Attributes:
    """Attributes of one node by name; in a function, references are looked up in the call's ``binding``."""

    __slots__ = ("_binding", "_found", "_node")

    def __init__(self, node: Any, binding: Mapping[str, Any]) -> None:
        self._node = node
        self._binding = binding
        self._found: dict[str, Any] | None = None

    def get(self, name: str) -> Any:
        """Return the AttributeProto, None where the node has none or a reference leads nowhere."""
        return self.all().get(name)

    def all(self) -> dict[str, Any]:
        """Return all that are known."""
        if self._found is None:
            self._found = {}
            for attribute in self._node.attribute:
                value = attribute
                if attribute.ref_attr_name:
                    value = self._binding.get(attribute.ref_attr_name)
                if value is not None:
                    self._found[attribute.name] = value
        return self._found

    def integer(self, name: str, default: int) -> int:
        """Return an integer."""
        found = self.get(name)
        return default if found is None else int(found.i)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers, None where the node has none."""
        found = self.get(name)
        return None if found is None else tuple(found.ints)

    def text(self, name: str, default: bytes) -> bytes:
        """Return a text."""
        found = self.get(name)
        return default if found is None else bytes(found.s)


def of_constant(attributes: Attributes) -> Known:
    """Return the value of a Constant node."""
    for name, attribute in attributes.all().items():
        if name == "value":
            return of_tensor(attribute.t)
        if name == "sparse_value":
            sparse = attribute.sparse_tensor
            return Known(of_tensor(sparse.values).dtype, tuple(sparse.dims), constant=True)
        if name in {"value_int", "value_float"}:
            one = attribute.i if name == "value_int" else attribute.f
            return of_numbers("int64" if name == "value_int" else "float32", (), (one,))
        if name in {"value_ints", "value_floats"}:
            many = attribute.ints if name == "value_ints" else attribute.floats
            numbers = tuple(many[:4096])
            dtype = "int64" if name == "value_ints" else "float32"
            if len(many) > len(numbers):
                return Known(dtype, (len(many),), constant=True)
            return of_numbers(dtype, (len(many),), numbers)
        if name in {"value_string", "value_strings"}:
            return Known("string", () if name == "value_string" else (len(attribute.strings),), constant=True)
    return UNKNOWN
