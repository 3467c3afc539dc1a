"""The ``structure`` frame: what one model can be compared by with another (see acceptd.structure_facts)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from sandbox.inspect import canonical, digests, network, selections
from sandbox.inspect.external import Bundle
from sandbox.inspect.memory import uncollected
from sandbox.inspect.scopes import name_text
from sandbox.messages import text_of
from sandbox.wire import Walk
from sandbox.wire_tensor import DTYPES, Buffer, MalformedError

MAX_WEIGHTS: Final = 4096
MAX_NAME: Final = 160
MAX_DIMS: Final = 16
OVERRIDABLE_SINCE_IR: Final = 4


def collect(model: Any, ir_version: int) -> dict[str, Any]:
    """Return the frame without the hash over weights. ``model`` is the parsed copy without large values."""
    with uncollected():
        return _collect(network.build(model), ir_version)


def _collect(net: network.Network, ir_version: int) -> dict[str, Any]:
    hasher = canonical.Hasher(net, canonical.form)
    topology = hasher.run()
    weights, count, parameters = _weights(net)
    weighted = {value for value, _ in net.main.weights}
    # Before IR 4 every initializer had to be an input too, and nobody feeds those.
    fed = [value for value in net.main.inputs if value not in weighted or ir_version >= OVERRIDABLE_SINCE_IR]
    found, shapes = selections.find(net, hasher.values, fed)
    return {
        "topology_sha256": hashlib.sha256(topology).hexdigest(),
        "graph_sha256": "",
        "parameters": parameters,
        "initializers": weights[:MAX_WEIGHTS],
        "initializer_count": count,
        "initializers_sha256": hashlib.sha256("\n".join(weights).encode("utf-8", "surrogatepass")).hexdigest(),
        "selections": found,
        "selection_shapes": shapes,
    }


def graph_sha256(buf: Buffer, walk: Walk, path: Path, bundle: Bundle) -> str:
    """Return the canonical hash with all weights in it; empty where some of them cannot be read."""
    try:
        with uncollected():
            net = network.build(digests.model_with_digests(buf, walk))
            whole = canonical.Hasher(net, digests.tensor_key(path, bundle)).run()
    except (digests.UnreadableError, MalformedError, OSError):
        return ""
    return hashlib.sha256(whole).hexdigest()


def _weights(net: network.Network) -> tuple[list[str], int, int]:
    """Return (``name dtype[dims]`` of each initializer, sorted; how many; elements of all)."""
    found = []
    parameters = 0
    for scope in net.scopes:
        for _, tensor in scope.weights:
            dense = tensor if hasattr(tensor, "raw_data") else tensor.values
            dims = list(tensor.dims)
            elements = 1
            for dim in dims:
                elements *= max(dim, 0)
            parameters += elements
            found.append(_described(name_text(dense.name), dense.data_type, dims))
    return sorted(found), len(found), min(parameters, 1 << 62)


def _described(name: str, dtype: int, dims: list[int]) -> str:
    shape = ",".join(map(str, dims[:MAX_DIMS])) + (",…" if len(dims) > MAX_DIMS else "")
    kind = DTYPES[dtype] if 0 <= dtype < len(DTYPES) else f"type {dtype}"
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: MAX_NAME - 24]}…{digest}"
    return text_of(f"{name} {kind}[{shape}]")
