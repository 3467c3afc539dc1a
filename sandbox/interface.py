"""The runtime's own types and the declared ones, held against each other. Pure, standard library only.

onnxruntime spells types ``tensor(float)``, ``seq(map(int64,tensor(float)))``, ``optional(…)``. Its
``NodeArg.shape`` is ``[]`` both for a scalar and for an unknown rank (onnxruntime 1.32), so an empty
shape says nothing and is reported as None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_SPELLING: Final = {"float": "float32", "double": "float64"}
_KIND: Final = {"seq": "sequence", "optional": "optional", "map": "map", "sparse_tensor": "sparse_tensor"}
MAX_NESTING: Final = 16


@dataclass(frozen=True, slots=True)
class RuntimeType:
    """One type: ``dtype`` is that of the innermost tensor, ``key_dtype`` that of a map's keys."""

    kind: str
    dtype: str
    key_dtype: str = ""
    item: RuntimeType | None = None

    def words(self) -> str:
        """Return the whole type in words, for example ``sequence(map(int64,float32))``."""
        if self.kind == "tensor":
            return self.dtype
        inner = self.item.words() if self.item else self.dtype
        return f"map({self.key_dtype},{inner})" if self.kind == "map" else f"{self.kind}({inner})"

    def innermost_key(self) -> str:
        """Return the key type of the map inside, or an empty string."""
        return self.key_dtype or (self.item.innermost_key() if self.item else "")


def parse(spelling: str, depth: int = 0) -> RuntimeType:
    """Return the type that onnxruntime spells so; kind ``unknown`` for a spelling that is not known."""
    head, bracket, rest = spelling.partition("(")
    if not bracket or not rest.endswith(")") or depth > MAX_NESTING:
        return RuntimeType("unknown", "")
    inner = rest[:-1]
    if head in {"tensor", "sparse_tensor"}:
        return RuntimeType(head, _SPELLING.get(inner, inner))
    if head == "map":
        key, _, value = inner.partition(",")
        item = parse(value, depth + 1)
        return RuntimeType("map", item.dtype, _SPELLING.get(key, key), item)
    if head in _KIND:
        item = parse(inner, depth + 1)
        return RuntimeType(_KIND[head], item.dtype, "", item)
    return RuntimeType("opaque" if head == "opaque" else "unknown", "")


@dataclass(frozen=True, slots=True)
class RuntimeValue:
    """An input or output as the runtime reports it. ``shape``: numbers, names, ``?``; None: unknown or scalar."""

    name: str
    type: RuntimeType
    shape: tuple[int | str, ...] | None

    def info(self, *, overridable: bool = False) -> dict[str, Any]:
        """Return it as ``ValueInfo`` JSON data."""
        detail = "" if self.type.kind == "tensor" else self.type.words()
        shape = None if self.shape is None else list(self.shape)
        head = {"name": self.name, "kind": self.type.kind, "dtype": self.type.dtype, "shape": shape}
        return head | {"overridable": overridable, "detail": detail}


def runtime_value(name: str, spelling: str, shape: Sequence[int | str | None]) -> RuntimeValue:
    """Return the value for one ``NodeArg``."""
    dims = tuple("?" if dim is None or dim == "" else dim for dim in shape)
    return RuntimeValue(name, parse(spelling), dims or None)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where declared and runtime part: a finding's code, the place, and what is there."""

    code: str
    where: str
    message: str


def compare(
    side: str,
    declared: Sequence[dict[str, Any]],
    found: Sequence[RuntimeValue],
    dims: dict[str, dict[str, int]],
) -> Difference | None:
    """Return the first difference between declared and runtime values, or None.

    ``side`` is ``input`` or ``output``; order counts. A declared number where the runtime leaves the
    dimension open only narrows what callers may pass and is no difference (each run is checked).
    """
    names, real = [value["name"] for value in declared], [value.name for value in found]
    if names != real:
        missing = [name for name in names if name not in real]
        extra = [name for name in real if name not in names]
        what = f"missing {missing[:8]}, undeclared {extra[:8]}" if missing or extra else "another order"
        message = f"declared {names[:16]}, the runtime has {real[:16]}: {what}"
        return Difference(f"schema/{side}-names", f"{side}s", message)
    for want, have in zip(declared, found, strict=True):
        difference = _compare_one(side, want, have, dims)
        if difference is not None:
            return difference
    return None


def _compare_one(
    side: str, want: dict[str, Any], have: RuntimeValue, dims: dict[str, dict[str, int]]
) -> Difference | None:
    where = f"{side} {want['name']}"
    kind, dtype = want.get("type", "tensor"), want["dtype"]
    if (kind, dtype) != (have.type.kind, have.type.dtype):
        message = f"declared is {kind} of {dtype}, the runtime has {have.type.kind} of {have.type.dtype}"
        return Difference(f"schema/{side}-dtype", where, message)
    key = want.get("key_dtype")
    if key and key != have.type.innermost_key():
        message = f"declared are keys of {key}, the runtime has {have.type.innermost_key() or 'no map'}"
        return Difference(f"schema/{side}-dtype", where, message)
    shape = want.get("shape")
    if shape is None or have.shape is None or kind != "tensor":
        return None
    if len(shape) != len(have.shape):
        message = f"declared is {shape}, the runtime has {list(have.shape)}"
        return Difference(f"schema/{side}-shape", where, message)
    for position, (declared_dim, real_dim) in enumerate(zip(shape, have.shape, strict=True)):
        if isinstance(real_dim, str) or declared_dim == real_dim:
            continue
        bounds = dims.get(declared_dim) if isinstance(declared_dim, str) else None
        if bounds is not None and bounds["min"] == bounds["max"] == real_dim:
            continue
        if declared_dim == "?" and side == "output":
            continue  # shape inference of the runtime knows more than the file says
        message = f"dimension {position} is declared {declared_dim!r}, the runtime has {real_dim}"
        return Difference(f"schema/{side}-shape", where, message)
    return None


def bind_dims(
    shape: Sequence[int | str] | None,
    actual: Sequence[int],
    bound: dict[str, int],
    dims: dict[str, dict[str, int]] | None,
) -> str:
    """Hold an actual shape against a declared one; return what is wrong, or an empty string.

    ``bound`` collects the size of each name in this run, so that one name stands for one size.
    ``dims`` are the declared bounds, or None where they do not count (outside the declared domain).
    """
    if shape is None:
        return ""
    if len(shape) != len(actual):
        return f"rank {len(actual)} {list(actual)[:16]}, declared is {list(shape)[:16]}"
    for position, (want, size) in enumerate(zip(shape, actual, strict=True)):
        if isinstance(want, int):
            if want != size:
                return f"dimension {position} is {size}, declared is {want}"
            continue
        if want == "?":
            continue
        if bound.setdefault(want, size) != size:
            return f"dimension {position} ({want}) is {size}, but {want} is {bound[want]} elsewhere in this run"
        limits = (dims or {}).get(want)
        if limits is not None and not limits["min"] <= size <= limits["max"]:
            return f"dimension {position} ({want}) is {size}, outside {limits['min']} to {limits['max']}"
    return ""
