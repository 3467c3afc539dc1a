"""The program that was checked is not the program that runs: a second computation of the definitions shows it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from acceptd import local
from acceptd.policy import load
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from tests.bench_world import Desk, desk, write_model
from tests.world import codes

pytestmark = pytest.mark.hostile

FLOAT = TensorProto.FLOAT
BATCH = {"batch": {"min": 1, "max": 4}}
PORTS: dict[str, Any] = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2], "range": [-1.0, 1.0]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 2], "kind": "logits"}],
}
TOLD = {"structure/function-shadows-operator": "info"}
"""The file's own check would reject it; a policy that lowers it leaves the second computation alone to find it."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("oracle")) as made:
        yield made


def check(place: Desk, path: Path, *, severity: dict[str, Any] | None = None, **rules: Any) -> dict[str, Any]:
    """Judge a bundle under the default policy with other severities and another ``[reference]``."""
    base = place.rules("operators.mode=any").policy.model_dump(by_alias=True)
    base |= {"severity": base["severity"] | (severity or {}), "reference": base["reference"] | rules}
    policy = type(place.rules().policy).model_validate(base)
    changed = Rules(policy, load.digest(policy), Profile(), load.digest(Profile()), place.policies / "contracts")
    return local.check_one(local.Bench(**{**vars_of(place.bench), "rules": changed}), path)


def vars_of(bench: local.Bench) -> dict[str, Any]:
    """The fields of a bench."""
    return {name: getattr(bench, name) for name in bench.__dataclass_fields__}


def function_model(domain: str, name: str, *, branch: bool = False) -> bytes:
    """A model of one call of a function that negates, perhaps inside both branches of an If."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    body = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function(domain, name, ["a"], ["b"], body, opsets[:1])
    call = helper.make_node(name, ["x"], ["y"], domain=domain)
    nodes = [call]
    if branch:
        inner = helper.make_graph(
            [helper.make_node(name, ["x"], ["r"], domain=domain)],
            "branch",
            [],
            [helper.make_tensor_value_info("r", FLOAT, ["batch", 2])],
        )
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
            helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
            helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", FLOAT, ["batch", 2])],
    )
    model = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))


def bundle(path: Path, raw: bytes, answer: Any) -> Path:
    """Write a bundle whose golden is what the runtime really gives."""
    first = np.array([[0.5, -0.25], [1.0, 0.75]], np.float32)
    return write_model(path, raw, [({"x": first}, {"y": answer(first)})], dims=BATCH, **PORTS)


def gelu(x: Any) -> Any:
    """https://arxiv.org/abs/1606.08415, exact form."""
    return np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(x).astype(np.float32)


def quick_gelu(x: Any) -> Any:
    """x * sigmoid(1.702 x)."""
    return (x / (1 + np.exp(-1.702 * x))).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "answer", "branch"),
    [("Gelu", gelu, False), ("QuickGelu", quick_gelu, True)],
    ids=["in-the-main-graph", "inside-both-branches-of-an-if"],
)
def test_a_function_that_the_runtime_replaces_by_its_own_operator_is_held(
    name: str, answer: Any, branch: bool, place: Desk, tmp_path: Path
) -> None:
    path = bundle(tmp_path / "b", function_model("com.microsoft", name, branch=branch), answer)
    report = check(place, path, severity=TOLD)
    assert (report["verdict"], codes(report, "hold")) == ("held", {"reference/disagrees"}), report["findings"]
    found = next(one for one in report["findings"] if one["code"] == "reference/disagrees")
    assert found["evidence"]["inputs"]
    assert codes(check(place, path), "reject") == {"structure/function-shadows-operator"}


def test_without_the_oracle_nothing_else_that_runs_would_show_it(place: Desk, tmp_path: Path) -> None:
    path = bundle(tmp_path / "b", function_model("com.microsoft", "Gelu"), gelu)
    report = check(place, path, severity=TOLD, enabled=False)
    assert report["verdict"] == "accepted", report["findings"]


