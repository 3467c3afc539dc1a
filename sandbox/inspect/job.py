"""The phases of ``inspect`` in order, wire to shapes. A later frame cannot amend an earlier one."""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError

from sandbox import wire
from sandbox.inspect import check, endings, facts, structure, stubs, weights
from sandbox.inspect.external import Bundle
from sandbox.messages import MODEL_DIR, Channel, RefusedError, text_of
from sandbox.wire_tensor import Buffer

PROTOBUF_LIMIT: Final = (2 << 30) - 1
DEFAULT_LIMITS: Final = {
    "nodes": 200_000,
    "initializers": 50_000,
    "scopes": 20_000,
    "wire_depth": 100,
    "metadata_bytes": 1 << 20,
    "model_bytes": 2 << 30,
}


@contextmanager
def mapped(path: Path, where: str, limit: int) -> Iterator[Buffer]:
    """Map a regular file for reading, without copying a byte of it. The sealed copy never changes size."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise RefusedError(
            "structure/no-graph", where, f"the model file cannot be read: {error.strerror}"
        ) from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise RefusedError("wire/malformed", where, "the model is no regular file")
        most = min(limit, PROTOBUF_LIMIT)
        if info.st_size > most:
            message = f"{info.st_size} bytes; at most {most} are read"
            raise RefusedError("wire/too-large", where, message, stage="wire")
        if info.st_size == 0:
            yield b""
            return
        with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as view:
            yield view
    finally:
        os.close(fd)


def over_limit(walk: wire.Walk, limits: dict[str, int]) -> tuple[str, str] | None:
    """Return (code, message) when a count passes its limit: protobuf and onnx then never get the model."""
    for code, what, count, limit in (
        ("structure/too-many-nodes", "nodes", walk.nodes, limits["nodes"]),
        ("structure/too-many-initializers", "initializers", walk.initializers, limits["initializers"]),
        ("structure/too-many-scopes", "graphs and functions", walk.graphs + walk.functions, limits["scopes"]),
        (
            "structure/metadata-too-large", "bytes of metadata and documentation", walk.metadata_bytes,
            limits["metadata_bytes"] + facts.METADATA_PER_NODE * walk.nodes,
        ),
    ):  # fmt: skip
        if count > limit:
            return code, f"{count} {what}, the limit is {limit}"
    return None


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:  # noqa: ARG001
    """Run the job (see the package's text); returns each phase's milliseconds."""
    spec = order["spec"]
    limits = {**DEFAULT_LIMITS, **spec.get("limits", {})}
    name = str(spec["model"])
    root = Path(spec.get("root", MODEL_DIR))
    bundle = Bundle(name, dict(spec["files"]), frozenset(spec["present"]), frozenset(spec["forbidden"]))
    with mapped(root / name, name, limits["model_bytes"]) as buf:
        digests, last = spec.get("digests") is True, spec.get("endings") is True
        return examine(buf, bundle, limits, channel, root, digests=digests, last=last)


def examine(
    buf: Buffer,
    bundle: Bundle,
    limits: dict[str, int],
    channel: Channel,
    root: Path,
    *,
    digests: bool = False,
    last: bool = False,
) -> dict[str, float]:
    """Send the five frames for the model in ``buf``; the bundle's other files are below ``root``.

    ``digests``: hash all weights too, so that two exports can be compared. ``last``: say what the outputs end in.
    """
    clock = _Clock()
    walk = wire.walk(buf, len(buf), limits["wire_depth"])
    channel.send("wire", wire.frame(buf, walk))
    wire.refuse(buf, walk)
    excess = over_limit(walk, limits)
    if excess:
        raise RefusedError(excess[0], "model", excess[1], stage="wire")
    clock.stop("wire")
    small = stubs.without_values(buf, walk)
    try:
        model = onnx.ModelProto.FromString(small)
    except DecodeError as error:
        raise RefusedError(
            "wire/malformed", bundle.model, f"protobuf: {text_of(str(error))}", stage="facts"
        ) from error
    found = facts.collect(model, buf, walk, bundle, root, limits)
    channel.send("facts", found.frame)
    clock.stop("facts")
    shape = structure.collect(model, walk.ir_version or 0)
    if digests:
        shape["graph_sha256"] = structure.graph_sha256(buf, walk, root / bundle.model, bundle)
    if last:
        shape |= {"endings": endings.frames(model), "producer": endings.producer(model)}
    channel.send("structure", shape)
    clock.stop("structure")
    refused = check.reason(found.problems, found.frame["external"])
    channel.send("checker", check.phase(refused, partial(check.check, model, found.hollow)))
    clock.stop("checker")
    if not refused and len(small) > check.INFER_BYTES:
        refused = f"the model without its values is larger than {check.INFER_BYTES >> 20} MiB"
    channel.send("shapes", check.phase(refused, lambda: check.infer(small)))
    clock.stop("shapes")
    return clock.phases


class _Clock:
    """Milliseconds between phases."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def stop(self, phase: str) -> None:
        now = time.perf_counter()
        self.phases[phase] = (now - self._last) * 1000
        self._last = now


class _Silent:
    """A channel to nowhere, for preload."""

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Drop a frame."""

    def data(self, payload: bytes | memoryview) -> None:
        """Drop bytes."""


def preload() -> None:
    """Run all phases once over a built-in model and once into an error, so that nothing is set up lazily later."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)])
    whole = model.SerializeToString()
    bundle = Bundle("model.onnx", {}, frozenset(), frozenset())
    examine(whole, bundle, DEFAULT_LIMITS, _Silent(), Path(MODEL_DIR), digests=True, last=True)
    weights.warm()
    check.phase("", lambda: onnx.checker.check_model(whole + b"\xff"))
    check.phase("", lambda: check.infer(whole + b"\xff"))
