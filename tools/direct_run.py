"""Worker body: run one backend case directly in plain onnxruntime and say how far it came."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools import plain_runtime

RTOL, ATOL = 1e-3, 1e-7  # onnx.backend.test.loader's own defaults


def body(task: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """Return ``outcome``: ``pass``, ``load``, ``run`` or ``differ``; ``skip`` when there is no golden set."""
    warnings.simplefilter("ignore")
    case = Path(task["case"])
    rtol, atol = RTOL, ATOL
    if (case / "data.json").is_file():
        own = json.loads((case / "data.json").read_text())
        rtol, atol = own.get("rtol", rtol), own.get("atol", atol)
    stage("read")
    try:
        sets = plain_runtime.golden_sets(case)
    except Exception as error:  # noqa: BLE001 - the case is the subject; every failure is its outcome
        return {"outcome": "skip", "detail": f"golden files unreadable: {_words(error)}"}
    if not sets:
        return {"outcome": "skip", "detail": "no golden set"}
    stage("load")
    try:
        session = plain_runtime.open_session(case / "model.onnx")
    except Exception as error:  # noqa: BLE001
        return {"outcome": "load", "detail": _words(error)}
    for golden in sets:
        stage("run")
        try:
            outputs = plain_runtime.run(session, golden.feeds, packed=task.get("packed", True))
        except Exception as error:  # noqa: BLE001
            return {"outcome": "run", "detail": _words(error)}
        words = plain_runtime.difference(outputs, golden.expected, rtol, atol)
        if words:
            return {"outcome": "differ", "detail": words}
    return {"outcome": "pass", "detail": ""}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
