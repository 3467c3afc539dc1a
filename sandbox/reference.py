"""The ``reference`` job: onnx's own evaluator on the golden inputs and on the in-domain probes.

It computes what the operators' definitions say, beside the ``run`` job and without a word from it. The
probes are made anew from declared interface, bounds, golden inputs and seed, as the run makes them; the
comparer then holds the outputs of equal names against each other. Expected values are not here. Each
case is told as it is done, so that a job that is ended by a limit has lost only the rest.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import onnx

from sandbox.cases import match
from sandbox.draws import Probe, draws
from sandbox.evaluator import Evaluator, loaded, to_evaluator
from sandbox.messages import MODEL_DIR, Channel, RefusedError, clip, text_of
from sandbox.ports import declared_ports
from sandbox.probes import Planner
from sandbox.tensors import (
    PACKED,
    BlobFullError,
    BlobReader,
    BlobWriter,
    TensorValue,
    Value,
    blob_is_full,
    tensor_of,
)

UNAVAILABLE: Final = "reference/unavailable"
MAX_ERRORS: Final = 3
"""After so many inputs that the evaluator raised on, no more are tried: an operator fails on all of them."""


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Evaluate; return the phases in ms.

    Raises RefusedError: the evaluator cannot load the model (``reference/unavailable``), or the outputs
    are larger than the job's limit.
    """
    spec = order["spec"]
    started, cpu = time.perf_counter(), time.process_time()
    evaluator = _load(spec)
    read = time.perf_counter()
    oracle = _Oracle(evaluator, spec, BlobWriter(blobs["outputs"]), channel, cpu)
    oracle.goldens(BlobReader(blobs["inputs"]))
    evaluated = time.perf_counter()
    oracle.probes()
    ended = time.perf_counter()
    return {
        "load": (read - started) * 1000,
        "goldens": (evaluated - read) * 1000,
        "probes": (ended - evaluated) * 1000,
    }


def _load(spec: dict[str, Any]) -> Evaluator:
    path = os.path.join(str(spec.get("root", MODEL_DIR)), str(spec["model"]))
    warnings.simplefilter("ignore")
    try:
        return Evaluator(loaded(path))
    except MemoryError:
        raise
    except Exception as error:
        raise RefusedError(UNAVAILABLE, "load", _words(error), stage="load") from error


def _words(error: Exception) -> str:
    return clip(text_of(f"{type(error).__name__}: {' '.join(str(error).split())}"), 400)


class _Oracle:
    """Evaluates inputs until one more would not fit into the ordered seconds of processor time."""

    def __init__(
        self, evaluator: Evaluator, spec: dict[str, Any], writer: BlobWriter, channel: Channel, began: float
    ) -> None:
        self._evaluator = evaluator
        self._spec = spec
        self._writer = writer
        self._channel = channel
        self._end = began + float(spec["seconds"])
        self._longest = 0.0
        self._errors = 0
        self._first: dict[str, Value] = {}

    def goldens(self, reader: BlobReader) -> None:
        """Evaluate each golden set once."""
        names = [value.name for value in self._evaluator.inputs]
        for item in self._spec.get("sets") or ():
            name = str(item["name"])
            try:
                values = [(str(named["name"]), reader.fetch(named["value"])) for named in item["inputs"]]
            except (ValueError, KeyError, TypeError) as error:
                self._send(name, error=f"the input blob does not hold the set: {error}")
                continue
            feed, _ = match(values, names, self._evaluator.overridables)
            self._first = self._first or feed
            if not self._evaluate(name, feed):
                return

    def probes(self) -> None:
        """Evaluate the draws, then the bounds of the domain."""
        types = {value.name: value.type.dtype for value in self._evaluator.inputs}
        for one in self._planned():
            feed: dict[str, Value] = {name: tensor_of(array, types[name]) for name, array in one.feeds.items()}
            if not self._evaluate(one.name, feed):
                return

    def _planned(self) -> Iterator[Probe]:
        spec, dims = self._spec, self._spec.get("dims") or {}
        declared = spec.get("declared") or {}
        found = declared_ports(declared.get("inputs") or [], self._golden_arrays())
        if found is None or not spec.get("probes"):
            return
        seed, largest = str(spec.get("seed", "")), int(spec.get("max_elements", 0))
        outputs, count = declared.get("outputs") or [], int(spec.get("draws", 0))
        yield from draws(found, outputs, dims, seed=seed, count=count, max_elements=largest)
        planner = Planner(found, dims, seed=seed, max_elements=largest)
        yield from (one for one in planner.core() if one.in_domain)

    def _golden_arrays(self) -> dict[str, Any]:
        return {
            name: to_evaluator(value)
            for name, value in self._first.items()
            if isinstance(value, TensorValue) and value.dtype not in PACKED
        }

    def _evaluate(self, name: str, feed: dict[str, Value]) -> bool:
        """Evaluate one input and tell it; say whether there may be another one."""
        if self._errors >= MAX_ERRORS or time.process_time() + self._longest > self._end:
            return False
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            outputs = self._evaluator.run(feed)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - an operator may raise anything
            self._errors += 1
            self._send(name, error=_words(error))
        else:
            self._keep(name, outputs, time.perf_counter() - wall, time.process_time() - cpu)
        self._longest = max(self._longest, time.process_time() - cpu)
        return True

    def _keep(self, name: str, outputs: list[Value], wall: float, cpu: float) -> None:
        try:
            kept = [
                {"name": port.name, "value": self._writer.store(value)}
                for port, value in zip(self._evaluator.outputs, outputs, strict=True)
            ]
        except BlobFullError as error:
            raise blob_is_full(name, error) from error
        self._send(name, outputs=kept, wall_ms=wall * 1000, cpu_ms=cpu * 1000)

    def _send(self, name: str, *, error: str = "", **more: Any) -> None:
        case = {"set": clip(name), "repeat": 0, "error": text_of(error)} | more
        self._channel.send("case", case)


def preload() -> None:
    """Import each domain's operators, and build the tables that are made on first use; in a job nothing can be.

    A built-in model is loaded and evaluated, as a job does it.
    """
    from onnx.reference.ops import aionnx_preview, aionnx_preview_training, aionnxml, experimental

    for name in ("char", "fft", "linalg", "strings"):
        getattr(np, name)  # numpy imports these when they are first named
    for domain, operator in ((aionnx_preview, ""), (aionnx_preview_training, "Adam"), (aionnxml, "Scaler")):
        with contextlib.suppress(NotImplementedError, ValueError):
            domain.load_op(domain.__name__, operator, None)
    del experimental
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4])
    node = onnx.helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    graph = onnx.helper.make_graph([node], "g", [value], [result])
    made = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)])
    Evaluator(made).run({"x": tensor_of(np.zeros((1, 4), np.float32), "float32")})
