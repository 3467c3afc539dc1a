"""Names in sight of one scope, and what holds for all its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.inspect.known import NOTHING, UNKNOWN, Known


class Env:
    """Names of one scope, and which node is at work; a use from an inner scope counts as one by that node."""

    __slots__ = ("last", "now", "outer", "values")

    def __init__(self, outer: Env | None) -> None:
        self.values: dict[Any, Known] = {}
        self.outer = outer
        self.now = 0
        self.last: dict[Any, int] = {}

    def get(self, name: Any) -> Known:
        """Return what is known of a name."""
        if not name:
            return NOTHING
        env: Env | None = self
        while env is not None:
            found = env.values.get(name)
            if found is not None:
                env.last[name] = env.now
                return found
            env = env.outer
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Body:
    """What holds for all nodes of one scope: imported versions, attributes of the call, nesting, place."""

    opsets: Mapping[str, int]
    binding: Mapping[str, Any]
    place: str
    calls: int = 0
