"""Integer divisions that end the process, sizes that overflow, trees and training modes behind references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests import static_world as world
from tests.hostile.test_static_structure import call, calling, chain, function
from tests.static_models import INT64, branching, constant, in_function, refused, told

pytestmark = pytest.mark.hostile
LEAST = -(2**63)


# -- divisions


def divide(op: str, left: str, right: str, target: str) -> onnx.NodeProto:
    return helper.make_node(op, [left, right], [target])


def divided_arguments(least: int, divisor: int) -> onnx.ModelProto:
    """A function divides what its caller hands over; the constants stand in the main graph."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    body = helper.make_function("local", "F", ["p", "d"], ["q"], [divide("Div", "p", "d", "q")], imports)
    nodes = [constant("a", np.array([least])), constant("b", np.array([divisor]))]
    nodes.append(helper.make_node("F", ["a", "b"], ["y"], domain="local"))
    return world.model(nodes, functions=[body], outputs=[world.value("y", [1], INT64)])


def divided_default(divisor: int) -> onnx.ModelProto:
    """The divisor is the default of a function's attribute."""
    by = onnx.NodeProto(op_type="Constant", output=["d"])
    by.attribute.append(onnx.AttributeProto(name="value_int", type=2, ref_attr_name="by"))
    body = function(
        "F", [by, divide("Mod", "p", "d", "q")], attribute_protos=[helper.make_attribute("by", divisor)]
    )
    return world.model(
        [call("F", "x", "y")], functions=[body], inputs=[world.value("x", [1], INT64)],
        outputs=[world.value("y", [1], INT64)],
    )  # fmt: skip


def divided_by_large(number: int) -> onnx.ModelProto:
    array = np.full(1000, 7, np.int64)
    array[500] = number
    return world.model(
        [divide("Div", "x", "w", "y")], initializer=[numpy_helper.from_array(array, "w")],
        inputs=[world.value("x", [1000], INT64)], outputs=[world.value("y", [1000], INT64)],
    )  # fmt: skip


