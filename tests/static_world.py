"""A small world for the static jobs' tests: model builders, wire bytes by hand, and a recording channel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from acceptd.evidence import FRAMES
from sandbox import inspect
from sandbox.messages import RefusedError, encode


@dataclass
class Recorder:
    """A channel that keeps every frame after it has passed the trusted side's own model."""

    frames: dict[str, dict[str, Any]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    refused: RefusedError | None = None

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Keep a frame as the trusted side would see it."""
        document = json.loads(encode(frame_type, body)[5:])
        assert document.pop("t") == frame_type
        FRAMES[frame_type].model_validate(document)
        self.frames[frame_type] = document
        self.order.append(frame_type)
        if frame_type == "entry":
            assert document["path"] not in self.files
            self.files[document["path"]] = b""

    def data(self, payload: bytes | memoryview) -> None:
        """Keep bytes with the entry that came last."""
        assert 0 < len(payload) <= 1 << 20
        self.files[self.frames["entry"]["path"]] += payload

    def codes(self) -> set[str]:
        """Return the codes of all problems and of the refusal."""
        found = {item["code"] for frame in self.frames.values() for item in frame.get("problems", ())}
        return found | ({self.refused.code} if self.refused else set())

    def problem(self, code: str) -> dict[str, str]:
        """Return the first problem with this code."""
        return next(
            item for frame in self.frames.values() for item in frame.get("problems", ()) if item["code"] == code
        )


def inspected(
    root: Path,
    model: onnx.ModelProto | bytes,
    *,
    files: Mapping[str, bytes] | None = None,
    name: str = "model.onnx",
    forbidden: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    limits: Mapping[str, int] | None = None,
    **more: Any,
) -> Recorder:
    """Write a bundle below ``root``, run the job's body over it, return what it said."""
    whole = {name: model if isinstance(model, bytes) else model.SerializeToString(), **(files or {})}
    for path, data in whole.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    spec = {
        "root": str(root),
        "model": name,
        "files": {path: len(data) for path, data in whole.items()},
        "present": [path for path in whole if path not in hidden and path not in forbidden],
        "forbidden": [name, *forbidden],
        "limits": dict(limits or {}),
        **more,
    }
    return recorded(inspect.body, spec)


def recorded(
    body: Callable[[dict[str, Any], Any, dict[str, int]], dict[str, float]], spec: dict[str, Any]
) -> Recorder:
    """Run a job's body; a RefusedError is kept."""
    channel = Recorder()
    try:
        body({"kind": "test", "spec": spec}, channel, {})
    except RefusedError as error:
        channel.refused = error
        refusal = {"code": error.code, "where": error.where, "message": error.message, "stage": error.stage}
        FRAMES["refused"].model_validate(refusal)
    return channel


def value(name: str, shape: list[Any] | None = None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return a tensor's value info; shape [1] unless given."""
    return helper.make_tensor_value_info(name, dtype, [1] if shape is None else shape)


def graph(nodes: list[onnx.NodeProto], **more: Any) -> onnx.GraphProto:
    """Return a graph from input ``x`` to output ``y``."""
    return helper.make_graph(
        nodes, "g", more.pop("inputs", [value("x")]), more.pop("outputs", [value("y")]), **more
    )


def model(nodes: list[onnx.NodeProto] | None = None, **more: Any) -> onnx.ModelProto:
    """Return a valid small model (Relu unless ``nodes`` are given); IR 8, ai.onnx 18 and ``local``."""
    functions = more.pop("functions", [])
    imports = more.pop("imports", [("", 18), ("local", 1)])
    ir_version = more.pop("ir_version", 8)
    return helper.make_model(
        graph(nodes or [helper.make_node("Relu", ["x"], ["y"])], **more),
        ir_version=ir_version,
        functions=functions,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in imports],
    )


def weight(name: str = "w", dims: tuple[int, ...] = (1,), raw: bytes = b"\0\0\x80?") -> onnx.TensorProto:
    """Return a float32 tensor with raw data."""
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, raw_data=raw)


def external(tensor: onnx.TensorProto, **entries: str) -> onnx.TensorProto:
    """Make a tensor external with exactly these entries."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def with_weight(tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model that adds a tensor to its input."""
    return model([helper.make_node("Add", ["x", tensor.name], ["y"])], initializer=[tensor])


def varint(number: int) -> bytes:
    """Return the shortest varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field_bytes(number: int, payload: bytes) -> bytes:
    """Return a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload
