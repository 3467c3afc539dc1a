"""Whether values fit the declared interface, and in one line what was expected where they do not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acceptd.evidence import Named, ValueRef
from acceptd.judge.interface import shape_fault
from acceptd.policy.manifest import InputSpec, Manifest, ModelSpec, OutputSpec
from acceptd.report.escape import line
from acceptd.report.escape import shape as shown_shape
from acceptd.values import TensorRef

_SHOWN: Final = 4
_RANDOM: Final = frozenset({"string", "int2", "uint2", "int4", "uint4", "float4e2m1"})
"""Element types that no random value is made for."""


def in_order(values: Sequence[Named], specs: Sequence[InputSpec] | Sequence[OutputSpec]) -> list[Named]:
    """Return the values in declared order; those without a name go by their place. Others are left as they are."""
    named = [
        value if value.name or index >= len(specs) else value.model_copy(update={"name": specs[index].name})
        for index, value in enumerate(values)
    ]
    places = {spec.name: place for place, spec in enumerate(specs)}
    return sorted(named, key=lambda value: places.get(value.name, len(specs)))


def fault(
    values: Sequence[Named],
    specs: Sequence[InputSpec] | Sequence[OutputSpec],
    manifest: Manifest,
    what: str,
    bound: dict[str, int],
) -> str:
    """Return in one safe line how ``values`` break the declared ``specs``, or an empty text.

    ``what`` is ``input`` or ``output``. A named dimension has one size throughout a set: ``bound`` holds those of
    its inputs when its outputs are looked at.
    """
    by_name = {value.name: value.value for value in values}
    extra = [name for name in by_name if name not in {spec.name for spec in specs}]
    missing = [spec for spec in specs if spec.name not in by_name and not getattr(spec, "optional", False)]
    if extra or missing:
        wrong = (
            f"there is no {what} {line(extra[0], 60)!r}"
            if extra
            else f"{what} {line(missing[0].name, 60)!r} is missing"
        )
        return f"{wrong}; expected {expected(specs)}"
    for spec in specs:
        value = by_name.get(spec.name)
        if value is None:
            continue
        kind, dtype = _kind(value)
        if kind != spec.type and spec.type != "optional":
            return f"{what} {line(spec.name, 60)!r} is a {kind}, expected is a {spec.type}"
        if not isinstance(value, TensorRef) or spec.type != "tensor":
            continue
        got = f"{what} {line(spec.name, 60)!r} is {dtype} {shown_shape(list(value.shape))}, expected {one(spec)}"
        if dtype != spec.dtype:
            return got
        if spec.shape is not None and (why := shape_fault(spec.shape, value.shape, dict(manifest.dims), bound)):
            return f"{got}: {line(why, 200)}"
    return ""


def _kind(value: ValueRef) -> tuple[str, str]:
    return (value.kind, value.dtype) if isinstance(value, TensorRef) else (value.kind, "")


def one(spec: InputSpec | OutputSpec) -> str:
    """Return ``float32 [batch, 4]``."""
    words = spec.dtype if spec.type == "tensor" else f"{spec.type} of {spec.dtype}"
    return f"{words} {shown_shape(spec.shape)}"


def expected(specs: Sequence[InputSpec] | Sequence[OutputSpec]) -> str:
    """Return the declared names and types, the first few."""
    shown = [f"{line(spec.name, 60)} {one(spec)}" for spec in specs[:_SHOWN]]
    more = f" and {len(specs) - _SHOWN} more" if len(specs) > _SHOWN else ""
    return (", ".join(shown) or "none") + more


def not_drawable(model: ModelSpec, manifest: Manifest) -> str:
    """Return in one safe line why no random inputs can be made for ``model``, or an empty text."""
    for spec in model.inputs:
        name = f"input {line(spec.name, 60)!r}"
        if spec.type != "tensor" or spec.dtype in _RANDOM:
            return f"{name} is {one(spec)}, and no random values are made for that"
        if spec.shape is None:
            return f"{name} has no declared shape"
        for dim in spec.shape:
            if isinstance(dim, str) and dim not in manifest.dims:
                return f"{name} has a dimension {line(dim, 40)!r} of no known size"
        if spec.range is None and spec.dtype.startswith(("int", "uint")):
            return f"{name} is {one(spec)} without a declared range"
    return "" if model.inputs else "the model has no input"


def unranged(model: ModelSpec) -> list[str]:
    """Return the names of floating inputs that are drawn from a range that nobody declared."""
    return [spec.name for spec in model.inputs if spec.range is None and "float" in spec.dtype]