TRAPS: dict[str, tuple[onnx.ModelProto, str]] = {
    "main": (
        world.model(
            [constant("a", np.array([LEAST])), constant("b", np.array([-1])), divide("Div", "a", "b", "y")],
            outputs=[world.value("y", [1], INT64)],
        ),
        "graph/node[2] Div",
    ),
    "branch-int32": (
        branching([constant("b", np.array([3, 0], np.int32)), divide("Mod", "x", "b", "t")], "t", 6, x=6),
        "graph/node[0] If/else_branch/node[1] Mod",
    ),
    "arguments": (divided_arguments(LEAST, -1), "functions[0] F/node[0] Div"),
    "default": (divided_default(0), "functions[0] F/node[1] Mod"),
    "large": (divided_by_large(0), "graph/node[0] Div"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_an_integer_division_that_ends_the_process(tmp_path: Path, name: str) -> None:
    built, where = TRAPS[name]
    refused(tmp_path, built, "structure/division-trap", where)


def test_divisions_that_cannot_trap_are_silent(tmp_path: Path) -> None:
    floats = world.model([constant("b", np.zeros(1, np.float32)), divide("Div", "x", "b", "y")])
    for built in (
        divided_arguments(LEAST, 2),
        divided_arguments(5, -1),
        divided_default(3),
        divided_by_large(9),
        floats,
    ):
        assert not {code for code in world.inspected(tmp_path, built).codes() if "division" in code}


def test_a_divisor_that_a_caller_feeds_is_told(tmp_path: Path) -> None:
    fed = [world.value(name, [1], INT64) for name in ("x", "c")]
    output = [world.value("y", [1], INT64)]
    built = world.model([divide("Div", "x", "c", "y")], inputs=fed, outputs=output)
    told(tmp_path, built, "structure/division-by-input", "graph/node[0] Div")
    inner = function("F", [constant("m", np.array([-1])), divide("Div", "p", "m", "q")])
    built = world.model([call("F", "x", "y")], functions=[inner], inputs=fed[:1], outputs=output)
    told(tmp_path, built, "structure/division-by-input", "functions[0] F/node[1] Div")


# -- attributes, trees, modes

HUGE = 1 << 62


def by_reference(op_type: str, name: str, value: Any, **more: Any) -> onnx.ModelProto:
    """A node of a function takes an attribute by reference, whose value is the default."""
    node = helper.make_node(op_type, ["p"], ["q"], **more)
    kind = helper.make_attribute(name, value).type
    node.attribute.append(onnx.AttributeProto(name=name, type=kind, ref_attr_name="given"))
    return in_function([node], attribute_protos=[helper.make_attribute("given", value)])


def test_sizes_that_overflow_in_the_runtime(tmp_path: Path) -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[HUGE])
    shape = [world.value(name, [1, 1, 8]) for name in "xy"]
    built = world.model([pool], inputs=shape[:1], outputs=shape[1:])
    refused(tmp_path, built, "structure/attribute-range", "graph/node[0] MaxPool")
    gather = helper.make_node("GatherND", ["x", "i"], ["t"], batch_dims=LEAST)
    built = branching([constant("i", np.array([[0]])), gather], "t")
    refused(tmp_path, built, "structure/attribute-range", "graph/node[0] If/else_branch/node[1] GatherND")
    built = by_reference("MaxPool", "strides", [HUGE], kernel_shape=[2])
    refused(tmp_path, built, "structure/attribute-range", "functions[0] F/node[0] MaxPool")


def referred_tree(*, loop: bool, depth: int, as_default: bool) -> onnx.ModelProto:
    """A tree ensemble in a function, its edges handed over as attributes."""
    whole = chain(depth, loop=loop)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    node = helper.make_node("TreeEnsembleRegressor", ["p"], ["q"], domain="ai.onnx.ml")
    handed = []
    for attribute in whole.attribute:
        if attribute.name in {"nodes_truenodeids", "nodes_falsenodeids"}:
            node.attribute.append(
                onnx.AttributeProto(name=attribute.name, type=attribute.type, ref_attr_name=attribute.name)
            )
            handed.append(attribute)
        else:
            node.attribute.append(attribute)
    names = [] if as_default else [attribute.name for attribute in handed]
    defaults = handed if as_default else []
    body = helper.make_function(
        "local", "F", ["p"], ["q"], [node], imports, attributes=names, attribute_protos=defaults
    )
    caller = call("F", "x", "y")
    if not as_default:
        caller.attribute.extend(handed)
    return world.model([caller], functions=[body], imports=[("", 18), ("ai.onnx.ml", 3), ("local", 1)])


@pytest.mark.parametrize("as_default", [True, False])
def test_a_tree_whose_edges_are_handed_to_a_function(tmp_path: Path, as_default: bool) -> None:
    where = "functions[0] F/node[0] TreeEnsembleRegressor"
    deep = referred_tree(loop=False, depth=10_001, as_default=as_default)
    refused(tmp_path, deep, "structure/tree-depth", where)
    cyclic = referred_tree(loop=True, depth=100, as_default=as_default)
    refused(tmp_path, cyclic, "structure/tree-cycle", where)
    plain = referred_tree(loop=False, depth=100, as_default=as_default)
    assert not {code for code in world.inspected(tmp_path, plain).codes() if "tree" in code}


def test_training_mode_in_branch_function_and_old_opset(tmp_path: Path) -> None:
    yes = constant("yes", np.array(True))
    dropout = helper.make_node("Dropout", ["x", "", "yes"], ["t"])
    built = branching([dropout], "t", before=[yes])
    told(tmp_path, built, "structure/training-mode", "graph/node[1] If/else_branch/node[0] Dropout")
    inputs = [world.value(name) for name in ("x", "s", "b", "m", "v")]
    normal = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "m2", "v2", "sm", "sv"])
    built = world.model([normal], inputs=inputs, imports=[("", 9)])
    told(tmp_path, built, "structure/training-mode", "graph/node[0] BatchNormalization")
    imports = [helper.make_opsetid("", 18)]
    inner = helper.make_node("BatchNormalization", ["p"] * 5, ["q", "m2", "v2"])
    inner.attribute.append(onnx.AttributeProto(name="training_mode", type=2, ref_attr_name="train"))
    body = helper.make_function(
        "local", "F", ["p"], ["q"], [inner], imports, attribute_protos=[helper.make_attribute("train", 1)]
    )
    told(tmp_path, calling("F", [body]), "structure/training-mode", "functions[0] F/node[0] BatchNormalization")


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
def test_random_operators_without_a_seed_in_branch_and_function(tmp_path: Path, op_type: str) -> None:
    node = helper.make_node(op_type, ["x"], ["t"])
    where = f"graph/node[0] If/else_branch/node[0] {op_type}"
    told(tmp_path, branching([node], "t"), "structure/unseeded-random", where)
    inner = in_function([helper.make_node(op_type, ["p"], ["q"])])
    told(tmp_path, inner, "structure/unseeded-random", f"functions[0] F/node[0] {op_type}")
    seeded = in_function([helper.make_node(op_type, ["p"], ["q"], seed=1.0)])
    assert "structure/unseeded-random" not in world.inspected(tmp_path, seeded).codes()
