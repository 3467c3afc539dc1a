"""Draws: random inputs inside the declared domain, the same in every process. Pure.

``run`` feeds them to the session, ``reference`` to the independent evaluator, and a run of the prior
release to the model before: all from declared interface, dims, first golden set and seed alone.

A draw is one value for every input with a declared ``range``; the other inputs keep their golden value.
Of eight draws seven are uniform over the range and one takes an end of the range for each element, because
weights and triggers meet at corners. Where all inputs with a range and all outputs carry the same named dimension
first, several draws are rows of one inference, and each row is judged as a draw of its own; else one
inference is one draw. Draw ``n`` has the same values either way.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sandbox.ports import Array, Dims, Layout, Port

BATCH_ELEMENTS: Final = 1 << 16
"""Elements of all inputs of one inference to which draws are gathered: a large input is drawn alone."""
CORNERS: Final = 8
"""Every so manieth draw takes ends of the range alone."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One inference: its case name, whether the manifest allows it, an array for each input, draws in it."""

    name: str
    in_domain: bool
    feeds: dict[str, Array]
    rows: int = 0


def batch_of(
    inputs: Sequence[Port],
    outputs: Sequence[Mapping[str, Any]],
    dims: Dims,
    carriers: Sequence[Port] | None = None,
) -> str:
    """Return the bounded dimension whose entries are examples of their own, or an empty string.

    It is the first one of all ``carriers`` (of None: of every input with a range), of every other input that has
    it at all, and of every output (``OutputSpec`` as JSON data), and no other axis goes by its name.
    """
    varied = [port for port in inputs if port.varied] if carriers is None else carriers
    firsts = {port.shape[0] if port.shape else "" for port in varied}
    shapes = [one.get("shape") or [""] for one in outputs]
    firsts |= {shape[0] for shape in shapes}
    name = firsts.pop() if len(firsts) == 1 else ""
    if not varied or not outputs or not isinstance(name, str) or name not in dims:
        return ""
    elsewhere = [*(port.shape[1:] for port in inputs), *(shape[1:] for shape in shapes)]
    return "" if any(name in shape for shape in elsewhere) else name


def rows_of(layout: Layout, batch: str, count: int) -> int:
    """Return how many draws one inference takes."""
    if not batch:
        return 1
    limits = layout.dims[batch]
    one = sum(math.prod(shape) for shape in layout.shapes(layout.base | {batch: 1}).values())
    most = min(limits["max"], count, max(1, min(BATCH_ELEMENTS, layout.max_elements) // max(one, 1)))
    return max(most, limits["min"], 1)


def draws(
    inputs: Sequence[Port],
    outputs: Sequence[Mapping[str, Any]],
    dims: Dims,
    *,
    seed: str,
    count: int,
    max_elements: int,
) -> Iterator[Probe]:
    """Yield inferences named ``probe:draws-0``, ``probe:draws-1``, … that hold ``count`` draws together.

    ``inputs`` from :func:`sandbox.ports.ports` or :func:`sandbox.ports.declared_ports`; ``seed`` is
    hexadecimal. Nothing is yielded where no input has a range, a size or a held value is not
    declared, or one draw is larger than ``max_elements``. A dimension with a least size above the rest of the
    draws is filled up, so that the last inference may hold more.
    """
    layout = Layout(inputs, dims, max_elements)
    if not layout.varied or not layout.declared or count < 1:
        return
    batch = batch_of(inputs, outputs, dims)
    rows = rows_of(layout, batch, count)
    least = dims[batch]["min"] if batch else 1
    sources = {port.name: generator(seed, f"draws {port.name}") for port in layout.varied}
    done = 0
    for number in range(-(-count // rows)):
        size = max(min(rows, count - done), least)
        shapes = layout.shapes(layout.base | ({batch: size} if batch else {}))
        if not layout.fits(shapes):
            return
        feeds: dict[str, Array] = {}
        for port in inputs:
            shape = shapes[port.name]
            if port.varied:
                made = drawn(port, shape if batch else (1, *shape), sources[port.name], done)
                feeds[port.name] = made if batch else made.reshape(shape)
                continue
            held = layout.held(port, shape)
            if held is None:
                return
            feeds[port.name] = held
        yield Probe(f"probe:draws-{number}", True, feeds, size if batch else 1)
        done += size


def generator(seed: str, purpose: str) -> np.random.Generator:
    """Return a generator of its own for one purpose: leaving out one probe changes no other."""
    return np.random.Generator(np.random.PCG64([int(seed or "0", 16), zlib.crc32(purpose.encode())]))


def drawn(port: Port, shape: tuple[int, ...], source: np.random.Generator, first: int = 1) -> Array:
    """Return values of ``port`` in its range, along the first axis one draw after the other, ``first`` the number
    of the first one."""
    low, high = port.edges()
    corner = np.array([number % CORNERS == CORNERS - 1 for number in range(first, first + shape[0])], bool)
    corner = corner.reshape(-1, *(1,) * (len(shape) - 1))
    if port.whole:
        wide: Any = np.uint64 if port.element.name == "uint64" else np.int64
        found = source.integers(int(low), int(high), size=shape, endpoint=True, dtype=wide)
        ends = np.where(found & wide(1), wide(int(high)), wide(int(low)))
        return np.asarray(np.where(corner, ends, found)).astype(port.element.array)
    share = source.random(shape)
    share = np.where(corner, np.rint(share), share)
    return np.asarray(np.clip(low * (1 - share) + high * share, low, high)).astype(port.element.array)
