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
from tests.hostile.test_static_structure import calling, function, skipped
from tests.static_models import INT64, branch, branching, in_function, refused, told

pytestmark = pytest.mark.hostile


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
