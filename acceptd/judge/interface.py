"""Two statements of one interface against each other: what differs, each kind under its own code. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acceptd.evidence import ValueInfo
from acceptd.policy.manifest import DimBounds, ValueSpec

Shape = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output as one side states it. Empty ``dtype`` and ``shape`` None: not stated."""

    name: str
    kind: str
    dtype: str
    shape: Shape | None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """One disagreement. ``port`` is the agreed name; ``agreed`` and ``found`` show the two sides."""

    code: str
    port: str
    agreed: Any
    found: Any


def stated(values: Sequence[ValueSpec]) -> list[Port]:
    """Return the ports of a manifest or contract."""
    return [
        Port(
            value.name,
            value.type,
            value.dtype,
            None if value.shape is None else tuple(value.shape),
            bool(getattr(value, "optional", False)),
        )
        for value in values
    ]


def reported(values: Sequence[ValueInfo]) -> list[Port]:
    """Return the ports that ``inspect`` or the runtime reports; overridable weights are no inputs.

    Element types inside maps are not compared: the parsers name them differently.
    """
    ports = []
    for value in values:
        if not value.overridable:
            dtype = "" if value.kind in {"map", "opaque", "unknown"} or "map(" in value.detail else value.dtype
            kind = "" if value.kind == "unknown" else value.kind
            ports.append(Port(value.name, kind, dtype, None if value.shape is None else tuple(value.shape)))
    return ports


DimRule = Callable[[int | str, int | str], str]
"""(agreed, found) to a finding code, or an empty string where both agree."""


def bounds_rule(agreed: Mapping[str, DimBounds], found: Mapping[str, DimBounds]) -> DimRule:
    """Contract against manifest: both bound their named dimensions, and the bounds must be equal."""

    def rule(left: int | str, right: int | str) -> str:
        if left == "?":
            return ""
        if isinstance(left, int):
            if isinstance(right, int):
                return "" if left == right else "schema/width-changed"
            return "schema/dimension-freed"
        if isinstance(right, int):
            return "schema/dimension-fixed"
        return "" if right != "?" and agreed.get(left) == found.get(right) else "schema/dimension-bounds"

    return rule


def file_rule(dims: Mapping[str, DimBounds], freed: str, unbounded: str = "schema/dimension-fixed") -> DimRule:
    """Manifest or contract against what the file or the runtime states; names of dimensions may differ.

    ``freed`` is the code for a number that meets a free dimension: callers may be held to less
    than the model takes, and exporters often leave an output's dimensions open. ``unbounded`` is
    the code for a fixed dimension where a name without bounds is agreed.
    """

    def rule(left: int | str, right: int | str) -> str:
        if left == "?":
            return ""
        if isinstance(left, int):
            if isinstance(right, int) and right >= 0:
                return "" if left == right else "schema/width-changed"
            return freed
        bounds = dims.get(left)
        if not isinstance(right, int) or right < 0:
            return ""
        if bounds is None:
            return unbounded
        return "" if bounds.min == bounds.max == right else "schema/dimension-fixed"

    return rule


def differences(side: str, agreed: Sequence[Port], found: Sequence[Port], rule: DimRule) -> Iterator[Difference]:
    """Yield what differs between two lists of ports. ``side`` is ``input`` or ``output``.

    Names without a partner are paired in order as renamed; what is left over is missing or extra.
    """
    agreed_names = [port.name for port in agreed]
    found_by_name = {port.name: port for port in found}
    lonely = [port for port in agreed if port.name not in found_by_name]
    strange = [port for port in found if port.name not in set(agreed_names)]
    renamed = dict(zip((port.name for port in lonely), strange, strict=False))
    for port in agreed:
        other = found_by_name.get(port.name) or renamed.get(port.name)
        if other is None:
            if not port.optional:
                yield Difference(f"schema/{side}-missing", port.name, port.name, None)
            continue
        if other.name != port.name:
            yield Difference(f"schema/{side}-renamed", port.name, port.name, other.name)
        yield from _port(port, other, rule)
    for other in strange[len(renamed) :]:
        yield Difference(f"schema/{side}-extra", other.name, None, other.name)
    common = [name for name in agreed_names if name in found_by_name]
    order = [port.name for port in found if port.name in set(common)]
    if common != order:
        yield Difference(f"schema/{side}s-reordered", f"{side}s", common, order)


def _port(agreed: Port, found: Port, rule: DimRule) -> Iterator[Difference]:
    name = agreed.name
    if agreed.kind and found.kind and agreed.kind != found.kind:
        yield Difference("schema/kind-changed", name, agreed.kind, found.kind)
        return
    if agreed.dtype and found.dtype and agreed.dtype != found.dtype:
        yield Difference("schema/dtype-changed", name, agreed.dtype, found.dtype)
    if agreed.shape is None or found.shape is None or agreed.kind not in {"tensor", ""}:
        return
    if len(agreed.shape) != len(found.shape):
        yield Difference("schema/rank-changed", name, list(agreed.shape), list(found.shape))
        return
    codes = {rule(left, right) for left, right in zip(agreed.shape, found.shape, strict=True)} - {""}
    for code in sorted(codes):
        yield Difference(code, name, list(agreed.shape), list(found.shape))


def shape_fault(
    declared: Sequence[int | str], got: Sequence[int], dims: dict[str, DimBounds], bound: dict[str, int]
) -> str:
    """Return how a real shape breaks the declared one, or an empty string. Binds names in ``bound``."""
    if len(declared) != len(got):
        return f"declared is rank {len(declared)}, it has rank {len(got)}"
    for axis, (dim, size) in enumerate(zip(declared, got, strict=True)):
        if isinstance(dim, int):
            if dim != size:
                return f"axis {axis} is declared {dim}, it has {size}"
        elif dim != "?":
            limits = dims.get(dim)
            if limits is not None and not limits.min <= size <= limits.max:
                return f"axis {axis} ({dim}) is {size}, outside {limits.min} to {limits.max}"
            if bound.setdefault(dim, size) != size:
                return f"axis {axis} ({dim}) is {size}; elsewhere in the same run {dim} is {bound[dim]}"
    return ""
