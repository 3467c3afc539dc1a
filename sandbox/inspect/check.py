"""Third and fourth phase: onnx.checker and shape inference, as attack surface that runs last.

Neither is a guard (the checker passes models that never end or crash); what the facts show to
be unsafe for them is not given to them at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import onnx
import onnx.checker
import onnx.shape_inference

from sandbox.inspect.problems import Problems
from sandbox.messages import RefusedError, clip, text_of

INFER_BYTES: Final = 512 << 20
"""protobuf messages are at most 2 GiB, and inference holds input, model, result and their text at once."""

REFUSED: Final = frozenset(
    {
        "structure/attribute-range", "structure/division-trap", "structure/duplicate-domain",
        "structure/duplicate-function", "structure/duplicate-name", "structure/einsum-ellipsis",
        "structure/empty-name", "structure/function-expansion", "structure/function-recursion",
        "structure/function-shadows-operator", "structure/metadata-too-large", "structure/no-graph",
        "structure/rank", "structure/sparse-indices", "structure/tensor-bytes", "structure/tensor-dims",
        "structure/tensor-dtype", "structure/tensor-two-values", "structure/too-many-inputs",
        "structure/too-many-operators", "structure/tree-cycle", "structure/tree-depth",
        "structure/unproduced-name", "external-data/too-many",
    }
)  # fmt: skip
"""What the facts refuse: no native code is called on such a model (a test compares this with the registry)."""


def reason(problems: Problems, external: list[dict[str, Any]]) -> str:
    """Return why the checker and shape inference must not run; empty where they may."""
    refused = next((code for code in sorted(REFUSED) if code in problems), "")
    if refused:
        return f"the facts refuse the model: {refused}"
    return "external data is not inside the bundle" if any(not one["inside"] for one in external) else ""


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


def check(model: Any, hollow: Iterable[Any]) -> None:
    """Run onnx.checker over the parsed copy. Tensors whose values are elsewhere (``hollow``) become empty ones.

    The facts have judged values and external records already, and so no weight is read a second time.
    """
    for tensor in hollow:
        for name in ("dims", "external_data", "data_location"):
            tensor.ClearField(name)
        tensor.dims.append(0)
    onnx.checker.check_model(model.SerializeToString())


def infer(model: bytes) -> None:
    """Run strict shape inference in memory; external data is never opened, values are not propagated."""
    onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=True, data_prop=False)
