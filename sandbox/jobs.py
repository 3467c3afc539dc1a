"""The closed table of job kinds by role, and what the warm parent must have imported before it forks."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before onnxruntime is imported anywhere below

from sandbox import messages

Body = Callable[[dict[str, Any], messages.Channel, dict[str, int]], dict[str, float]]

ROLES: Final = {
    "all": ("unpack", "manifest", "signature", "inspect", "assets", "vectors", "run", "reference"),
    "run": ("run",),
}
"""Job kinds by role: a profile's own interpreter only runs, and need not have what the others import."""

BODIES: dict[str, Body] = {}


def load(role: str) -> None:
    """Fill :data:`BODIES` for a role, and touch everything that the libraries import lazily.

    In a job nothing can be imported any more.
    """
    started = time.perf_counter()
    modules = {kind: importlib.import_module(f"sandbox.{kind}") for kind in ROLES[role]}
    if os.environ.get("ACCEPTD_CELL_TESTING") == "1":
        BODIES["attack"] = importlib.import_module("sandbox.attack").body
    for kind, module in modules.items():
        module.preload()
        BODIES[kind] = module.body
    importlib.import_module("sandbox.timing").note_libraries(time.perf_counter() - started)
