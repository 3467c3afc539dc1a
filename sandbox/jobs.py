"""The closed table of job kinds, and what the warm parent must have imported before it forks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before onnxruntime is imported anywhere below

from sandbox import attack, inspect, manifest, messages, run, unpack, vectors

Body = Callable[[dict[str, Any], messages.Channel, dict[str, int]], dict[str, float]]

BODIES: dict[str, Body] = {
    "unpack": unpack.body,
    "manifest": manifest.body,
    "inspect": inspect.body,
    "vectors": vectors.body,
    "run": run.body,
}
if os.environ.get("ACCEPTD_CELL_TESTING") == "1":
    BODIES["attack"] = attack.body


def preload() -> None:
    """Touch everything that the libraries import lazily: in a job nothing can be imported any more."""
    for module in (unpack, manifest, inspect, vectors, run):
        module.preload()


def versions() -> dict[str, str]:
    """Return the versions of the libraries as imported here."""
    import numpy
    import onnx
    import onnxruntime

    return {"numpy": numpy.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
