"""The ``run`` job: load a model in the design's order, run golden sets, time one of them, run probes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import Any

import numpy as np

from sandbox import session
from sandbox.cases import Ports, Runner
from sandbox.interface import RuntimeType
from sandbox.load import Load, discover_schema, load_in_order, receipts, schema_frame
from sandbox.messages import Channel, encode
from sandbox.metamorphic import peak_bytes, relate
from sandbox.placement import placement
from sandbox.probing import probe
from sandbox.profiled import profiled
from sandbox.tensors import ELEMENTS, BlobReader, BlobWriter, TensorValue, nbytes_of, tensor_of
from sandbox.timing import cold_phases, kernel, timing
from sandbox.values import UnexpressibleError, from_runtime, to_runtime


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Load, describe, run goldens, time one of them, run probes; return the phases in ms.

    Raises RefusedError: a step of the load order failed, or memory or output limits were met.
    """
    spec = order["spec"]
    if spec.get("kernel"):
        channel.send("kernel", kernel(int(spec["kernel"])))  # before a submitted byte is read: nobody can amend it
    baseline = peak_bytes()
    started = time.perf_counter()
    load = Load(spec)
    load_in_order(load, channel)
    loaded = time.perf_counter()
    placed_nodes = placement(load.session, load.profile.get("providers") or ())
    channel.send("placement", placed_nodes)
    placed = time.perf_counter()
    runner = _runner(load, blobs, channel)
    optimised = bool(spec.get("optimised", True))
    reader = BlobReader(blobs["inputs"])
    for item in spec.get("sets") or ():
        runner.golden(item, reader, spec.get("repeats", 2) if optimised else 1)
    run = time.perf_counter()
    if optimised and spec.get("timing"):
        cold = cold_phases(hash_ms=load.hash_ms, session_ms=load.load_ms, first_ms=runner.first_ms)
        channel.send("timing", timing(runner, reader, spec.get("sets") or (), spec["timing"], cold))
    timed = time.perf_counter()
    if optimised and spec.get("probes", False):
        probe(runner, load, channel)
    if not optimised and spec.get("relations"):
        relate(runner, load, channel, baseline)
    if optimised and spec.get("profiled"):
        nodes = sum(row["count"] for row in placed_nodes["nodes"])
        channel.send(
            "profiled",
            profiled(load.session, runner, reader, spec.get("sets") or (), spec["profiled"], nodes=nodes),
        )
    ended = time.perf_counter()
    return {
        "hash": load.hash_ms,
        "session": load.load_ms,
        "steps": (loaded - started) * 1000 - load.hash_ms - load.load_ms,
        "placement": (placed - loaded) * 1000,
        "goldens": (run - placed) * 1000,
        "timing": (timed - run) * 1000,
        "probes": (ended - timed) * 1000,
    }


def _runner(load: Load, blobs: dict[str, int], channel: Channel) -> Runner:
    declared = load.declared
    ports = Ports(load.inputs, load.overridables, load.outputs, declared["inputs"], declared["outputs"], load.dims)
    return Runner(load.session, ports, BlobWriter(blobs["outputs"]), channel)


class _Nowhere:
    """A channel that encodes, as a job's does, and sends nothing."""

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        encode(frame_type, body)

    def data(self, payload: bytes | memoryview) -> None:
        del payload


def preload() -> None:
    """Go through a whole run of a built-in model, and through every element type, before the fork.

    What is made on first use (onnxruntime's tables, numpy's loops and random generator, the hash)
    then exists once, in pages that all jobs share.
    """
    hashlib.sha256(b"").hexdigest()
    spec = {"seed": "1", "max_elements": 1000, "sha256": "", "probes": "all", "draws": 8, "probe_seconds": 10.0}
    load = Load(spec | {"near_ties": 2, "quantised": True}, dims={"n": {"min": 1, "max": 2}})
    load.session = session.preload()
    declared = {"name": "x", "dtype": "float32", "shape": ["n", 4], "range": [0.0, 1.0]}
    load.declared["inputs"] = [declared]
    load.declared["outputs"] = [{"name": "p", "dtype": "float32", "shape": ["n", 3], "kind": "probabilities"}]
    discover_schema(load)
    blob = os.memfd_create("warm")
    try:
        runner = _runner(load, {"inputs": blob, "outputs": blob}, _Nowhere())
        writer = BlobWriter(blob)
        reference = writer.store(tensor_of(np.zeros((1, 4), np.float32), "float32"))
        golden = {"name": "warm", "inputs": [{"name": "", "value": reference}]}
        runner.golden(golden, BlobReader(blob), 2)
        cold = cold_phases(hash_ms=0.0, session_ms=0.0, first_ms=runner.first_ms)
        timing(runner, BlobReader(blob), [golden], {"samples": 2, "seconds": 1.0}, cold)
        kernel(1)
        probe(runner, load, _Nowhere())
    finally:
        os.close(blob)
    placement(load.session)
    receipts(load)
    schema_frame(load)
    for element in ELEMENTS.values():
        shape = (1,)
        if element.name == "string":
            to_runtime(tensor_of(np.array(["a"]), "string"), as_ort=False)
        elif not element.native:
            value = TensorValue(element.name, shape, bytes(nbytes_of(element, shape)))
            with contextlib.suppress(UnexpressibleError):  # a type that this onnxruntime does not know
                from_runtime(to_runtime(value, as_ort=True), RuntimeType("tensor", element.name))
