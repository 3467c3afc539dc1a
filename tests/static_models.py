"""Models with one fault at a chosen place, and how the inspection refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from acceptd.judge.codes import CODES
from tests import static_world as world
from tests.hostile.test_static_structure import calling, function, skipped

INT64 = TensorProto.INT64
Nodes = list[onnx.NodeProto]


def constant(name: str, value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))


def branch(nodes: Nodes, output: str, dtype: int = TensorProto.FLOAT) -> onnx.NodeProto:
    """Return an If with these nodes in both branches; its condition is the input ``c``."""
    graph = helper.make_graph(nodes, "b", [], [world.value(output, None, dtype)])
    return helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)


def branching(nodes: Nodes, output: str, dtype: int = TensorProto.FLOAT, **more: Any) -> onnx.ModelProto:
    inputs = [world.value("x", None, more.pop("x", TensorProto.FLOAT)), world.value("c", [], TensorProto.BOOL)]
    return world.model(
        [*more.pop("before", []), branch(nodes, output, dtype)],
        inputs=inputs,
        outputs=[world.value("y", None, dtype)],
        **more,
    )


def in_function(nodes: Nodes, **more: Any) -> onnx.ModelProto:
    return calling("F", [function("F", nodes, **more)])


def refused(tmp_path: Path, built: onnx.ModelProto, code: str, where: str, **more: Any) -> world.Recorder:
    """The problem is named with its place, would reject by default, and no native code saw the model."""
    found = world.inspected(tmp_path, built, **more)
    assert found.problem(code)["where"].startswith(where), found.problem(code)
    assert CODES[code].severity == "reject"
    skipped(found)
    return found


def told(tmp_path: Path, built: onnx.ModelProto, code: str, where: str) -> world.Recorder:
    found = world.inspected(tmp_path, built)
    assert found.problem(code)["where"].startswith(where), found.problem(code)
    return found
