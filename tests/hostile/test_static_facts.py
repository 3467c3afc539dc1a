"""What only a look over every scope finds: names, sparse indices, traps, modes; in functions and branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.judge.codes import CODES
from sandbox.inspect import check
from tests import static_world as world
from tests.hostile.test_static_structure import call, calling, chain, function, skipped

pytestmark = pytest.mark.hostile

INT64 = TensorProto.INT64
LEAST = -(2**63)
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


def relu(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target])


# -- names

UNPRODUCED: dict[str, tuple[onnx.ModelProto, str]] = {
    "main": (world.model([relu("nowhere", "y")]), "graph/node[0] Relu"),
    "output": (world.model([relu("x", "z")]), "graph/output[0]"),
    "function": (in_function([relu("x", "q")]), "functions[0] F/node[0] Relu"),
    # produced by a later node of the graph around: a branch cannot wait for it
    "branch": (
        world.model(
            [branch([relu("late", "t")], "t"), relu("x", "late")],
            inputs=[world.value("x"), world.value("c", [], TensorProto.BOOL)],
        ),
        "graph/node[0] If/else_branch/node[0] Relu",
    ),
}


@pytest.mark.parametrize("name", UNPRODUCED)
def test_a_name_that_nothing_produces(tmp_path: Path, name: str) -> None:
    built, where = UNPRODUCED[name]
    refused(tmp_path, built, "structure/unproduced-name", where)


@pytest.mark.parametrize("name", ["main", "function"])
def test_nodes_out_of_order_which_the_runtime_would_sort(tmp_path: Path, name: str) -> None:
    if name == "main":
        built = world.model([relu("t", "y"), relu("x", "t")])
        told(tmp_path, built, "structure/unsorted-nodes", "graph/node[0] Relu")
    else:
        built = in_function([relu("t", "q"), relu("p", "t")])
        told(tmp_path, built, "structure/unsorted-nodes", "functions[0] F/node[0] Relu")
    assert CODES["structure/unsorted-nodes"].severity == "hold"


def test_names_that_are_empty(tmp_path: Path) -> None:
    refused(tmp_path, world.model(initializer=[world.weight("")]), "structure/empty-name", "graph")
    body = function("F", [relu("p", "q")])
    body.output[0] = ""
    refused(tmp_path, calling("F", [body]), "structure/empty-name", "functions[0] F/output[0]")
    nameless = branching([helper.make_node("", ["x"], ["t"])], "t")
    refused(tmp_path, nameless, "structure/empty-name", "graph/node[0] If/else_branch/node[0]")


def test_a_name_is_seen_by_what_comes_after_it_in_every_scope(tmp_path: Path) -> None:
    """The control: initializers, inputs, earlier nodes, the scopes around, optional inputs, training graphs."""
    built = branching(
        [helper.make_node("Add", ["early", "w"], ["t"])],
        "t",
        before=[relu("x", "early")],
        initializer=[world.weight()],
    )
    clip = helper.make_node("Clip", ["x", "", "w"], ["unused"])
    built.graph.node.insert(0, clip)
    training = built.training_info.add().algorithm
    training.name = "t"
    training.node.append(relu("early", "trained"))
    assert world.inspected(tmp_path, built).codes() == {"structure/training-info"}


# -- sparse tensors


def sparse(indices: Any, dims: tuple[int, ...] = (4,), dtype: int = INT64) -> onnx.SparseTensorProto:
    array = np.asarray(indices, np.int64)
    made = helper.make_tensor("i", dtype, array.shape, array.ravel().tolist())
    values = helper.make_tensor("s", TensorProto.FLOAT, [len(array)], [1.0] * len(array))
    return onnx.SparseTensorProto(values=values, indices=made, dims=dims)


SPARSE = {
    "out-of-range": sparse([1, 4]),
    "negative": sparse([-1, 2]),
    "descending": sparse([3, 1]),
    "repeated": sparse([2, 2]),
    "column-out-of-range": sparse([[0, 1], [1, 9]], (2, 2)),
    "rows-descending": sparse([[1, 0], [0, 1]], (2, 2)),
    "wrong-shape": sparse([[0], [1]], (2, 2)),
    "wrong-type": sparse([0, 1], dtype=TensorProto.INT32),
}
PLACES: dict[str, tuple[Callable[[Any], onnx.ModelProto], str]] = {
    "initializer": (lambda one: world.model(sparse_initializer=[one]), "graph/sparse_initializer[0] s"),
    "branch": (
        lambda one: branching([helper.make_node("Constant", [], ["t"], sparse_value=one)], "t"),
        "graph/node[0] If/else_branch/node[0] Constant/sparse_value",
    ),
    "default": (
        lambda one: in_function([relu("p", "q")], attribute_protos=[helper.make_attribute("d", one)]),
        "functions[0] F/attribute_proto[0]/d",
    ),
}


@pytest.mark.parametrize("fault", SPARSE)
@pytest.mark.parametrize("place", PLACES)
def test_sparse_indices_wherever_they_stand(tmp_path: Path, fault: str, place: str) -> None:
    build, where = PLACES[place]
    refused(tmp_path, build(SPARSE[fault]), "structure/sparse-indices", where)
    assert "structure/sparse-indices" not in world.inspected(tmp_path, build(sparse([0, 3]))).codes()


def test_sparse_dimensions_that_overflow(tmp_path: Path) -> None:
    for dims in ((1 << 62, 8), (-4,)):
        found = world.inspected(tmp_path, PLACES["default"][0](sparse([0, 1], dims)))
        assert "structure/tensor-dims" in found.codes()
        skipped(found)


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


# -- numbers of weights


def test_nan_and_infinite_weights_wherever_they_stand(tmp_path: Path) -> None:
    bad = np.array([1.0, np.nan, -np.inf, 2.0], np.float32)
    small, large = numpy_helper.from_array(bad, "w"), numpy_helper.from_array(np.tile(bad, 1000), "w")
    half = numpy_helper.from_array(np.tile(bad, 1000).astype(np.float16), "w")
    for tensor, many in ((small, 1), (large, 1000), (half, 1000)):
        found = told(
            tmp_path, world.model(initializer=[tensor]), "structure/non-finite-weights", "graph/initializer[0] w"
        )
        (row,) = found.frames["facts"]["weights"]
        assert (row["nan"], row["infinite"], row["least"], row["greatest"]) == (many, many, 1.0, 2.0)
    outside = world.external(TensorProto(name="w", data_type=1, dims=[4000]), location="w.bin", length="16000")
    found = world.inspected(
        tmp_path, world.model(initializer=[outside]), files={"w.bin": np.tile(bad, 1000).tobytes()}
    )
    assert found.problem("structure/non-finite-weights")["where"] == "graph/initializer[0] w"
    default = in_function([relu("p", "q")], attribute_protos=[helper.make_attribute("d", small)])
    told(tmp_path, default, "structure/non-finite-weights", "functions[0] F/attribute_proto[0]/d")
    thin = sparse([0, 1])
    thin.values.float_data[0] = float("nan")
    told(
        tmp_path,
        world.model(sparse_initializer=[thin]),
        "structure/non-finite-weights",
        "graph/sparse_initializer[0]",
    )


def test_a_single_infinite_number_is_the_filler_of_a_mask(tmp_path: Path) -> None:
    built = world.model(initializer=[numpy_helper.from_array(np.array(-np.inf, np.float32), "w")])
    found = world.inspected(tmp_path, built)
    assert found.codes() == set()
    assert found.frames["facts"]["weights"][0]["infinite"] == 1


def test_ten_thousand_tensors_on_one_range_are_read_once(tmp_path: Path) -> None:
    tensors = [
        world.external(TensorProto(name=f"w{n}", data_type=1, dims=[100]), location="w.bin", length="400")
        for n in range(10_000)
    ]
    for n in range(50):
        tensor = TensorProto(name=f"v{n}", data_type=1, dims=[50])
        tensors.append(world.external(tensor, location="w.bin", offset=str(4 * n), length="200"))
    built = world.model(initializer=tensors)
    found = world.inspected(tmp_path, built, files={"w.bin": bytes(400)})
    assert found.frames["facts"]["read_bytes"] <= built.ByteSize() + 400


# -- what native code may see


def test_everything_that_rejects_by_itself_keeps_native_code_away() -> None:
    rejecting = {code for code in CODES if code.startswith("structure/") and CODES[code].severity == "reject"}
    judged_outside = {
        "structure/ir-version-out-of-range", "structure/model-too-large", "structure/opset-out-of-range",
        "structure/too-many-initializers", "structure/too-many-node-inputs", "structure/too-many-nodes",
        "structure/too-many-scopes",
    }  # fmt: skip
    assert rejecting - judged_outside <= check.REFUSED
    assert {code for code in check.REFUSED if CODES[code].severity not in {"reject", "hold"}} == set()
