"""A real second provider through the real rooms: OpenVINO beside the CPU. `make profiles-openvino` makes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.bench_world import Desk, desk, write_model
from tests.run_world import model_bytes, tensor_info
from tests.world import ROOT, codes

OPENVINO = ROOT / ".venvs" / "ort-openvino" / "bin" / "python"
pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not OPENVINO.exists(), reason="make profiles-openvino makes it"),
]
PROVIDER, CPU = "OpenVINOExecutionProvider", "CPUExecutionProvider"
PROFILE = f"""schema = 1
name = "openvino"
interpreter = {json.dumps(str(OPENVINO))}
onnxruntime = "1.24.1"
providers = ["{PROVIDER}", "{CPU}"]
[provider_options.{PROVIDER}]
device_type = "CPU"
num_of_threads = "1"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("openvino")) as made:
        (made.policies / "profiles" / "openvino.toml").write_text(PROFILE, "utf-8")
        yield made


def bundle(path: Path, *, detour: bool) -> Path:
    """Write x -> exp(-relu(x)); with a detour over text, which OpenVINO does not take, in the middle."""
    middle = [
        helper.make_node("Cast", ["a"], ["t"], to=TensorProto.STRING),
        helper.make_node("Cast", ["t"], ["b"], to=TensorProto.FLOAT),
    ]
    straight = [helper.make_node("Abs", ["a"], ["b"])]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Sigmoid", ["r"], ["s"]),
        helper.make_node("Tanh", ["s"], ["a"]),
        *(middle if detour else straight),
        helper.make_node("Neg", ["b"], ["n"]),
        helper.make_node("Exp", ["n"], ["y"]),
    ]
    raw = model_bytes(
        nodes, [tensor_info("x", TensorProto.FLOAT, [1, 4])], [tensor_info("y", TensorProto.FLOAT, [1, 4])]
    )
    x = np.array([[0.5, 0.25, 1.0, 0.0]], np.float32)
    y = np.exp(-np.tanh(1 / (1 + np.exp(-np.maximum(x, 0))))).astype(np.float32)
    ports = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 4], "tolerance": {"rtol": 0.0, "atol": 1e-3}}],
    }
    return write_model(path, raw, [({"x": x}, {"y": y})], **ports)


def placement(report: dict[str, Any]) -> dict[str, Any]:
    (model,) = report["placement"]
    return dict(model)


def test_a_model_that_openvino_takes_whole_is_one_partition_by_definition(place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", detour=False), "profile=openvino")
    assert report["verdict"] == "accepted", report["findings"]
    told = placement(report)
    assert (told["requested_provider"], told["selected_provider"]) == (PROVIDER, PROVIDER)
    assert (told["used_cpu_fallback"], told["partitions"], told["shares"]) == (False, 1, {PROVIDER: 1.0})


def test_a_detour_over_the_cpu_is_profiled_under_all_walls(place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", detour=True), "profile=openvino")
    assert report["verdict"] == "accepted", report["findings"]
    told = placement(report)
    assert told["used_cpu_fallback"] is True
    assert told["profiled_runs"] == 20
    assert told["partitions"] > 1
    assert told["cpu_islands"] >= 1
    assert set(told["shares"]) == {PROVIDER, CPU}
    assert sum(told["shares"].values()) == pytest.approx(1.0, abs=1e-5)
    assert told["cpu_operators"]["ai.onnx::Cast"] == 2
    assert {one["after"] for one in told["boundaries"]} | {one["before"] for one in told["boundaries"]} == {
        PROVIDER,
        CPU,
    }


def test_what_may_not_fall_back_rejects(place: Desk, tmp_path: Path) -> None:
    report = place.check(bundle(tmp_path / "b", detour=True), "profile=openvino", "placement.cpu_operators=[]")
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"placement/cpu-operator"})
