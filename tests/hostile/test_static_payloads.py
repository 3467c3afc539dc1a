"""Programs, archives and pickles where a model only has numbers and descriptions."""

from __future__ import annotations

import base64
import gzip
import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.static_world import Recorder, inspected

pytestmark = pytest.mark.hostile

CODE = "structure/payload"
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)


def model(raw: bytes = b"", **metadata: str) -> onnx.ModelProto:
    """Identity, with an unused weight of ``raw`` bytes."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    weights = [helper.make_tensor("w", TensorProto.UINT8, [len(raw)], raw, raw=True)] if raw else []
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [result], weights)
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    helper.set_model_props(made, metadata)
    return made


def told(recorder: Recorder) -> list[str]:
    """Return the places of the code."""
    problems = recorder.frames["facts"]["problems"]
    return [problem["where"] for problem in problems if problem["code"] == CODE]


@pytest.mark.parametrize("size", [100, 1 << 20], ids=["small", "large"])
@pytest.mark.parametrize(
    "payload",
    [ELF, b"PK\x03\x04" + bytes(40), b"#!/bin/sh\nid\n", gzip.compress(bytes(99)), pickle.dumps([1] * 9, 4)],
    ids=["elf", "zip", "script", "gzip", "pickle"],
)
def test_a_weight_that_begins_like_a_payload(tmp_path: Path, payload: bytes, size: int) -> None:
    places = told(inspected(tmp_path, model(payload.ljust(size, b"\0"))))
    assert [place.partition(" ")[0] for place in places] == ["graph/initializer[0]"]


def test_metadata_and_documentation_that_begin_like_a_payload(tmp_path: Path) -> None:
    hidden = model(note=base64.b64encode(ELF).decode(), plain="ordinary words")
    hidden.doc_string = "#!/bin/sh"
    hidden.graph.doc_string = "\x7fELF"
    assert sorted(told(inspected(tmp_path, hidden))) == ["doc_string", "graph/doc_string", "metadata_props[0]"]


def test_weights_and_words_are_no_payload(tmp_path: Path) -> None:
    weights = np.random.default_rng(7).standard_normal(1 << 16).astype(np.float32).tobytes()
    assert told(inspected(tmp_path, model(weights, author="somebody", labels='{"0": "cat"}'))) == []
