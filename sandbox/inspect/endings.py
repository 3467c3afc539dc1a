"""What each output of the main graph ends in: the last operators, for a first guess at what the values mean.

Only told when the order asks for it: an acceptance does not rest on guesses.
"""

from __future__ import annotations

from typing import Any, Final

from sandbox.inspect.functions import normal
from sandbox.inspect.scopes import name_text

MAX_OUTPUTS: Final = 256
MAX_STEPS: Final = 8
MAX_NAME: Final = 100
MAX_AXIS: Final = 64
_ATTRIBUTE_INT: Final = 2
"""``AttributeProto.INT``."""


def frames(model: Any) -> list[dict[str, Any]]:
    """Return an Ending body for each output, the first ``MAX_OUTPUTS``; see acceptd.structure_facts."""
    graph = model.graph
    # Of two nodes with one output name, which no runtime loads, the last one counts.
    producers = {name: node for node in graph.node for name in node.output if name}
    return [_ending(output.name, producers) for output in list(graph.output)[:MAX_OUTPUTS]]


def producer(model: Any) -> list[str]:
    """Return name and version of what wrote the file, by its own word."""
    return [name_text(one)[:MAX_NAME] for one in (model.producer_name, model.producer_version)]


def _ending(output: Any, producers: dict[Any, Any]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    name = output
    while len(steps) < MAX_STEPS and name in producers:
        node = producers[name]
        domain, op_type = normal(name_text(node.domain)), name_text(node.op_type)
        written = op_type if domain == "ai.onnx" else f"{domain}::{op_type}"
        steps.append({"op_type": written[: 2 * MAX_NAME], "axis": _axis(node)})
        name = next((one for one in node.input if one in producers), "")
    return {"output": name_text(output)[:1024], "steps": steps}


def _axis(node: Any) -> int | None:
    for attribute in node.attribute:
        if attribute.name == "axis" and attribute.type == _ATTRIBUTE_INT and abs(attribute.i) <= MAX_AXIS:
            return int(attribute.i)
    return None
