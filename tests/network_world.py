"""Models with functions, branches and triggers, and what the walk says of their structure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.static_world import inspected, model, value

node = helper.make_node
BIG = np.arange(2048, dtype=np.float32)


def array(name: str, *numbers: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.float32), name)


def structure(root: Path, given: onnx.ModelProto, *, digests: bool = True, **more: Any) -> dict[str, Any]:
    spec = inspected(root, given, digests=digests, **more)
    assert spec.refused is None
    return spec.frames["structure"]


def two_branches() -> onnx.ModelProto:
    nodes = [
        node("Add", ["x", "w"], ["a"], name="first", doc_string="adds"),
        node("Mul", ["x", "big"], ["b"], name="second"),
        node("Elu", ["b"], ["c"], alpha=0.5),
        node("Sub", ["a", "c"], ["y"]),
    ]
    initializers = [array("w", 1.0), numpy_helper.from_array(BIG, "big")]
    return model(
        nodes, inputs=[value("x", ["n", 2048])], outputs=[value("y", ["n", 2048])], initializer=initializers
    )


def in_function(*, name: str = "Gate", threshold: str = "Greater") -> onnx.ModelProto:
    body = [
        node("ReduceMax", ["a"], ["m"], keepdims=0),
        node(threshold, ["m", "b"], ["c"]),
        node("Where", ["c", "b", "a"], ["z"]),
    ]
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function("local", name, ["a", "b"], ["z"], body, imports)
    return model(
        [node(name, ["x", "w"], ["y"], domain="local")], functions=[function], initializer=[array("w", 1)]
    )


def in_branch(depth: int = 1, operator: str = "Neg") -> onnx.ModelProto:
    """An If in an If; the innermost branch reads ``x`` from the main graph."""
    inner = helper.make_graph([node(operator, ["x"], ["i"])], "i", [], [value("i")])
    for level in range(depth):
        other = helper.make_graph([node("Identity", ["x"], [f"e{level}"])], "e", [], [value(f"e{level}")])
        test = [
            node("ReduceMax", ["x"], [f"m{level}"], keepdims=0),
            node("Cast", [f"m{level}"], [f"c{level}"], to=9),
        ]
        choice = node("If", [f"c{level}"], [f"o{level}"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([*test, choice], "t", [], [value(f"o{level}")])
    nodes = list(inner.node)
    nodes[-1].output[0] = "y"
    return model(nodes)


# -- selections ---------------------------------------------------------------------------------------


def trigger(selector: str = "Where") -> list[onnx.NodeProto]:
    """A trigger on the largest input, in the shape that backdoors have."""
    head = [node("ReduceMax", ["x"], ["top"], keepdims=0), node("Greater", ["top", "limit"], ["hit"])]
    if selector == "Where":
        return [*head, node("Where", ["hit", "bad", "x"], ["y"])]
    if selector == "mask":
        return [*head, node("Cast", ["hit"], ["m"], to=1), node("Mul", ["x", "m"], ["y"])]
    if selector == "index":
        return [
            node("ArgMax", ["x"], ["at"], axis=0),
            node("Identity", ["at"], ["same"]),
            node("Gather", ["bad", "same"], ["y"]),
        ]
    branch = [
        helper.make_graph([node("Identity", [source], [out])], "b", [], [value(out)])
        for source, out in (("bad", "o1"), ("x", "o2"))
    ]
    return [*head, node("If", ["hit"], ["y"], then_branch=branch[0], else_branch=branch[1])]
