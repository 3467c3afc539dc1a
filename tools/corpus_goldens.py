"""Worker body: feed one real model in plain onnxruntime, write golden sets, and say what was seen."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime as ort

from examples.bundle_text import Array, write_set
from tools import plain_runtime

SETS: Final = 3
DTYPES: Final = {"float": "float32", "double": "float64"}
WIDEST_ATOL: Final = 0.01  # what a policy's parity.max_atol allows by default


def body(task: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """Write ``test_data_set_0`` to ``_2`` below ``task["target"]`` and return the declared interface.

    Sizes of the sets are the least, the greatest and one between of each dimension. Raises nothing: a
    failure is ``{"failed": words}``.
    """
    warnings.simplefilter("ignore")
    try:
        return _make(task, stage)
    except Exception as error:  # noqa: BLE001 - a model that does not run is this tool's result, not its end
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]}


def _make(task: dict[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    source, target, recipe = Path(task["source"]), Path(task["target"]), task["recipe"]
    stage("load")
    proto = onnx.load(str(source), load_external_data=False)
    session = plain_runtime.open_session(source)
    plain = plain_runtime.open_session(source, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    inputs = [_declare(value, recipe) for value in session.get_inputs()]
    bounds = {
        dim: recipe["dims"].get(dim, (1, 2, 1))
        for value in inputs for dim in value["shape"] if isinstance(dim, str)
    }  # fmt: skip
    drawn = np.random.default_rng(7)
    spread: list[float] = [0.0] * len(session.get_outputs())
    seen: list[tuple[dict[str, int], list[Array]]] = []
    for index in range(SETS):
        sizes = {name: _size(bound, index) for name, bound in bounds.items()}
        feeds = {value["name"]: _draw(value, sizes, recipe, drawn) for value in inputs}
        stage(f"run {index}")
        outputs = plain_runtime.run(session, feeds)
        for position, (one, other) in enumerate(zip(outputs, plain_runtime.run(plain, feeds), strict=True)):
            spread[position] = max(spread[position], _excess(one, other))
        names = [value.name for value in session.get_outputs()]
        write_set(target / f"test_data_set_{index}", feeds.items(), zip(names, outputs, strict=True))
        seen.append((sizes, outputs))
    return {
        "inputs": inputs,
        "outputs": [_output(value, i, seen, spread[i]) for i, value in enumerate(session.get_outputs())],
        "dims": {name: {"min": low, "max": high} for name, (low, high, _) in bounds.items()},
        "ir_version": proto.ir_version,
        "opsets": {item.domain or "ai.onnx": item.version for item in proto.opset_import},
        "external": sorted(_external(proto)),
        "producer": f"{proto.producer_name} {proto.producer_version}".strip() or "undeclared",
    }


def _declare(value: Any, recipe: dict[str, Any]) -> dict[str, Any]:
    dtype = value.type.removeprefix("tensor(").removesuffix(")")
    shape = recipe["shapes"].get(value.name)
    if shape is None:
        shape = [1 if dim in (None, "?") else dim for dim in value.shape]
    declared = {"name": value.name, "dtype": DTYPES.get(dtype, dtype), "shape": shape}
    claimed = recipe["ranges"].get(value.name)
    return declared | {"range": list(claimed)} if claimed else declared


def _size(bound: tuple[int, int, int], index: int) -> int:
    low, high, step = bound
    return (low, high, low + (high - low) // 2 // step * step)[index % 3]


def _draw(
    value: dict[str, Any], sizes: dict[str, int], recipe: dict[str, Any], drawn: np.random.Generator
) -> Array:
    shape = [sizes[dim] if isinstance(dim, str) else dim for dim in value["shape"]]
    low, high = value.get("range") or recipe["fills"].get(value["name"], (0.0, 1.0))
    whole = value["dtype"] == "bool" or "int" in value["dtype"] or "range" in value
    if whole:
        return np.asarray(drawn.integers(int(low), int(high), shape, endpoint=True)).astype(value["dtype"])
    return np.asarray(drawn.uniform(low, high, shape)).astype(value["dtype"])


def _excess(one: Array, other: Array) -> float:
    """Return how far two runs lie apart beyond rtol 1e-3; infinite where shape or finiteness differ."""
    if one.shape != other.shape or not np.issubdtype(one.dtype, np.floating):
        return 0.0 if np.array_equal(one, other) else math.inf
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype(np.float64) - other) - 1e-3 * np.abs(other.astype(np.float64))
    return float(np.nanmax(apart, initial=0.0))


def _output(
    value: Any, position: int, seen: list[tuple[dict[str, int], list[Array]]], spread: float
) -> dict[str, Any]:
    """Declare one output: a dimension keeps its number or name only where every run kept it."""
    first = seen[0][1][position]
    named: list[int | str] = list(value.shape) if len(value.shape) == first.ndim else ["?"] * first.ndim
    shape: list[int | str] = []
    for axis, dim in enumerate(named):
        real = [outputs[position].shape[axis] for _, outputs in seen]
        kept = [sizes.get(dim) if isinstance(dim, str) else dim for sizes, _ in seen]
        shape.append(dim if real == kept else "?")
    dtype = value.type.removeprefix("tensor(").removesuffix(")")
    # Ten times what optimisation alone changed, as a power of ten: another machine has other kernels.
    atol = 1e-5 if spread <= 1e-6 else min(WIDEST_ATOL, 10.0 ** math.ceil(math.log10(10 * spread)))
    return {
        "name": value.name,
        "dtype": DTYPES.get(dtype, dtype),
        "shape": shape,
        "kind": "values",
        "tolerance": {"rtol": 1e-3, "atol": atol},
    }


def _external(proto: Any) -> set[str]:
    """Return the file names of external data of the main graph's weights and of every node's tensors."""
    found: set[str] = set()
    graphs = [proto.graph]
    while graphs:
        graph = graphs.pop()
        tensors = list(graph.initializer)
        for node in graph.node:
            for attribute in node.attribute:
                tensors += [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
                graphs += [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
        found |= {item.value for tensor in tensors for item in tensor.external_data if item.key == "location"}
    return found
