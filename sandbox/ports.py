"""The inputs of a model as probes see them: element type, declared range, golden value, sizes. Pure.

Needs no session: what the manifest declares is enough, so that any process makes the same probes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from sandbox.interface import RuntimeType, RuntimeValue
from sandbox.tensors import ELEMENTS, Element

Array = np.ndarray[Any, Any]
Dims = Mapping[str, Mapping[str, int]]
_WHOLE: Final = frozenset({"i", "u", "b"})


@dataclass(frozen=True, slots=True)
class Port:
    """One tensor input as the probes see it. ``golden`` is its value in the first golden set."""

    name: str
    element: Element
    shape: tuple[int | str, ...]
    range: tuple[float, float] | None
    golden: Array | None

    @property
    def kind(self) -> str:
        """numpy's kind of the element, or an empty string for strings and packed integers."""
        return "" if self.element.array is None else self.element.array.kind

    @property
    def whole(self) -> bool:
        """Whether its elements are whole numbers or bools."""
        return self.kind in _WHOLE

    @property
    def numeric(self) -> bool:
        """Whether values can be made for it."""
        return self.whole or (self.element.floating and self.kind != "c")

    @property
    def varied(self) -> bool:
        """Whether values inside a declared range can be made for it."""
        return self.range is not None and self.numeric

    def cast(self, value: float) -> Any:
        """Return ``value`` as numpy takes it for this element type."""
        return int(value) if self.whole else value

    def edges(self) -> tuple[float, float]:
        """Return the declared range, cut to what the element type can hold; whole numbers for integers."""
        low, high = self.range if self.range is not None else (0.0, 1.0)
        if not self.numeric:
            return low, high
        if self.kind == "b":
            return max(math.ceil(low), 0), min(math.floor(high), 1)
        if self.whole:
            info = np.iinfo(self.element.array)
            return max(math.ceil(low), int(info.min)), min(math.floor(high), int(info.max))
        largest = self.extreme("max")
        return max(low, -largest), min(high, largest)

    def extreme(self, which: str) -> float:
        """Return ``max`` or ``smallest_subnormal`` of a floating element type (numpy's ``finfo``)."""
        return float(getattr(ml_dtypes.finfo(self.element.array), which))  # type: ignore[no-untyped-call]

    def inside(self, value: float) -> float | None:
        """Return ``value`` where it lies in the declared range, else None."""
        low, high = self.edges()
        return value if low <= value <= high else None


def ports(
    inputs: Sequence[RuntimeValue], declared: Sequence[Mapping[str, Any]], golden: Mapping[str, Array]
) -> list[Port] | None:
    """Return the ports of a session, or None where no probe can be made (an input that is no tensor)."""
    specs = {value["name"]: value for value in declared}
    found: list[Port] = []
    for value in inputs:
        element = ELEMENTS.get(value.type.dtype)
        if value.type.kind != "tensor" or element is None:
            return None
        spec = specs.get(value.name, {})
        own, bounds = golden.get(value.name), spec.get("range")
        shape = spec.get("shape")
        if shape is None:
            shape = value.shape
        if shape is None:  # a scalar or an unknown rank: only a golden tells
            shape = own.shape if own is not None else ()
        usable = own is not None and own.ndim == len(shape)
        limits = (float(bounds[0]), float(bounds[1])) if bounds else None
        port = Port(value.name, element, tuple(shape), limits, own if usable else None)
        low, high = port.edges()
        found.append(port if low <= high else replace(port, range=None))  # for example [0.2, 0.8] of an integer
    return found


def declared_ports(declared: Sequence[Mapping[str, Any]], golden: Mapping[str, Array]) -> list[Port] | None:
    """Return the ports of a declared interface; those of a session that keeps it are the same.

    ``declared`` are the manifest's inputs (``InputSpec`` as JSON data); ``golden`` maps input names to
    arrays of the first golden set of the model.
    """
    values = [
        RuntimeValue(str(one["name"]), RuntimeType(one.get("type", "tensor"), one["dtype"]), None)
        for one in declared
    ]
    return ports(values, declared, golden)


class Layout:
    """Sizes and held values of a model's inputs. ``max_elements`` bounds all inputs of one probe together."""

    def __init__(self, inputs: Sequence[Port], dims: Dims, max_elements: int) -> None:
        self.inputs = inputs
        self.dims = dims
        self.max_elements = max_elements
        self.base = self._base_sizes()
        self.varied = [port for port in inputs if port.varied]
        bounded = all(isinstance(dim, int) or dim in dims for port in inputs for dim in port.shape)
        self.declared = bounded and all(port.golden is not None for port in inputs if not port.varied)
        """Whether every size and every value that probes do not set is declared, or taken from a golden."""

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input for these sizes of named dimensions."""
        return {port.name: self._shape(port, sizes) for port in self.inputs}

    def fits(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Say whether inputs of these shapes are within ``max_elements``."""
        return sum(math.prod(shape) for shape in shapes.values()) <= self.max_elements

    def held(self, port: Port, shape: tuple[int, ...]) -> Array | None:
        """Return the value of an input that a probe does not set: golden, start of its range, or zero."""
        if port.golden is not None:
            return stretch(port.golden, shape)
        if port.element.name == "string":
            return np.full(shape, "a", object)
        if not port.numeric:
            return None
        start = port.edges()[0] if port.range is not None else 0.0
        return np.full(shape, port.cast(start), port.element.array)

    def _base_sizes(self) -> dict[str, int]:
        """A size for each name: the golden's where it is inside the bounds, else the least of 1 or more."""
        sizes: dict[str, int] = {}
        for port in self.inputs:
            for position, dim in enumerate(port.shape):
                if not isinstance(dim, str) or dim in sizes or dim == "?":
                    continue
                limits = self.dims.get(dim)
                size = port.golden.shape[position] if port.golden is not None else None
                if limits is not None and (size is None or not limits["min"] <= size <= limits["max"]):
                    size = min(max(limits["min"], 1), limits["max"])
                if size is not None or port.golden is None:
                    sizes[dim] = 1 if size is None else size
        return sizes

    def _shape(self, port: Port, sizes: Mapping[str, int]) -> tuple[int, ...]:
        golden = port.golden.shape if port.golden is not None else (1,) * len(port.shape)
        return tuple(
            dim if isinstance(dim, int) else sizes.get(dim, golden[position])
            for position, dim in enumerate(port.shape)
        )


def stretch(golden: Array, shape: tuple[int, ...]) -> Array | None:
    """Return ``golden`` with its entries repeated or cut along each axis to ``shape``; None if it is empty."""
    array = golden
    for axis, size in enumerate(shape):
        have = array.shape[axis]
        if have == size:
            continue
        if have == 0:
            return None
        array = np.take(array, np.arange(size) % have, axis=axis)
    return array
