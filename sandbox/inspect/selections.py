"""Where a model chooses by data: Where, If, Loop, Compress and masks, and which of them an input decides.

A trigger in a model is a condition on the input that selects another answer: ReduceMax or ArgMax, a comparison,
then Where or If (the shape that ShadowLogic and its kin leave). Real models choose too, by masks above all; so
these are facts, and the judge weighs only what is new beside an earlier release. What is *not* seen: a
selection by arithmetic alone (a steep Sigmoid, Clip and Mul), which no graph shape tells from a layer.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.inspect.network import ABSENT, Network, Node
from sandbox.messages import clip

MAX_SHAPES: Final = 256
MAX_PLACES: Final = 16
MAX_PATH: Final = 16
SLICE_DEPTH: Final = 3
"""Operators above a condition that tell its kind: ReduceMax, Greater, and what they look at."""
COMPARISONS: Final = frozenset(
    {
        "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf",
        "RegexFullMatch",
    }
)  # fmt: skip
"""Operators whose result is a truth value."""
INDICES: Final = frozenset({"ArgMax", "ArgMin", "TopK", "NonZero"})
CONDITION: Final = {"Where": 0, "If": 0, "Loop": 1, "Compress": 1}
"""Selecting operators of ai.onnx, and the input that decides."""
BY_INDEX: Final = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1}
TRANSPARENT: Final = frozenset(
    {"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Expand", "Flatten", "Transpose", "Slice"}
)
OPERATORS: Final = frozenset({*CONDITION, *BY_INDEX, "Cast", "CastLike"})

Parents = dict[int, tuple[int, "Node | None"]]


@dataclass(slots=True)
class Shape:
    """Selections of one kind that are decided in one way."""

    op_type: str
    driven: str
    source: str
    path: list[str]
    count: int = 0
    places: list[dict[str, str]] = field(default_factory=list)


def find(net: Network, hashes: Mapping[int, bytes], inputs: list[int]) -> tuple[list[dict[str, Any]], int]:
    """Return (the shapes as frame bodies, how many shapes there are); what an input decides stands first.

    ``hashes`` gives the canonical hash of a value; ``inputs`` are the values that a caller feeds.
    """
    chosen = [(node, value) for node in net.nodes() for value in _conditions(node, net)]
    if not chosen:
        return [], 0
    parents = _forward(net, inputs)
    shapes: dict[str, Shape] = {}
    for node, condition in chosen:
        source, path = _path(net, parents, condition, node)
        driven = "input" if source else "unknown" if net.undefined else "none"
        key = _key(net, node, condition, driven)
        shape = shapes.setdefault(key, Shape(node.op_type, driven, source, path))
        shape.count += 1
        if len(shape.places) < MAX_PLACES:
            exact = hashes.get(condition, b"").hex()[:32]
            where = {"where": node.place, "condition": net.name(condition), "exact": exact}
            shape.places.append(where)
    ordered = sorted(shapes.items(), key=lambda item: item[1].driven == "none")
    bodies = [
        {
            "key": key,
            "op_type": shape.op_type,
            "driven": shape.driven,
            "input": shape.source,
            "path": shape.path,
            "count": shape.count,
            "places": shape.places,
        }
        for key, shape in ordered[:MAX_SHAPES]
    ]
    return bodies, len(shapes)


def _conditions(node: Node, net: Network) -> list[int]:
    """Return the values that decide in a node; empty where it selects nothing."""
    if node.domain != "ai.onnx" or node.op_type not in OPERATORS or node.key is not None:
        return []
    op_type, inputs = node.op_type, node.inputs
    if op_type in CONDITION:
        at = CONDITION[op_type]
        found = [inputs[at]] if at < len(inputs) and inputs[at] != ABSENT else []
        if op_type == "Loop":  # its body says at each turn whether there is another
            found += [child.outputs[0] for _, child in node.children if child.outputs]
        return found
    if op_type in BY_INDEX:
        at = BY_INDEX[op_type]
        return [inputs[at]] if at < len(inputs) and _decided(net, inputs[at], COMPARISONS | INDICES) else []
    # A cast of a truth value to a number: a mask, the branch that is written as a multiplication.
    return [inputs[0]] if inputs and _decided(net, inputs[0], COMPARISONS) and not _to_bool(node) else []


def _to_bool(node: Node) -> bool:
    return any(attribute.name == "to" and attribute.i == 9 for attribute in node.proto.attribute)


def _decided(net: Network, value: int, by: frozenset[str]) -> bool:
    """Whether a value comes from one of these operators, through nothing but changes of form and calls."""
    for _ in range(8):
        node = net.producer[value] if value != ABSENT else None
        if node is None:
            return False
        if node.op_type in by and node.domain == "ai.onnx":
            return True
        if node.key is not None:
            body = net.functions[node.key]
            at = node.outputs.index(value)
            if at >= len(body.outputs):
                return False
            value = body.outputs[at]
        elif node.domain == "ai.onnx" and node.op_type in TRANSPARENT and node.inputs:
            value = node.inputs[0]
        else:
            return False
    return False


def _forward(net: Network, inputs: list[int]) -> Parents:
    """Return, for every value that depends on an input, the value and node by which it was reached first."""
    edges: dict[int, list[tuple[list[int], Node | None]]] = {}
    for node in net.nodes():
        targets = [value for value in node.outputs if value != ABSENT]
        inside: list[int] = []
        for _, child in node.children:
            inside += child.inputs
            for value in child.outputs:
                edges.setdefault(value, []).append((targets, node))
        body = net.functions[node.key] if node.key is not None else None
        if body is not None:
            for value, result in zip(node.outputs, body.outputs, strict=False):
                if value != ABSENT:
                    edges.setdefault(result, []).append(([value], node))
        for at, value in enumerate(node.inputs):
            if value == ABSENT:
                continue
            if body is not None:
                if at < len(body.inputs):
                    edges.setdefault(value, []).append(([body.inputs[at]], None))
                continue
            edges.setdefault(value, []).append((targets, node))
            if inside:
                edges[value].append((inside, None))
    parents: Parents = dict.fromkeys(inputs, (ABSENT, None))
    waiting = deque(inputs)
    while waiting:
        value = waiting.popleft()
        for targets, reached_by in edges.get(value, ()):
            for target in targets:
                if target not in parents:
                    parents[target] = (value, reached_by)
                    waiting.append(target)
    return parents


def _path(net: Network, parents: Parents, condition: int, node: Node) -> tuple[str, list[str]]:
    """Return (the graph input, the operators from it to the selection); empty where no input decides."""
    if condition not in parents:
        return "", []
    steps = [node.op_type]
    value = condition
    while True:
        before, reached_by = parents[value]
        if before == ABSENT:
            break
        if reached_by is not None:
            steps.append(reached_by.op_type)
        value = before
    steps.reverse()
    if len(steps) > MAX_PATH:
        half = MAX_PATH // 2
        steps = [*steps[: half - 1], f"({len(steps) - MAX_PATH + 1} more)", *steps[-half:]]
    return net.name(value) or "?", [clip(one, 80) for one in steps]


def _key(net: Network, node: Node, condition: int, driven: str) -> str:
    """Return what tells kinds of selections apart: how it selects, and the operators right before the condition.

    Independent of names and of what stands further up, so that another layer there makes no new selection.
    """
    found: set[str] = set()
    level = {condition}
    for _ in range(SLICE_DEPTH):
        nodes = [net.producer[value] for value in level if value != ABSENT]
        level = set()
        for one in nodes:
            if one is not None and len(found) < 64:
                found.add(f"{one.domain}::{one.op_type}")
                level.update(one.inputs)
    inside = "function" if _is_in_function(node) else "graph" if node.scope.owner is None else "branch"
    text = "\n".join([node.op_type, driven, inside, *sorted(found)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_in_function(node: Node) -> bool:
    scope = node.scope
    while scope.outer is not None:
        scope = scope.outer
    return not hasattr(scope.proto, "initializer")
