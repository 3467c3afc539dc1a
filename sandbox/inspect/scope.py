"""One scope of a model as it is walked: a graph or a function body, and the names that it sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sandbox.inspect.functions import Body

Names = dict[Any, int]
"""Name to the node that produces it; names.GIVEN for inputs and initializers. No UTF-8: then ``bytes``."""


@dataclass(slots=True)
class Function:
    """One local function: its proto, the versions that it imports, and its place."""

    proto: Any
    opsets: dict[str, int]
    place: str


@dataclass(slots=True)
class Scope:
    """One graph or function body. ``outer`` is the scope whose names it sees, from its node ``at`` on."""

    proto: Any
    place: str
    body: Body
    outer: Scope | None
    at: int = 0
    depth: int = 0
    is_function: bool = False
    is_training: bool = False
    names: Names = field(default_factory=dict)
    produced: set[Any] | None = None
    """Outputs of all nodes, once somebody asked."""
