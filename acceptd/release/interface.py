"""The accepted interface of one model, and whether a caller's plain values keep it. Pure, without numpy.

Nested lists are judged element by element here, so that nothing wrong ever becomes a tensor. Arrays are
judged by their metadata here and by their elements in :mod:`acceptd.loader_values`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from acceptd.errors import InvalidInputError, LoaderError, MalformedError

FLOAT_MAX: Final = {
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
"""Largest finite value of each floating type (IEEE 754-2019, table 3.5)."""

INTEGER_BITS: Final = {f"{sign}int{bits}": (bits, sign == "") for bits in (8, 16, 32, 64) for sign in ("", "u")}
SUPPORTED: Final = frozenset({*FLOAT_MAX, *INTEGER_BITS, "bool", "string"})
"""Types that the Python API of onnxruntime takes and gives as plain arrays."""

COARSE: Final = frozenset({"dynamic", "static", "mixed"})
"""Ways to quantise that round activations, and with them the rows of a Softmax."""
MOST_SUM_ERROR: Final = 0.02
"""No row of probabilities may be further from a sum of 1, whatever was declared."""

Bound = dict[str, int]
"""Sizes of named dimensions in one call: the same name means the same size everywhere."""


class Spec(NamedTuple):
    """One input or output as the manifest declares it."""

    name: str
    dtype: str
    type: str
    shape: tuple[int | str, ...] | None
    """Numbers, names and ``?``; None where the rank was not declared."""
    range: tuple[float, float] | None = None
    optional: bool = False
    kind: str = "values"
    labels: tuple[str, ...] = ()
    sum_error: float = 1e-4
    """Probabilities: how far a row's sum may be from 1."""


class Interface(NamedTuple):
    """Inputs, outputs and the bounds of the named dimensions, both ends included."""

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    dims: Mapping[str, tuple[int, int]]


def interface(manifest: Mapping[str, Any], model: Mapping[str, Any]) -> Interface:
    """Return the interface of one model of a signed manifest; raise MalformedError where it is none."""
    try:
        dims = {name: (int(d["min"]), int(d["max"])) for name, d in dict(manifest.get("dims") or {}).items()}
        coarse = dict(model.get("quantization") or manifest.get("quantization") or {}).get("method") in COARSE
        return Interface(_specs(model["inputs"]), _specs(model["outputs"], coarse=coarse), dims)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedError(f"the release's manifest has no usable interface: {error!r}") from error


def _sum_error(row: Mapping[str, Any], *, coarse: bool) -> float:
    """Return the tolerance of a row's sum as the judge takes it (docs/parity.md), by what the manifest declares.

    The acceptor's own limits were kept on every golden and probe; here only :data:`MOST_SUM_ERROR` bounds it.
    """
    tolerance = dict(row.get("tolerance") or {})
    declared = dict(tolerance.get("limits") or {}).get("max_sum_error")
    if declared is not None:
        return min(max(float(declared), 0.0), MOST_SUM_ERROR)
    if coarse:
        return MOST_SUM_ERROR
    return min(max(1e-4, float(tolerance.get("atol") or 0.0)), MOST_SUM_ERROR)


def _specs(rows: Sequence[Mapping[str, Any]], *, coarse: bool = False) -> tuple[Spec, ...]:
    return tuple(
        Spec(
            name=str(row["name"]),
            dtype=str(row["dtype"]),
            type=str(row.get("type") or "tensor"),
            shape=None if row.get("shape") is None else tuple(row["shape"]),
            range=None if row.get("range") is None else (float(row["range"][0]), float(row["range"][1])),
            optional=bool(row.get("optional", False)),
            kind=str(row.get("kind") or "values"),
            labels=tuple(row.get("labels") or ()),
            sum_error=_sum_error(row, coarse=coarse),
        )
        for row in rows
    )


