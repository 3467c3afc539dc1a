"""The arrays that go into a session and come out of it: judged before they are fed, and before they are handed on.

Imports numpy lazily: who only verifies a release needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acceptd.errors import InvalidInputError, InvalidOutputError
from acceptd.release.interface import Bound, Spec, check_literal, check_shape


def numpy_here() -> Any:
    """Import numpy: late, for a loader that only verifies needs none."""
    import numpy

    return numpy


def judged(spec: Spec, value: object, dims: Mapping[str, tuple[int, int]], bound: Bound) -> object:
    """Return the value after every check that needs no tensor; arrays come back as a copy of their own."""
    numpy = numpy_here()
    if isinstance(value, list | tuple | str | int | float):
        check_literal(spec, value, dims, bound)
        return value
    if not isinstance(value, numpy.ndarray | numpy.generic) and not hasattr(value, "__array__"):
        raise InvalidInputError(f"{spec.name!r}: {type(value).__name__} is neither lists nor an array")
    array = numpy.asarray(value)
    found = "string" if array.dtype.kind in "UO" and spec.dtype == "string" else array.dtype.name
    if found != spec.dtype or not (array.dtype.isnative or spec.dtype == "string"):
        raise InvalidInputError(f"{spec.name!r} is {array.dtype}, not {spec.dtype}")
    check_shape(spec, array.shape, dims, bound, InvalidInputError)
    array = numpy.array(array, order="C", copy=True)  # what is checked is what runs
    if spec.dtype == "string":
        if not all(isinstance(item, str) for item in array.ravel().tolist()):
            raise InvalidInputError(f"{spec.name!r} holds an element that is no text")
    elif array.dtype.kind == "f" and not numpy.isfinite(array).all():
        raise InvalidInputError(f"{spec.name!r} holds NaN or infinity")
    if spec.range is not None and array.dtype.kind in "fiu" and array.size:
        # Bounds are compared in the array's own precision: float32(0.1) keeps the bound 0.1.
        low, high = (array.dtype.type(end) if array.dtype.kind == "f" else end for end in spec.range)
        if array.min() < low or array.max() > high:
            raise InvalidInputError(f"{spec.name!r} holds an element outside {spec.range[0]} to {spec.range[1]}")
    return array


def tensor(spec: Spec, value: object) -> Any:
    """Make the array that onnxruntime is fed. Only reached once every input of the call passed."""
    numpy = numpy_here()
    return numpy.array(value, dtype=object if spec.dtype == "string" else spec.dtype, order="C", ndmin=0)


def check_output(spec: Spec, value: Any, dims: Mapping[str, tuple[int, int]], bound: Bound) -> None:
    """Raise InvalidOutputError where one output breaks the accepted interface.

    Every floating output is finite. ``kind = "probabilities"``: each element in [0, 1] exactly, each row
    (last axis, of two or more) within ``sum_error`` of 1, beside the rounding that its dtype cannot avoid.
    """
    numpy = numpy_here()
    if spec.type != "tensor":
        _check_nested(spec, value)
        return
    if not isinstance(value, numpy.ndarray):
        raise InvalidOutputError(f"{spec.name!r} is no tensor")
    found = "string" if value.dtype.kind in "UO" else value.dtype.name
    if found != spec.dtype:
        raise InvalidOutputError(f"{spec.name!r} is {found}, not {spec.dtype}")
    check_shape(spec, value.shape, dims, bound, InvalidOutputError)
    if spec.labels and (value.ndim == 0 or value.shape[-1] != len(spec.labels)):
        raise InvalidOutputError(f"{spec.name!r} has not one value for each of {len(spec.labels)} labels")
    if value.dtype.kind != "f":
        return
    if not numpy.isfinite(value).all():
        raise InvalidOutputError(f"{spec.name!r} holds NaN or infinity")
    if spec.kind == "probabilities" and value.size:
        if value.min() < 0 or value.max() > 1:
            raise InvalidOutputError(f"{spec.name!r} holds a probability outside 0 to 1")
        if value.ndim and value.shape[-1] > 1:
            _check_sums(spec, value)


def _check_sums(spec: Spec, value: Any) -> None:
    from fractions import Fraction  # what only some releases need waits until one does

    numpy = numpy_here()
    rows = value.reshape(-1, value.shape[-1])
    sums = rows.sum(axis=1, dtype=numpy.float64)
    unit = Fraction(float(numpy.finfo(value.dtype).eps)) / 2
    # Rounding each element to its dtype moves a row's sum by at most unit x sum; only close calls are exact.
    tolerance = Fraction(repr(spec.sum_error))  # the decimal that was declared, exactly
    for row in numpy.flatnonzero(numpy.abs(sums - 1.0) > 0.9999 * spec.sum_error):
        exact = sum(map(Fraction, rows[row].tolist()), Fraction())
        if abs(exact - 1) > tolerance + unit * exact:
            raise InvalidOutputError(
                f"row {int(row)} of {spec.name!r} sums to {float(exact):.9g}, not 1 within {spec.sum_error:g}"
            )


def _check_nested(spec: Spec, value: Any) -> None:
    """Walk sequences and maps as onnxruntime gives them: lists, dictionaries, arrays, scalars."""
    numpy = numpy_here()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, float | numpy.ndarray | numpy.generic):
            array = numpy.asarray(item)
            if array.dtype.kind == "f" and not numpy.isfinite(array).all():
                raise InvalidOutputError(f"{spec.name!r} holds NaN or infinity")


def value_digest(value: Any) -> str:
    """Return the digest of one tensor, or of a sequence or map as onnxruntime gives it: of every element.

    A sequence is bound by the digests of its elements in order, a map by those of its pairs, sorted. Text that is
    no Unicode (lone surrogates) has a digest of its own.
    """
    from acceptd.release.receipt import tensor_digest

    numpy = numpy_here()
    if isinstance(value, numpy.ndarray):
        if value.dtype.kind in "UO":
            return tensor_digest("string", value.shape, [_text(str(item)) for item in value.ravel().tolist()])
        return tensor_digest(value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, list | tuple):
        return tensor_digest("sequence", (len(value),), [value_digest(item).encode() for item in value])
    if isinstance(value, dict):
        pairs = sorted(f"{value_digest(key)}{value_digest(item)}".encode() for key, item in value.items())
        return tensor_digest("map", (len(pairs),), pairs)
    return tensor_digest(f"scalar {type(value).__name__}", (), [_text(repr(value))])


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
