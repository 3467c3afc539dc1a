"""One node as it is looked at, with what is known of what goes in and comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.inspect.known import Attributes, Known
from sandbox.wire_places import join, short, step


@dataclass(slots=True)
class Look:
    """One node with what is known of its inputs and outputs. ``version`` is the opset of its domain."""

    domain: str
    op_type: str
    version: int | None
    attributes: Attributes
    inputs: list[Known]
    outputs: list[Known]
    node: Any
    scope: str
    index: int

    @property
    def place(self) -> str:
        """Where the node stands."""
        return join(self.scope, step("Graph", "node", self.index, short(self.op_type)))

    def input(self, index: int) -> Known | None:
        """Return what is known of an input, None where the node does not have it."""
        return self.inputs[index] if index < len(self.inputs) and self.node.input[index] else None
