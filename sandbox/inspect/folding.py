"""Small constants by arithmetic: a trip count of ``2^30 * 2^30`` is as certain as one that is written out.

Without it one Mul hides from every budget what a branch does that no golden and no probe takes. Only what
some dozens of elements fix is worked out; what is not sure (a division by zero, a cast out of range) is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sandbox.inspect.known import NOTHING, Attributes, Known, of_tensor
from sandbox.inspect.sizes import at, sizes

MOST: Final = 64
_TYPES: Final = frozenset(
    {
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
        "float64",
    }
)  # fmt: skip
Array = np.ndarray[Any, Any]


def _divide(left: Array, right: Array) -> Array | None:
    if left.dtype.kind == "f":
        return np.asarray(left / right)
    if not right.all() or (left.dtype.kind == "i" and (right == -1).any()):
        return None
    return np.asarray(np.where((left < 0) != (right < 0), -(abs(left) // abs(right)), abs(left) // abs(right)))


def _shift(attributes: Attributes, left: Array, right: Array) -> Array | None:
    if (right >= 8 * left.dtype.itemsize).any():
        return None
    return np.asarray(left << right if attributes.text("direction", b"") == b"LEFT" else left >> right)


_TWO: Final[dict[str, Callable[[Array, Array], Any]]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": np.power,
}  # fmt: skip
_ONE: Final[dict[str, Callable[[Array], Any]]] = {
    "Neg": np.negative, "Abs": np.abs, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Floor": np.floor,
    "Ceil": np.ceil, "Round": np.round, "Sign": np.sign, "Reciprocal": np.reciprocal,
}  # fmt: skip
_MANY: Final[dict[str, Callable[[Array, Array], Any]]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}
_REDUCED: Final[dict[str, Callable[..., Any]]] = {
    "ReduceProd": np.prod, "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min
}  # fmt: skip
OPERATORS: Final = frozenset(
    {*_TWO, *_ONE, *_MANY, *_REDUCED, "BitShift", "Cast", "Gather", "Size", "Where", "ConstantOfShape"}
)


def fold(op_type: str, attributes: Attributes, dtype: str, inputs: Sequence[Known]) -> tuple[Any, ...] | None:
    """Return the elements of an operator's only output, where small constants fix them, else None."""
    if op_type not in OPERATORS or dtype not in _TYPES:
        return None
    if op_type == "Size":
        return _size(at(inputs, 0))
    arrays = []
    for value in inputs:
        array = _array(value) if value is not NOTHING else None
        if array is None:
            return None
        arrays.append(array)
    try:
        with np.errstate(all="ignore"):
            found = _evaluate(op_type, attributes, dtype, inputs, arrays)
            if found is None or not 0 < np.size(found) <= MOST:
                return None
            result = _cast(np.asarray(found), np.dtype(dtype))
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
        return None
    return None if result is None else tuple(result.ravel().tolist())


def _size(value: Known) -> tuple[int] | None:
    total = 1
    for size in (None,) if value.shape is None else value.shape:
        if size is None:
            return None
        total *= size
    return (total,) if total < 1 << 63 else None


def _array(value: Known) -> Array | None:
    shape = value.shape
    if not value.constant or shape is None or value.dtype not in _TYPES or len(shape) > 8:
        return None
    total = 1
    for size in shape:
        total *= size if size is not None and size <= MOST else MOST + 1
    if total > MOST or value.numbers is None or len(value.numbers) != total:
        return None
    kind = np.dtype(value.dtype)
    try:
        return np.array(value.numbers, kind).reshape(tuple(size or 0 for size in shape))
    except (ValueError, OverflowError):
        return None


def _cast(array: Array, kind: np.dtype[Any]) -> Array | None:
    if array.dtype.kind == "f" and kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        if not np.isfinite(array).all() or (array < low).any() or (array.astype(np.float64) >= high).any():
            return None
    return array.astype(kind)


def _evaluate(
    op_type: str, attributes: Attributes, dtype: str, inputs: Sequence[Known], arrays: list[Array]
) -> Any:
    if op_type in _TWO:
        return _TWO[op_type](*arrays) if len(arrays) == 2 else None
    if op_type in _ONE:
        return _ONE[op_type](*arrays) if len(arrays) == 1 else None
    if op_type in _MANY:
        total = arrays[0]
        for array in arrays[1:]:
            total = np.asarray(_MANY[op_type](total, array))
        return total
    if op_type in _REDUCED:
        axes = attributes.integers("axes") or (sizes(inputs[1]) if len(inputs) > 1 else None)
        if not axes and attributes.integer("noop_with_empty_axes", 0):
            return None
        return _REDUCED[op_type](arrays[0], axis=axes or None)
    if op_type == "BitShift":
        return _shift(attributes, *arrays)
    if op_type == "Gather":
        return np.take(arrays[0], arrays[1], axis=attributes.integer("axis", 0))
    if op_type == "Where":
        return np.where(*arrays)
    if op_type == "ConstantOfShape":
        value = attributes.get("value")
        filled = of_tensor(value.t).numbers if value is not None else (0,)
        shape = tuple(int(size) for size in arrays[0])
        small = filled and all(0 <= size <= MOST for size in shape) and np.prod(shape, dtype=object) <= MOST
        return np.full(shape, filled[0], np.dtype(dtype)) if small and filled else None
    return arrays[0]  # Cast
