"""Third and fourth phase: onnx.checker and shape inference, as attack surface that runs last.

Neither is a guard (the checker passes models that never end or crash); what the facts show to
be unsafe for them is not given to them at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import onnx
import onnx.checker
import onnx.shape_inference

from sandbox.inspect.problems import Problems
from sandbox.messages import RefusedError, clip, text_of

CHECK_BY_PATH: Final = 64 << 20
"""The checker holds a file twice while it reads it; larger models are checked without their large values."""
INFER_BYTES: Final = 512 << 20
"""protobuf messages are at most 2 GiB, and inference holds input, model, result and their text at once."""

_UNSAFE_FOR_BOTH: Final = {
    "structure/function-recursion": "local functions call themselves",
    "structure/function-expansion": "local functions expand without end",
    "structure/duplicate-function": "two local functions have one name",
    "structure/no-graph": "the model has no graph",
}
_UNSAFE_FOR_INFERENCE: Final = {
    "structure/einsum-ellipsis": "an Einsum equation never ends in it",
}


def reasons(problems: Problems, external: list[dict[str, Any]]) -> tuple[str, str]:
    """Return why the checker and why shape inference must not run; empty where they may."""
    both = next((text for code, text in _UNSAFE_FOR_BOTH.items() if code in problems), "")
    if not both and ("external-data/too-many" in problems or any(not record["inside"] for record in external)):
        both = "external data is not inside the bundle"
    inference = both or next((text for code, text in _UNSAFE_FOR_INFERENCE.items() if code in problems), "")
    return both, inference


def phase(skipped: str, work: Callable[[], None]) -> dict[str, Any]:
    """Run one phase and return its frame body. Whatever the library raises is its finding."""
    if skipped:
        return {"ok": False, "message": "", "seconds": 0.0, "skipped": skipped}
    started = time.perf_counter()
    message = ""
    try:
        work()
    except MemoryError as error:
        raise RefusedError("resources/memory-limit", "model", "out of memory in onnx") from error
    except Exception as error:  # noqa: BLE001 - the libraries raise their own, pybind11's and the standard ones
        message = clip(text_of(f"{type(error).__name__}: {error}".strip()), 2000)
    return {"ok": not message, "message": message, "seconds": time.perf_counter() - started, "skipped": ""}


def check(path: Path, size: int, stubbed: Callable[[], bytes]) -> None:
    """Run onnx.checker, by path up to CHECK_BY_PATH, else over a copy whose large tensors are empty."""
    if size <= CHECK_BY_PATH:
        onnx.checker.check_model(path)
    else:
        onnx.checker.check_model(stubbed())


def infer(model: bytes) -> None:
    """Run strict shape inference in memory; external data is never opened, values are not propagated."""
    onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=True, data_prop=False)
