"""Which probes a run makes beside its draws. Pure: from declared interface, bounds and golden inputs to arrays.

In-domain is only what the manifest declares (design, section 4): every dimension a number or bounded
in ``[dims]``, every value inside a declared ``range`` or taken from a golden set. Everything else is
out of domain and says how the model behaves where no caller may go. The order is in-domain first,
the likeliest crash last, so that a late crash loses least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from sandbox.draws import Probe as Probe
from sandbox.draws import drawn, generator
from sandbox.ports import Array, Dims, Layout, Port
from sandbox.ports import declared_ports as declared_ports
from sandbox.ports import ports as ports
from sandbox.ports import stretch as stretch

MAX_DIMS: Final = 4
"""How many named dimensions are probed at their bounds, in order of appearance."""
CODES: Final = 255
"""Steps of an 8-bit quantisation over a whole range."""
LONG: Final = 1 << 16
"""Characters of the longest string."""
_SMALL_BITS: Final = 16
_UNICODE: Final = (
    "\u0130stanbul \u00df\u017f\ufb03", "\u1100\u1161\u11a8 \ud55c\uad6d\uc5b4", "e\u0301\u0323\u0336" * 8,
    "\u202e\u05d0\u05d1\u061c\u0627\u2066x\u2069", "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3fd",
    "\ufeff\u00a0\u2028\u3000\u200b", "\ufffe\ufffd\U0010ffff\ue000\U000e0041", "\x01\x7f\x85\t\r\n",
)  # fmt: skip
"""Case folding that changes length, Hangul jamo, stacked marks, bidi controls, a joined emoji, blanks that
are none in ASCII, non-characters and private use, control characters. No NUL."""

Fill = Callable[[Port, tuple[int, ...]], Array | None]
"""Port and shape to the values of one input, or None where this probe leaves it as it is held."""


def plan(inputs: Sequence[Port], dims: Dims, *, seed: str, max_elements: int) -> Iterator[Probe]:
    """Yield all probes in order. A probe that would need more than ``max_elements`` in all is left out."""
    planner = Planner(inputs, dims, seed=seed, max_elements=max_elements)
    made = [*planner.core(), *planner.values()]
    yield from (probe for probe in made if probe.in_domain)
    yield from planner.outside(made)


class Planner:
    """The probes of one model: ``core`` and ``values`` inside the domain as far as declared, then ``outside``."""

    def __init__(self, inputs: Sequence[Port], dims: Dims, *, seed: str, max_elements: int) -> None:
        self._inputs = inputs
        self._dims = dims
        self._seed = seed
        self._layout = Layout(inputs, dims, max_elements)
        self._bounded = all(isinstance(dim, int) or dim in dims for port in inputs for dim in port.shape)

    def core(self) -> Iterator[Probe]:
        """Bounds of declared ranges and sizes. ``in_domain`` is false on those that lack a declaration.

        ``low`` and ``high`` are left out where they would be ``zeros`` and ``ones`` once more: an inference of a
        large model takes all its weights through memory. Not where either of those two is missing: whether
        outputs depend on inputs is judged by two that differ (``acceptd/compare/insensitive.py``).
        """
        if not self._inputs:
            return
        zeros, ones = self._value(lambda port: port.inside(0.0)), self._value(lambda port: port.inside(1.0))
        known = {zeros, ones} if zeros is not None and ones is not None else set()
        for name, maker in (
            ("zeros", lambda port: port.inside(0.0)),
            ("ones", lambda port: port.inside(1.0)),
            ("low", lambda port: port.edges()[0]),
            ("high", lambda port: port.edges()[1]),
            ("mid", _middle),
        ):
            if name in {"low", "high"} and self._value(maker) in known:
                continue
            if name != "high" or any(low != high for low, high in (port.edges() for port in self._layout.varied)):
                yield from self._inside(name, maker)
        yield from self._bounds(("min", "max"), allowed=self._layout.declared)

    def values(self, *, quantised: bool = False) -> Iterator[Probe]:
        """Values that arithmetic treats in its own way: subnormal, minus zero, codes and steps of quantisation."""
        floats = [port for port in self._layout.varied if port.element.floating]
        if floats:
            yield from self._inside("subnormal", _subnormal)
            yield from self._inside("minus-zero", lambda port: port.inside(-0.0))
        if any(_has_codes(port) for port in self._layout.varied):
            yield from self._filled("codes", self._layout.declared, self._layout.base, _codes)
        if quantised and floats:
            for name, offset in (("steps", 0.0), ("half-steps", 0.5)):
                yield from self._filled(
                    name, self._layout.declared, self._layout.base, partial(_steps, offset=offset)
                )

    def outside(self, made: Sequence[Probe]) -> Iterator[Probe]:
        """What no caller was promised: what of ``made`` lacks a declaration, then what lies beyond."""
        if not self._inputs:
            return
        yield from (probe for probe in made if not probe.in_domain)
        done = {probe.name for probe in made}
        numeric = [port for port in self._inputs if port.numeric]
        floats = [port for port in numeric if port.element.floating]
        for name, value in (("zeros", 0.0), ("ones", 1.0)):
            if f"probe:{name}" not in done:
                yield from self._same(name, dict.fromkeys((port.name for port in numeric), value))
        if floats and "probe:subnormal" not in done:
            yield from self._same("subnormal", {port.name: _subnormal(port, always=True) for port in floats})
        yield from self._bounds(("under", "zero", "over"), allowed=False)
        yield from self._texts()
        yield from self._beyond_range()
        yield from self._integer_extremes(numeric)
        for name, value in (("nan", math.nan), ("inf", math.inf), ("minus-inf", -math.inf)):
            yield from self._same(name, dict.fromkeys((port.name for port in floats), value))
        for name, end in (("float-max", 1), ("float-lowest", -1)):
            yield from self._same(name, {port.name: end * port.extreme("max") for port in floats})

    def _beyond_range(self) -> Iterator[Probe]:
        """One width of the range below it and above it."""
        for name, side in (("below", -1), ("above", 1)):
            values = {port.name: _beyond(port, side) for port in self._layout.varied}
            yield from self._same(name, {key: value for key, value in values.items() if value is not None})

    def _integer_extremes(self, numeric: Sequence[Port]) -> Iterator[Probe]:
        whole = [port for port in numeric if port.whole and port.kind != "b"]
        for name, which in (("int-min", "min"), ("int-max", "max")):
            values = {port.name: getattr(np.iinfo(port.element.array), which) for port in whole}
            known = all(port.varied and values[port.name] in port.edges() for port in whole)
            yield from self._same(name, {} if known else values)

    def _texts(self) -> Iterator[Probe]:
        """Strings of every string input: empty, one of 65,536 characters among others, and odd Unicode."""
        if not any(port.element.name == "string" for port in self._inputs):
            return
        for name, texts in (("text-empty", [""]), ("text-long", ["a" * LONG, "a"]), ("text-unicode", [*_UNICODE])):
            yield from self._filled(name, False, self._layout.base, partial(_text, texts=texts))

    def _inside(self, name: str, maker: Callable[[Port], float | None]) -> Iterator[Probe]:
        """One value for each input with a range, where every range holds its value."""
        values = {port.name: maker(port) for port in self._layout.varied}
        if values and all(value is not None for value in values.values()):
            yield from self._filled(
                name, self._layout.declared, self._layout.base, partial(_constant, values=values)
            )

    def _value(self, maker: Callable[[Port], float | None]) -> tuple[bytes, ...] | None:
        """Return the bytes of the one value that each input gets; None where a range does not hold its own."""
        values = [(port, maker(port)) for port in self._layout.varied]
        bits = [
            np.full(1, port.cast(value), port.element.array).tobytes()
            for port, value in values
            if value is not None
        ]
        return tuple(bits) if len(bits) == len(values) else None

    def _same(self, name: str, values: Mapping[str, float | None]) -> Iterator[Probe]:
        if values:
            yield from self._filled(name, False, self._layout.base, partial(_constant, values=values))

    def _bounds(self, ends: Sequence[str], *, allowed: bool) -> Iterator[Probe]:
        names = self._named_dims()
        for end in ends:
            for name in names:
                size = _bound(self._dims[name], end)
                if size is not None:
                    yield from self._sized(f"dim-{end}:{name}", {name: size}, allowed=allowed)
            if len(names) > 1 and end in {"min", "max"}:
                yield from self._sized(
                    f"dims-{end}", {name: self._dims[name][end] for name in names}, allowed=allowed
                )

    def _sized(self, name: str, sizes: Mapping[str, int], *, allowed: bool) -> Iterator[Probe]:
        source = generator(self._seed, name)
        yield from self._filled(
            name, allowed, {**self._layout.base, **sizes}, lambda port, shape: _random(port, shape, source)
        )

    def _named_dims(self) -> list[str]:
        names = dict.fromkeys(dim for port in self._inputs for dim in port.shape if dim in self._dims)
        return [str(name) for name in names][:MAX_DIMS]

    def _filled(self, name: str, allowed: bool, sizes: Mapping[str, int], fill: Fill) -> Iterator[Probe]:
        shapes = self._layout.shapes(sizes)
        if not self._layout.fits(shapes):
            return
        feeds: dict[str, Array] = {}
        for port in self._inputs:
            array = fill(port, shapes[port.name])
            if array is None:
                array = self._layout.held(port, shapes[port.name])
            if array is None:
                return
            feeds[port.name] = array
        yield Probe(f"probe:{name}", allowed, feeds)


def _constant(port: Port, shape: tuple[int, ...], *, values: Mapping[str, float | None]) -> Array | None:
    value = values.get(port.name)
    return None if value is None else np.full(shape, port.cast(value), port.element.array)


def _random(port: Port, shape: tuple[int, ...], source: np.random.Generator) -> Array | None:
    return drawn(port, (1, *shape), source).reshape(shape) if port.varied else None


def _text(port: Port, shape: tuple[int, ...], *, texts: Sequence[str]) -> Array | None:
    if port.element.name != "string":
        return None
    array = np.empty(math.prod(shape), object)
    rest = texts if len(texts) > 2 else texts[-1:]
    array[:] = [texts[0], *(rest[number % len(rest)] for number in range(1, array.size))][: array.size]
    return array.reshape(shape)


def _has_codes(port: Port) -> bool:
    return port.whole and port.kind != "b" and port.element.bits <= _SMALL_BITS


def _codes(port: Port, shape: tuple[int, ...]) -> Array | None:
    """Whole numbers from one end of the range to the other, as evenly as there are elements."""
    if not port.varied or not _has_codes(port):
        return None
    return np.rint(np.linspace(*port.edges(), math.prod(shape))).reshape(shape).astype(port.element.array)


def _steps(port: Port, shape: tuple[int, ...], *, offset: float) -> Array | None:
    """Multiples of 1/255 of the range, or the halves between them, where a rounding goes either way."""
    if not port.varied or not port.element.floating:
        return None
    low, high = port.edges()
    codes = np.rint(np.linspace(0, CODES, math.prod(shape))) + offset
    values = low + np.minimum(codes, CODES) * ((high - low) / CODES)
    return np.asarray(np.clip(values, low, high)).reshape(shape).astype(port.element.array)


def _bound(limits: Mapping[str, int], end: str) -> int | None:
    if end in {"min", "max"}:
        return limits[end]
    if end == "zero":
        return 0 if limits["min"] > 0 else None
    if end == "under":
        return limits["min"] - 1 if limits["min"] > 1 else None
    return limits["max"] + 1


def _middle(port: Port) -> float:
    low, high = port.edges()
    middle = low / 2 + high / 2
    return math.floor(middle) if port.whole else middle


def _subnormal(port: Port, *, always: bool = False) -> float | None:
    """The smallest number above zero of a floating type; of others an end of the range."""
    if not port.element.floating:
        return port.edges()[0]
    value = port.extreme("smallest_subnormal")
    return value if always else port.inside(value)


def _beyond(port: Port, side: int) -> float | None:
    low, high = port.edges()
    value = (high if side > 0 else low) + side * max(high - low, 1.0)
    if port.kind == "b" or not math.isfinite(value):
        return None
    if port.whole:
        info = np.iinfo(port.element.array)
        return value if info.min <= value <= info.max else None
    return value if abs(value) <= port.extreme("max") else None