def check_names(specs: Sequence[Spec], given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError unless exactly the declared inputs are given (optional ones may be left out)."""
    known = {spec.name for spec in specs}
    for name in given:
        if name not in known:
            raise InvalidInputError(f"{str(name)[:120]!r} is no input; there are: {', '.join(sorted(known))}")
    for spec in specs:
        if spec.name not in given and not spec.optional:
            raise InvalidInputError(f"input {spec.name!r} is missing")


def check_shape(
    spec: Spec, shape: Sequence[int], dims: Mapping[str, tuple[int, int]], bound: Bound, error: type[LoaderError]
) -> None:
    """Raise ``error`` where rank or a dimension breaks the declaration; bind the names' sizes in ``bound``."""
    if spec.shape is None:
        return
    if len(shape) != len(spec.shape):
        raise error(f"{spec.name!r} has rank {len(shape)}, not {len(spec.shape)}")
    for axis, size in enumerate(shape):
        _check_dim(spec, axis, size, dims, bound, error)


def _check_dim(
    spec: Spec,
    axis: int,
    size: int,
    dims: Mapping[str, tuple[int, int]],
    bound: Bound,
    error: type[LoaderError],
) -> None:
    declared = (spec.shape or ())[axis]
    place = f"dimension {axis} of {spec.name!r}"
    if isinstance(declared, int):
        if size != declared:
            raise error(f"{place} is {size}, not {declared}")
        return
    if declared == "?":
        return
    if declared in dims:
        least, most = dims[declared]
        if not least <= size <= most:
            raise error(f"{place} ({declared}) is {size}, outside {least} to {most}")
    if bound.setdefault(declared, size) != size:
        raise error(f"{place} ({declared}) is {size}, elsewhere in this call {bound[declared]}")


def check_literal(spec: Spec, value: object, dims: Mapping[str, tuple[int, int]], bound: Bound) -> tuple[int, ...]:
    """Return the shape of nested lists or a scalar after every element passed type, finiteness and range.

    Raises InvalidInputError, also for ragged lists. A list whose length is out of bounds is never walked.
    """
    rank = _depth(value) if spec.shape is None else len(spec.shape)
    shape: list[int] = []
    _walk(spec, value, 0, rank, shape, dims, bound)
    return tuple(shape)


def _depth(value: object) -> int:
    depth = 0
    while isinstance(value, list | tuple):
        depth += 1
        if depth > 64:
            raise InvalidInputError("lists are nested deeper than 64")
        if not value:
            break
        value = value[0]
    return depth


def _walk(
    spec: Spec,
    value: object,
    axis: int,
    rank: int,
    shape: list[int],
    dims: Mapping[str, tuple[int, int]],
    bound: Bound,
) -> None:
    if axis == rank:
        _check_element(spec, value)
        return
    if not isinstance(value, list | tuple):
        raise InvalidInputError(f"{spec.name!r} has rank {axis}, not {rank}")
    if axis == len(shape):
        if spec.shape is not None:
            _check_dim(spec, axis, len(value), dims, bound, InvalidInputError)
        shape.append(len(value))
    elif shape[axis] != len(value):
        raise InvalidInputError(f"{spec.name!r} is ragged: {len(value)} beside {shape[axis]} in dimension {axis}")
    for item in value:
        _walk(spec, item, axis + 1, rank, shape, dims, bound)
    if not value:  # nothing below to measure
        for below in range(axis + 1, rank):
            if below == len(shape):
                declared = (spec.shape or ())[below : below + 1]
                shape.append(declared[0] if declared and isinstance(declared[0], int) else 0)


def _check_element(spec: Spec, value: object) -> None:
    if spec.dtype == "string":
        if not isinstance(value, str):
            _wrong(spec, value, "is no text")
        return
    if spec.dtype == "bool":
        if not isinstance(value, bool):
            _wrong(spec, value, "is no boolean")
        return
    if isinstance(value, bool):
        _wrong(spec, value, f"is no {spec.dtype}")
    if spec.dtype in INTEGER_BITS:
        if not isinstance(value, numbers.Integral):
            _wrong(spec, value, f"is no {spec.dtype}")
        bits, signed = INTEGER_BITS[spec.dtype]
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if not least <= int(value) <= most:
            _wrong(spec, value, f"does not fit {spec.dtype}")
    else:
        if not isinstance(value, numbers.Real):
            _wrong(spec, value, f"is no {spec.dtype}")
        try:
            finite = math.isfinite(value) and abs(float(value)) <= FLOAT_MAX[spec.dtype]
        except (OverflowError, ValueError):
            finite = False
        if not finite:
            _wrong(spec, value, f"is no finite {spec.dtype}")
    if spec.range is not None and not spec.range[0] <= value <= spec.range[1]:  # type: ignore[operator]
        _wrong(spec, value, f"is outside {spec.range[0]} to {spec.range[1]}")


def _wrong(spec: Spec, value: object, what: str) -> NoReturn:
    raise InvalidInputError(f"an element of {spec.name!r} {what}: {_shown(value)}")


def _shown(value: object) -> str:
    # An integer of 10,000 digits cannot be printed (sys.set_int_max_str_digits), and text may be long.
    if isinstance(value, int) and value.bit_length() > 128:
        return "an integer of more than 128 bits"
    return repr(value)[:60] if isinstance(value, str | int | float) else type(value).__name__
