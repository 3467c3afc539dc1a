"""Sparse tensors, wherever they stand: shape, and indices that are in range, ascending and without repetition.

onnx.checker looks at those of the main graph alone, and readers that trust the order find other elements
than readers that do not.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sandbox.inspect.problems import Problems

INT64: Final = 7
EXTERNAL: Final = 1
GREATEST: Final = (1 << 63) - 1


def examine(sparse: Any, place: str, problems: Problems) -> None:
    """Add what is wrong with one SparseTensorProto."""
    dims = tuple(sparse.dims)
    dense = 1
    for dim in dims:
        dense *= dim
    if any(dim < 0 for dim in dims) or dense > GREATEST:
        problems.add("structure/tensor-dims", place, f"a sparse tensor has dimensions {list(dims[:16])}")
        return
    message = _fault(sparse, dims, dense)
    if message:
        problems.add("structure/sparse-indices", place, message)


def _fault(sparse: Any, dims: tuple[int, ...], dense: int) -> str:
    values, indices = sparse.values, sparse.indices
    if len(values.dims) != 1:
        return f"the values have {len(values.dims)} dimensions, not one"
    count = values.dims[0]
    if indices.data_type != INT64:
        return f"the indices have data type {indices.data_type}, not int64"
    if indices.data_location == EXTERNAL or indices.external_data:
        return "the indices are stored externally, where nobody checks them"
    shape = tuple(indices.dims)
    if shape not in {(count,), (count, len(dims))}:
        return f"the indices have shape {list(shape[:4])} for {count} values of {len(dims)} dimensions"
    if indices.raw_data:
        if len(indices.raw_data) % 8:
            return f"{len(indices.raw_data)} bytes of indices"
        found = np.frombuffer(indices.raw_data, "<i8")
    else:
        found = np.array(indices.int64_data, np.int64)
    if found.size != max(int(np.prod(shape)), 0):
        return f"{found.size} indices where the shape needs {int(np.prod(shape))}"
    return _order(found.reshape(shape), dims, dense)


def _order(found: np.ndarray[Any, Any], dims: tuple[int, ...], dense: int) -> str:
    if not found.size:
        return ""
    limit = np.array([dense] if found.ndim == 1 else dims, np.int64)
    outside = (found < 0) | (found >= limit)
    if outside.any():
        at = int(np.argmax(outside.any(axis=1) if found.ndim > 1 else outside))
        return f"index {at} is {found[at].tolist()}, outside the shape {list(dims[:16])}"
    if found.ndim > 1:
        steps = np.array([int(np.prod(dims[axis + 1 :], dtype=object)) for axis in range(len(dims))], np.int64)
        found = (found * steps).sum(axis=1)
    steps_up = np.diff(found)
    if (steps_up <= 0).any():
        at = int(np.argmax(steps_up <= 0)) + 1
        what = "repeats the one before" if steps_up[at - 1] == 0 else "is smaller than the one before"
        return f"index {at} {what}"
    return ""
