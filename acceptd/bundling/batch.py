"""A name for first axes of inputs that an exporter numbered: ``unk__1871``, ``unk__1872`` are one batch. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from acceptd.evidence import ValueInfo

NAME: Final = "batch"
_NUMBERED: Final = re.compile(
    r"(unk_+|p2o\.DynamicDimension\.|dynamic_?dim(ension)?[._]*)[0-9]+", re.ASCII | re.IGNORECASE
)
"""How tf2onnx and paddle2onnx name what has no name."""


def together(
    inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], seen: Mapping[str, Sequence[Sequence[int]]]
) -> tuple[list[ValueInfo], list[ValueInfo], bool]:
    """Return inputs and outputs with numbered first axes of the inputs named alike, and whether any was.

    Numbered names go wherever they stand; a first axis of an input of rank 2 and more without a name (``?``) goes
    too. Nothing does where the name is taken for something else, or where golden sets (``seen`` has shapes by
    the names of inputs) show that the sizes differ.
    """
    firsts = [value.shape[0] for value in inputs if value.shape]
    numbered = {dim for dim in firsts if isinstance(dim, str) and _NUMBERED.fullmatch(dim)}
    nameless = any(value.shape and len(value.shape) > 1 and value.shape[0] == "?" for value in inputs)
    elsewhere = {dim for value in inputs for dim in (value.shape or [])[1:] if dim == NAME or dim in numbered}
    sizes = {frozenset(shape[0] for shape in seen[value.name] if shape) for value in inputs if value.name in seen}
    if elsewhere or len(sizes) > 1 or not (numbered or nameless):
        return list(inputs), list(outputs), False
    return (
        [_named(value, numbered, first=True) for value in inputs],
        [_named(value, numbered, first=False) for value in outputs],
        True,
    )


def _named(value: ValueInfo, numbered: set[str], *, first: bool) -> ValueInfo:
    if not value.shape:
        return value
    shape = [NAME if dim in numbered else dim for dim in value.shape]
    if first and len(shape) > 1 and shape[0] == "?":
        shape[0] = NAME
    return value.model_copy(update={"shape": shape})
