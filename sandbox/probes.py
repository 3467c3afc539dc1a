"""Which probes a run makes. Pure: from declared interface, bounds and golden inputs to arrays.

In-domain is only what the manifest declares (design, section 4): every dimension a number or bounded
in ``[dims]``, every value inside a declared ``range`` or taken from a golden set. Everything else is
out of domain and says how the model behaves where no caller may go. The order is in-domain first,
the likeliest crash last, so that a late crash loses least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from sandbox.interface import RuntimeValue
from sandbox.tensors import ELEMENTS, Element

Array = np.ndarray[Any, Any]
MAX_DIMS: Final = 4
"""How many named dimensions are probed at their bounds, in order of appearance."""
_WHOLE: Final = frozenset({"i", "u", "b"})


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: its case name, whether the manifest allows it, and an array for each input."""

    name: str
    in_domain: bool
    feeds: dict[str, Array]


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


def ports(
    inputs: Sequence[RuntimeValue], declared: Sequence[dict[str, Any]], golden: dict[str, Array]
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
        low, high = _edges(port)
        found.append(port if low <= high else replace(port, range=None))  # for example [0.2, 0.8] of an integer
    return found


def plan(
    inputs: Sequence[Port], dims: dict[str, dict[str, int]], *, seed: str, max_elements: int
) -> Iterator[Probe]:
    """Yield the probes in order. A probe that would need more than ``max_elements`` in all is left out."""
    if not inputs:
        return
    planner = _Planner(inputs, dims, seed, max_elements)
    made = list(planner.in_domain())
    yield from (probe for probe in made if probe.in_domain)
    yield from (probe for probe in made if not probe.in_domain)
    yield from planner.out_of_domain({probe.name for probe in made})


class _Planner:
    def __init__(
        self, inputs: Sequence[Port], dims: dict[str, dict[str, int]], seed: str, max_elements: int
    ) -> None:
        self._inputs = inputs
        self._dims = dims
        self._max_elements = max_elements
        self._random = np.random.Generator(np.random.PCG64(int(seed or "0", 16)))
        self._base = self._base_sizes()
        self._bounded = all(self._is_bounded(port) for port in inputs)
        self._held = [port for port in inputs if port.range is None or not port.numeric]
        self._varied = [port for port in inputs if port.range is not None and port.numeric]
        self._held_known = all(port.golden is not None for port in self._held)

    def in_domain(self) -> Iterator[Probe]:
        """Probes of declared ranges and bounds. ``in_domain`` is false on those that lack a declaration."""
        if self._varied:
            allowed = self._bounded and self._held_known
            makers: list[tuple[str, Callable[[Port], float | None]]] = [
                ("zeros", lambda port: _inside(port, 0.0)),
                ("ones", lambda port: _inside(port, 1.0)),
                ("low", lambda port: _edges(port)[0]),
                ("high", lambda port: _edges(port)[1]),
                ("mid", _middle),
            ]
            for name, maker in makers:
                values = {port.name: maker(port) for port in self._varied}
                if any(value is None for value in values.values()):
                    continue
                yield from self._probe(name, allowed, self._base, values)
            for number in range(2):
                yield from self._probe(f"random-{number}", allowed, self._base, {}, fill="random")
        yield from self._bounds(("min", "max"), allowed=self._bounded and self._held_known)

    def out_of_domain(self, done: set[str]) -> Iterator[Probe]:
        """Zeros and ones where no range allows them, NaN, infinity, float extremes, batch 0 and max + 1."""
        numeric = [port for port in self._inputs if port.numeric]
        floats = [port for port in numeric if port.element.floating]
        for name, value in (("zeros", 0.0), ("ones", 1.0)):
            if f"probe:{name}" not in done:
                yield from self._probe(name, False, self._base, {port.name: value for port in numeric})
        yield from self._bounds(("zero", "over"), allowed=False)
        if floats:
            for name, value in (("nan", math.nan), ("inf", math.inf)):
                yield from self._probe(name, False, self._base, {port.name: value for port in floats})
            for name, end in (("float-max", 1), ("float-lowest", -1)):
                extremes = {port.name: end * float(_largest(port.element)) for port in floats}
                yield from self._probe(name, False, self._base, extremes)

    def _bounds(self, ends: Sequence[str], *, allowed: bool) -> Iterator[Probe]:
        names = self._named_dims()
        for end in ends:
            for name in names:
                size = _bound(self._dims[name], end)
                if size is not None:
                    sizes = self._base | {name: size}
                    yield from self._probe(f"dim-{end}:{name}", allowed, sizes, {}, fill="random")
            if len(names) > 1 and end in {"min", "max"}:
                sizes = self._base | {name: self._dims[name][end] for name in names}
                yield from self._probe(f"dims-{end}", allowed, sizes, {}, fill="random")

    def _named_dims(self) -> list[str]:
        names = dict.fromkeys(dim for port in self._inputs for dim in port.shape if dim in self._dims)
        return [str(name) for name in names][:MAX_DIMS]

    def _is_bounded(self, port: Port) -> bool:
        return all(isinstance(dim, int) or dim in self._dims for dim in port.shape)

    def _base_sizes(self) -> dict[str, int]:
        """A size for each name: the golden's where it is inside the bounds, else the least of 1 or more."""
        sizes: dict[str, int] = {}
        for port in self._inputs:
            for position, dim in enumerate(port.shape):
                if not isinstance(dim, str) or dim in sizes or dim == "?":
                    continue
                limits = self._dims.get(dim)
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

    def _probe(
        self,
        name: str,
        allowed: bool,
        sizes: dict[str, int],
        values: Mapping[str, float | None],
        fill: str = "held",
    ) -> Iterator[Probe]:
        shapes = {port.name: self._shape(port, sizes) for port in self._inputs}
        if sum(math.prod(shape) for shape in shapes.values()) > self._max_elements:
            return
        feeds: dict[str, Array] = {}
        for port in self._inputs:
            value = values.get(port.name)
            if value is not None and port.element.array is not None:
                feeds[port.name] = np.full(shapes[port.name], _cast(port, value), port.element.array)
                continue
            array = self._held_value(port, shapes[port.name], fill)
            if array is None:
                return
            feeds[port.name] = array
        yield Probe(f"probe:{name}", allowed, feeds)

    def _held_value(self, port: Port, shape: tuple[int, ...], fill: str) -> Array | None:
        """The value of an input that this probe does not set: random in its range, golden, or zero."""
        if fill == "random" and port.range is not None and port.numeric:
            return self._random_in_range(port, shape)
        if port.golden is not None:
            return stretch(port.golden, shape)
        if not port.numeric:
            return None
        start = port.range[0] if port.range is not None else 0.0
        return np.full(shape, _cast(port, start), port.element.array)

    def _random_in_range(self, port: Port, shape: tuple[int, ...]) -> Array:
        low, high = _edges(port)
        if port.whole:
            whole = self._random.integers(int(low), int(high), size=shape, endpoint=True, dtype=_random_type(port))
            return np.asarray(whole).astype(port.element.array)
        drawn = self._random.random(shape)
        return np.asarray(np.clip(low * (1 - drawn) + high * drawn, low, high)).astype(port.element.array)


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


def _bound(limits: dict[str, int], end: str) -> int | None:
    if end in {"min", "max"}:
        return limits[end]
    if end == "zero":
        return 0 if limits["min"] > 0 else None
    return limits["max"] + 1


def _edges(port: Port) -> tuple[float, float]:
    """The declared range, cut to what the element type can hold; whole numbers for integers."""
    low, high = port.range if port.range is not None else (0.0, 1.0)
    if not port.numeric:
        return low, high
    if port.kind == "b":
        return max(math.ceil(low), 0), min(math.floor(high), 1)
    if port.whole:
        info = np.iinfo(port.element.array)
        return max(math.ceil(low), int(info.min)), min(math.floor(high), int(info.max))
    largest = float(_largest(port.element))
    return max(low, -largest), min(high, largest)


def _middle(port: Port) -> float:
    low, high = _edges(port)
    middle = low / 2 + high / 2
    return math.floor(middle) if port.whole else middle


def _inside(port: Port, value: float) -> float | None:
    low, high = _edges(port)
    return value if low <= value <= high else None


def _cast(port: Port, value: float) -> Any:
    return int(value) if port.whole else value


def _largest(element: Element) -> Any:
    return ml_dtypes.finfo(element.array).max  # type: ignore[no-untyped-call]


def _random_type(port: Port) -> Any:
    return np.uint64 if port.element.name == "uint64" else np.int64