@pytest.mark.parametrize("branch", [False, True])
def test_an_honest_function_of_its_own_domain_is_proved_on_every_draw(
    branch: bool, place: Desk, tmp_path: Path
) -> None:
    path = bundle(tmp_path / "b", function_model("own", "Turn", branch=branch), np.negative)
    report = check(place, path)
    assert report["verdict"] == "accepted", report["findings"]
    rows = [row for row in report["parity"] if row["against"] == "reference"]
    assert {row["set"] for row in rows} >= {"test_data_set_0", "probe:draws-0", "probe:low", "probe:dim-max:batch"}
    assert all(row["comparable"] and row["max_abs"] == 0 for row in rows)


@pytest.mark.parametrize("name", ["DFT", "StringConcat"])
def test_what_numpy_imports_late_is_there_in_a_job(name: str, place: Desk, tmp_path: Path) -> None:
    if name == "DFT":
        kind, shape, x = "float32", [1, 4, 1], np.array([[[1], [0], [0], [0]]], np.float32)
        node, answer = helper.make_node("DFT", ["x"], ["y"]), np.array([[[1, 0]] * 4], np.float32)
    else:
        kind, shape, x = "string", [1, 2], np.array([["a", "b"]], object)
        node, answer = helper.make_node("StringConcat", ["x", "x"], ["y"]), np.array([["aa", "bb"]], object)
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    ports = [helper.make_tensor_value_info("x", number, shape)]
    results = [helper.make_tensor_value_info("y", number, list(answer.shape))]
    graph = helper.make_graph([node], "graph", ports, results)
    raw = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8).SerializeToString()
    table = {
        "inputs": [{"name": "x", "dtype": kind, "shape": shape}],
        "outputs": [{"name": "y", "dtype": kind, "shape": list(answer.shape)}],
    }
    report = check(place, write_model(tmp_path / "b", raw, [({"x": x}, {"y": answer})], **table))
    assert report["verdict"] == "accepted", report["findings"]
    (row,) = [row for row in report["parity"] if row["against"] == "reference"]
    assert (row["comparable"], row["exceeding"]) == (True, 0)


def test_a_model_that_the_evaluator_cannot_evaluate_is_accepted_and_it_is_told(
    place: Desk, tmp_path: Path
) -> None:
    nodes = [helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", FLOAT, ["batch", 2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    raw = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    report = check(place, bundle(tmp_path / "b", raw, quick_gelu))
    assert report["verdict"] == "accepted", report["findings"]
    found = next(one for one in report["findings"] if one["code"] == "reference/unavailable")
    assert (found["severity"], "QuickGelu" in found["message"]) == ("info", True)


def test_an_evaluation_that_does_not_end_is_ended_and_is_not_the_models_fault(place: Desk, tmp_path: Path) -> None:
    """A pooling that onnxruntime makes in no time costs the evaluator more than its seconds."""
    side = 400
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["x", "shape"], ["image"]),
            helper.make_node("Expand", ["image", "size"], ["large"]),
            helper.make_node("MaxPool", ["large"], ["pooled"], kernel_shape=[7, 7]),
            helper.make_node("ReduceMax", ["pooled"], ["top"], axes=[2, 3], keepdims=0),
            helper.make_node("Add", ["x", "top"], ["y"]),
        ],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 2])],
        [
            helper.make_tensor("shape", TensorProto.INT64, [4], [1, 2, 1, 1]),
            helper.make_tensor("size", TensorProto.INT64, [4], [1, 2, side, side]),
        ],
    )
    raw = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    ports = {side: [one | {"shape": [1, 2]} for one in values] for side, values in PORTS.items()}
    x = np.array([[0.5, -0.25]], np.float32)
    path = write_model(tmp_path / "b", raw, [({"x": x}, {"y": 2 * x})], **ports)
    report = check(place, path, seconds=0.2)
    assert report["verdict"] == "accepted", report["findings"]
    *_, job = (
        one for one in report["resources"]["jobs"] if one["kind"] == "reference"
    )  # a busy machine tries again
    assert (job["ending"], job["cause"]) == ("limit", "cpu")
    assert "reference/unavailable" in codes(report, "info")
