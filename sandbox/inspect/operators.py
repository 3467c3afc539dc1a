"""The ``operators`` of the facts frame: what is used, in which version, with which types, and where first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sandbox.inspect.functions import normal
from sandbox.inspect.problems import Problems
from sandbox.inspect.scopes import MAX_OPERATORS, Survey, name_text

MAX_TYPES: Final = 64
"""Signatures of one operator."""
MAX_SIGNATURES: Final = 16_384
"""Signatures of all operators: a frame has 8 MiB."""

Key = tuple[str, str, int | None]
Signature = tuple[str, str, int | None, tuple[str, ...], tuple[str, ...]]


def frame(
    opsets: Mapping[str, int], found: Survey, uses: Mapping[Signature, list[Any]], problems: Problems
) -> list[dict[str, Any]]:
    """Return an OpUse body for each operator and version. ``opsets`` are those of the main graph."""
    merged: dict[Key, dict[str, Any]] = {}
    for body, imported in _bodies(opsets, found):
        for (written, name), (count, where) in body.operators.items():
            domain, op_type = normal(name_text(written)), name_text(name)
            version = imported.get(domain)
            use = merged.setdefault(
                (domain, op_type, version),
                {
                    "domain": domain,
                    "op_type": op_type,
                    "count": 0,
                    "where": where,
                    "version": version,
                    "types": [],
                },
            )
            use["count"] += count
    if len(merged) > MAX_OPERATORS:
        problems.add("structure/too-many-operators", "model", f"{len(merged)} different operators")
    room = MAX_SIGNATURES
    for (domain, op_type, version, inputs, outputs), (count, where) in uses.items():
        kept = merged.get((domain, op_type, version))
        if kept is None or len(kept["types"]) == MAX_TYPES or not room:
            continue
        room -= 1
        kept["types"].append({"inputs": inputs, "outputs": outputs, "count": count, "where": where})
    return list(merged.values())[:MAX_OPERATORS]


def _bodies(opsets: Mapping[str, int], found: Survey) -> list[tuple[Any, Mapping[str, int]]]:
    own = [(body, found.functions[key].opsets) for key, body in found.bodies.items()]
    return [(found.main, opsets), *own]
