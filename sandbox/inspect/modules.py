"""How many modules of the source an exporter names in its nodes' metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sandbox.inspect.scopes import name_text

KEYS: Final = {"pkg.torch.onnx.name_scopes": "', '", "namespace": "/"}
"""Keys that torch's exporters write, and what separates the modules in them; the last one is the operator."""
MOST: Final = 100_000


def count(nodes: Iterable[Any]) -> int | None:
    """Return the number of distinct modules, None where no node names one."""
    found: set[str] = set()
    for node in nodes:
        for item in node.metadata_props:
            separator = KEYS.get(name_text(item.key))
            if separator is not None and len(found) < MOST:
                found.add(name_text(item.value).rpartition(separator)[0])
                break
    return len(found) or None
