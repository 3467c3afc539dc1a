"""Local functions: who calls whom, recursion, expansion, and names that are taken.

Thirty functions that each call the next twice (2.2 KB) keep the checker's full check, shape
inference and session creation busy for ever (measured). Expansion is counted once per function and
saturates, so counting costs no more than the file is long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import onnx.defs

from sandbox.inspect.problems import Problems

Key = tuple[str, str, str]
"""Domain (spelt ``ai.onnx`` when default), name, overload."""

MAX_INSTANCES: Final = 65_536
"""Calls after expansion: shape inference takes 0.2 s for as many, session creation far longer (measured)."""
SATURATED: Final = 1 << 40
RUNTIME_DOMAINS: Final = frozenset(
    {
        "com.microsoft", "com.microsoft.nchwc", "com.microsoft.nhwc", "com.ms.internal.nhwc", "com.microsoft.dml",
        "com.microsoft.experimental", "com.microsoft.extensions", "ai.onnx.contrib", "org.pytorch.aten",
    }
)  # fmt: skip
"""Domains whose operators the runtime brings itself; it prefers its own to a local function (measured)."""
BUILT_IN: Final = frozenset((schema.domain or "ai.onnx", schema.name) for schema in onnx.defs.get_all_schemas())
"""Every name that ever was one: the newest schema of each says so (the whole history takes 15 ms to read)."""


@dataclass(slots=True)
class Body:
    """One function's body, or the main graph's: nodes of all its scopes, calls by callee, and its place."""

    place: str
    nodes: int = 0
    calls: Counter[Key] = field(default_factory=Counter)
    operators: dict[tuple[Any, Any], list[Any]] = field(default_factory=dict)
    """(domain, operator) as written to [count, first place]."""


def normal(domain: str) -> str:
    """Return the domain with the default one spelt ``ai.onnx``."""
    return domain or "ai.onnx"


def examine(
    main: Body, functions: dict[Key, Body], limit_nodes: int, problems: Problems
) -> tuple[list[dict[str, Any]], bool]:
    """Add problems of shadowing, recursion and expansion; return facts, and whether calls come to an end."""
    for (domain, name, _), body in functions.items():
        if (domain, name) in BUILT_IN or domain in RUNTIME_DOMAINS:
            problems.add(
                "structure/function-shadows-operator", body.place, f"{domain}::{name[:80]} is a built-in name"
            )
    order, cyclic = _callees_first(functions)
    for key in cyclic:
        problems.add(
            "structure/function-recursion", functions[key].place, "calls itself, directly or through others"
        )
    instances: dict[Key, int] = {}
    nodes: dict[Key, int] = {}
    called: Counter[Key] = Counter()
    for body in (main, *functions.values()):
        called.update(body.calls)
    if cyclic:
        return [_fact(key, body, called[key], 0) for key, body in functions.items()], False
    for key in order:
        instances[key], nodes[key] = _expanded(functions[key], instances, nodes)
    calls, total = _expanded(main, instances, nodes)
    if calls > MAX_INSTANCES or total > limit_nodes:
        many = "more than 10^12" if max(calls, total) >= SATURATED else str(max(calls, total))
        problems.add("structure/function-expansion", main.place, f"local functions expand to {many} nodes")
    return [_fact(key, body, called[key], nodes[key]) for key, body in functions.items()], True


def written(key: Key) -> str:
    """Return ``domain::name``, with the overload behind where there is one."""
    return f"{key[0]}::{key[1]}" + (f":{key[2]}" if key[2] else "")


def _fact(key: Key, body: Body, calls: int, expanded: int) -> dict[str, Any]:
    return {"name": written(key), "where": body.place, "nodes": body.nodes, "expanded": expanded, "calls": calls}


def _expanded(body: Body, instances: dict[Key, int], nodes: dict[Key, int]) -> tuple[int, int]:
    calls = sum(count * (1 + instances[key]) for key, count in body.calls.items() if key in instances)
    total = body.nodes + sum(count * nodes[key] for key, count in body.calls.items() if key in nodes)
    return min(calls, SATURATED), min(total, SATURATED)


def _callees_first(functions: dict[Key, Body]) -> tuple[list[Key], list[Key]]:
    """Return (functions with callees before callers, functions in or before a cycle); Kahn, no recursion."""
    callers: dict[Key, list[Key]] = {key: [] for key in functions}
    waiting: dict[Key, int] = {}
    for key, body in functions.items():
        callees = [callee for callee in body.calls if callee in functions]
        waiting[key] = len(callees)
        for callee in callees:
            callers[callee].append(key)
    order = [key for key, count in waiting.items() if count == 0]
    for key in order:
        for caller in callers[key]:
            waiting[caller] -= 1
            if waiting[caller] == 0:
                order.append(caller)
    done = set(order)
    return order, [key for key in functions if key not in done]
