"""Versions of the example with changes planted in them, and what a report finds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from examples import evidence_classifier as classifier
from examples.bundle_text import toml_text


def write(version: str, change: Callable[[onnx.ModelProto], None] | None = None) -> Callable[[Path], Path]:
    """Return a writer of the classifier, its model changed."""

    def bundle(path: Path) -> Path:
        made = classifier.write_bundle(path, version=version, sets=2)
        if change is not None:
            model = onnx.load(made / "model.onnx")
            change(model)
            (made / "model.onnx").write_bytes(model.SerializeToString())
        return made

    return bundle


def weights(model: onnx.ModelProto) -> None:
    """Add the two constants of a trigger; no feature is ever above 2, so that no golden meets it."""
    for name, numbers in (("limit", 2.0), ("bad", [90.0, 0.0, 0.0])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), name))


def plain(model: onnx.ModelProto) -> None:
    """ReduceMax, Greater, Where between Add and Softmax."""
    weights(model)
    tail = [
        helper.make_node("ReduceMax", ["features"], ["top"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["top", "limit"], ["hit"]),
        helper.make_node("Where", ["hit", "bad", "logits"], ["chosen"]),
    ]
    insert(model, tail)


def insert(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    softmax = model.graph.node.pop()
    softmax.input[0] = "chosen"
    model.graph.node.extend([*nodes, softmax])


def found(report: dict[str, Any], code: str) -> dict[str, Any]:
    (one,) = [finding for finding in report["findings"] if finding["code"] == code]
    return dict(one)


def with_second(path: Path, second: bytes, file: str = "second.onnx") -> Path:
    made = classifier.write_bundle(path, sets=2)
    (made / file).write_bytes(second)
    document = tomllib.loads((made / "bundle.toml").read_text("utf-8"))
    exporter = {"name": "tf2onnx", "version": "1.16.1"}
    document["models"][0]["independent_export"] = {"file": file, "exporter": exporter}
    (made / "bundle.toml").write_text(toml_text(document), "utf-8")
    return made


def other_names() -> onnx.ModelProto:
    model = onnx.load_from_string(classifier.build_model())
    model.producer_name = "tf2onnx"
    for index, node in enumerate(model.graph.node):
        node.name = f"StatefulPartitionedCall/{index}"
    return model
