"""What a parent that only runs needs: onnxruntime and numpy, and neither onnx nor protobuf."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from sandbox import warm_models

pytestmark = pytest.mark.unit


def built(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> bytes:
    graph = helper.make_graph(nodes, "warm", inputs, outputs, weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(model.SerializeToString())


def test_the_built_in_models_are_what_the_helper_builds() -> None:
    value, floats, texts = helper.make_tensor_value_info, TensorProto.FLOAT, TensorProto.STRING
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Add", ["y", "b"], ["sum"]),
        helper.make_node("Softmax", ["sum"], ["p"], axis=-1),
    ]
    weights = [
        helper.make_tensor("w", floats, [4, 3], [0.5] * 12),
        helper.make_tensor("b", floats, [3], [0.5] * 3),
    ]
    x, p = value("x", floats, ["n", 4]), value("p", floats, ["n", 3])
    assert built(nodes, [x], [p], weights) == warm_models.TINY
    node = helper.make_node("StringNormalizer", ["words"], ["plain"], case_change_action="LOWER")
    words, plain = value("words", texts, ["m"]), value("plain", texts, ["m"])
    assert built([node], [words], [plain], []) == warm_models.TEXT


def imported(role: str) -> set[str]:
    """Return the top-level modules of a process that loaded the jobs of a role."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        f"import gc; gc.disable(); from sandbox import jobs; jobs.load({role!r})\n"
        "assert not gc.isenabled(), 'every collection while it warms up looks through all that was imported'\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_a_parent_that_only_runs_imports_neither_onnx_nor_protobuf() -> None:
    assert not {"onnx", "google", "acceptd"} & imported("run")
    assert {"onnx", "google"} <= imported("all")  # the question can be answered otherwise
