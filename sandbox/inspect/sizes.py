"""Small steps of shape arithmetic that the rules of all operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sandbox.inspect.known import NOTHING, Attributes, Known, Shape

Rule = Callable[[Attributes, Sequence[Known], int], list[Shape | None]]
"""Attributes, inputs and the number of outputs to the outputs' shapes."""


def sizes(value: Known) -> tuple[int, ...] | None:
    """Return a constant list of integers as sizes, else None."""
    found = value.numbers
    return tuple(int(one) for one in found) if found is not None and value.integer else None


def at(inputs: Sequence[Known], index: int) -> Known:
    return inputs[index] if index < len(inputs) else NOTHING


def axis_of(axis: int, rank: int) -> int | None:
    return axis % rank if rank and -rank <= axis < rank else None


def broadcast(shapes: Sequence[Shape | None]) -> Shape | None:
    """Return the multidirectional broadcast; None where a rank is unknown or sizes contradict."""
    if None in shapes:
        return None
    if len(shapes) < 2 or (len(shapes) == 2 and shapes[0] == shapes[1]):
        return shapes[0] if shapes else ()
    rank = max((len(shape) for shape in shapes if shape is not None), default=0)
    out: list[int | None] = []
    for back in range(rank, 0, -1):
        size: int | None = 1
        for shape in shapes:
            one = shape[-back] if shape is not None and back <= len(shape) else 1
            if one == 1 or one == size:
                continue
            if size == 1 or size is None:
                size = one if size == 1 or one is not None else None
            elif one is not None:
                return None
        out.append(size)
    return tuple(out)
