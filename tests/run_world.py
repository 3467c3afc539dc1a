"""A small world for the dynamic jobs' tests: models, bundles on disk, memory blobs and a recording channel."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from acceptd.evidence import FRAMES
from sandbox import run, vectors
from sandbox.messages import encode
from sandbox.tensors import BlobReader

WEIGHT = np.array([[1.5, 0, -4], [1.5, 0, -1], [2.5, 0, -0.5], [-1, 0.5, 4.5]], np.float32)
BIAS = np.array([-1, 0.5, 0], np.float32)


class Recorder:
    """A channel that keeps every frame, after it has passed the trusted side's own model."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, dict[str, Any]]] = []

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        document = json.loads(encode(frame_type, body)[5:])
        assert document.pop("t") == frame_type
        FRAMES[frame_type].model_validate(document)
        self.frames.append((frame_type, document))

    def data(self, payload: bytes | memoryview) -> None:
        raise AssertionError("the dynamic jobs send no raw data")

    def all(self, frame_type: str) -> list[dict[str, Any]]:
        return [body for kind, body in self.frames if kind == frame_type]

    def steps(self) -> list[str]:
        return [body["name"] for body in self.all("step")]


def blob() -> int:
    """Return a descriptor of anonymous memory that stands for a blob file."""
    return os.memfd_create("blob")


def model_bytes(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any] | None = None, opset: int = 13
) -> bytes:
    """Return a model of IR version 8 with the opset of ai.onnx (and ai.onnx.ml 3)."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights or [])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return bytes(helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString())


def tensor_info(name: str, dtype: int, shape: list[int | str] | None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def classifier(weight: np.ndarray[Any, Any] = WEIGHT, bias: np.ndarray[Any, Any] = BIAS) -> bytes:
    """The evidence classifier: float32 ``features`` [batch,4] to ``probabilities`` [batch,3]."""
    nodes = [
        helper.make_node("MatMul", ["features", "weight"], ["weighted"]),
        helper.make_node("Add", ["weighted", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    weights = [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")]
    return model_bytes(
        nodes,
        [tensor_info("features", TensorProto.FLOAT, ["batch", 4])],
        [tensor_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
        weights,
    )


def declared() -> dict[str, Any]:
    """What the classifier's manifest declares, as ModelSpec JSON."""
    return {
        "name": "main",
        "file": "model.onnx",
        "inputs": [
            {"name": "features", "type": "tensor", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]}
        ],
        "outputs": [{"name": "probabilities", "type": "tensor", "dtype": "float32", "shape": ["batch", 3]}],
    }


def spec_of(root: Path, raw: bytes, **changes: Any) -> dict[str, Any]:
    """Write ``raw`` as the sealed model and return a ``run`` order's spec; ``changes`` override its keys."""
    (root / "model.onnx").write_bytes(raw)
    spec: dict[str, Any] = {
        "root": str(root),
        "model": "model.onnx",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
        "external": [],
        "declared": {},
        "dims": {},
        "profile": {},
        "optimised": True,
        "sets": [],
        "repeats": 2,
        "probes": False,
        "max_elements": 100_000,
        "draws": 64,
        "near_ties": 2,
        "probe_seconds": 600.0,
        "seed": "00ff",
    }
    return spec | changes


def write_set(root: Path, name: str, inputs: list[Any], outputs: list[Any]) -> dict[str, Any]:
    """Write a golden set of arrays or protobuf messages in ONNX's layout; return its ``vectors`` order."""
    directory = root / name
    directory.mkdir()
    files = []
    for side, values in (("input", inputs), ("output", outputs)):
        for number, value in enumerate(values):
            message = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            path = directory / f"{side}_{number}.pb"
            path.write_bytes(message if isinstance(message, bytes) else message.SerializeToString())
            files.append(f"{name}/{path.name}")
    return {"model": "main", "name": name, "format": "onnx", "files": files}


def decode(root: Path, *sets: dict[str, Any], **changes: Any) -> tuple[dict[str, Any], int, int]:
    """Run the ``vectors`` body; return (frame, inputs blob, expected blob)."""
    channel, inputs, expected = Recorder(), blob(), blob()
    spec = {"root": str(root), "sets": list(sets), "types": {}, "data_json": None} | changes
    vectors.body({"kind": "vectors", "spec": spec}, channel, {"inputs": inputs, "expected": expected})
    (frame,) = channel.all("vectors")
    return frame, inputs, expected


def fetch(descriptor: int, named: dict[str, Any]) -> Any:
    """Return the value behind a Named; the test knows its kind."""
    return BlobReader(descriptor).fetch(named["value"])


def execute(spec: dict[str, Any], inputs: int | None = None) -> tuple[Recorder, int]:
    """Run the ``run`` body to its end; return (channel, outputs blob)."""
    channel, outputs = Recorder(), blob()
    blobs = {"inputs": blob() if inputs is None else inputs, "outputs": outputs}
    run.body({"kind": "run", "spec": spec}, channel, blobs)
    return channel, outputs
