"""What holds of the outputs of If, Loop and Scan, and how often they turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sandbox.inspect import tally
from sandbox.inspect.known import DIRECT, NOTHING, SATURATED, UNKNOWN, Attributes, Known
from sandbox.inspect.tally import Costs, Tally

Outcome = tuple[list[Known], Tally]
Within = Callable[[Sequence[Known] | None], Outcome]
"""Looks at the body with these inputs."""
_TURN: Final = Known("int64", ())


def joined(found: list[Known], results: list[Known], inputs: list[Known], count: int) -> list[Known]:
    """Return what holds of an If's outputs whichever branch runs."""
    origin = inputs[0].origin & ~DIRECT if inputs else 0
    results = (results + [UNKNOWN] * count)[:count]
    if not found:
        return [Known(value.dtype, value.shape, None, value.origin | origin) for value in results]
    out = []
    for one, other in zip(found, results, strict=True):
        shape = None
        if one.shape is not None and other.shape is not None and len(one.shape) == len(other.shape):
            shape = tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True))
        out.append(Known(one.dtype or other.dtype, shape, None, one.origin | other.origin | origin))
    return out


def loop(costs: Costs, inputs: list[Known], place: str, count: int, within: Within) -> Outcome:
    """A Loop: certain to turn as often as it says only where nothing ever changes its condition."""
    most = inputs[0].numbers if inputs else None
    start = inputs[1] if len(inputs) > 1 else NOTHING
    carried = inputs[2:]
    origin = 0
    for value in inputs:
        origin |= value.origin & ~DIRECT
    condition = Known("bool", (), None, origin)
    fed = [_TURN, condition, *(Known(value.dtype, None, None, origin) for value in carried)]
    results, inner = within(fed)
    again = results[0] if results else UNKNOWN
    open_start = start is NOTHING or bool(start.numbers and start.numbers[0])
    certain = open_start and (again is condition or bool(again.numbers and again.numbers[0]))
    trips: int | None = max(int(most[0]), 0) if most else None
    if inputs and inputs[0] is NOTHING and certain:
        trips = SATURATED
    if start.numbers is not None and not any(start.numbers):
        trips = 0
    costs.trip("Loop", place, trips, certain=certain, steps=1 + inner.steps, size=inner.peak)
    if certain and trips is not None:
        inner = Tally(tally.times(trips, 1 + inner.steps), inner.folded, inner.peak)
    found = [Known(value.dtype, None, None, value.origin | origin) for value in results[1 : 1 + len(carried)]]
    turns = trips if certain else None
    for value in results[1 + len(carried) :]:
        shape = None if value.shape is None else (turns, *value.shape)
        found.append(Known(value.dtype, shape, None, value.origin | origin))
    return (found + [UNKNOWN] * count)[:count], inner


def scan(
    costs: Costs, takes: int, old: bool, attributes: Attributes, inputs: list[Known], place: str, count: int,
    within: Within,
) -> Outcome:  # fmt: skip
    """A Scan, whose body takes ``takes`` inputs: it turns as often as the scanned axis is long.

    ``old``: before opset 9 the first input was the lengths, and all others have the batch as first axis.
    """
    inputs = inputs[1:] if old else inputs
    states = max(len(inputs) - attributes.integer("num_scan_inputs", 1), 0)
    axes = () if old else attributes.integers("scan_input_axes") or ()
    trips: int | None = None
    fed = [_part(value, 0 if old else None) for value in inputs[:states]]
    for at, value in enumerate(inputs[states:]):
        axis = 1 if old else axes[at] if at < len(axes) else 0
        shape = value.shape
        if trips is None and shape is not None and -len(shape) <= axis < len(shape):
            trips = shape[axis]
        one = _part(value, axis)
        fed.append(_part(one, 0) if old else one)
    results, inner = within(fed if len(fed) == takes else None)
    costs.trip("Scan", place, trips, certain=True, steps=1 + inner.steps, size=inner.peak)
    if trips is not None:
        inner = Tally(tally.times(trips, 1 + inner.steps), inner.folded, inner.peak)
    if old:
        return [
            Known(value.dtype, None, None, value.origin) for value in (results + [UNKNOWN] * count)[:count]
        ], inner
    found = list(results[:states])
    for value in results[states:]:
        shape = None if value.shape is None or attributes.get("scan_output_axes") else (trips, *value.shape)
        found.append(Known(value.dtype, shape, None, value.origin))
    return (found + [UNKNOWN] * count)[:count], inner


def _part(value: Known, axis: int | None) -> Known:
    """Return what one turn sees of a value: all of it, or without one axis."""
    shape = value.shape
    if shape is not None and axis is not None:
        at = axis % len(shape) if shape and -len(shape) <= axis < len(shape) else None
        shape = None if at is None else (*shape[:at], *shape[at + 1 :])
    return Known(value.dtype, shape, None, value.origin & ~DIRECT)
