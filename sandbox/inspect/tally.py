"""What a model costs, as far as arithmetic over known shapes tells: allocations and repetitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.inspect.known import SATURATED, Known
from sandbox.wire_places import short

MAX_TRIPS: Final = 256
MAX_OPERATORS: Final = 256
TOLD_FROM: Final = 1 << 16
"""Repetitions inside one operator that are worth telling; those of Loop and Scan always are."""


def times(*factors: int) -> int:
    """Return a product that saturates."""
    total = 1
    for factor in factors:
        total = min(total * max(factor, 0), SATURATED)
    return total


@dataclass(slots=True)
class Tally:
    """Cost of one graph or function body, run once: nodes, bytes folded at load, and most bytes alive at once."""

    steps: int = 0
    folded: int = 0
    peak: int = 0
    """Without what is folded."""


@dataclass(slots=True)
class Life:
    """Lives of the values of one body, in the order of its nodes."""

    born: list[tuple[int, Any, int]] = field(default_factory=list)
    """(node, name, bytes)."""
    now: int = 0
    """The node at work."""
    inner: dict[int, int] = field(default_factory=dict)
    """Node to the most bytes alive inside its subgraphs or the function that it calls."""

    def peak(self, last: dict[Any, int], end: int) -> int:
        """Return the most bytes alive at once; ``last`` says which node uses a name last."""
        change: dict[int, int] = {}
        for at, name, size in self.born:
            change[at] = change.get(at, 0) + size
            gone = last.get(name, at) + 1
            if gone <= end:
                change[gone] = change.get(gone, 0) - size
        alive = most = 0
        for at in sorted(change.keys() | self.inner.keys()):
            alive += change.get(at, 0)
            most = max(most, alive + self.inner.get(at, 0))
        return min(most, SATURATED)


class Costs:
    """Collects over all scopes what a report shows of them."""

    def __init__(self) -> None:
        self.known = 0
        self.unknown = 0
        self._largest: dict[str, tuple[int, str, str]] = {}
        """By operator type: bytes, type, place of its largest value."""
        self._trips: dict[tuple[str, str], dict[str, Any]] = {}

    def of(self, op_type: str) -> int:
        """Return the bytes of the largest value of an operator type so far; the type as it is written."""
        found = self._largest.get(op_type)
        return found[0] if found is not None else 0

    def allocation(self, size: int, op_type: str, where: str) -> None:
        """Keep the largest value of an operator type; beyond the cap the smallest of them makes room."""
        if op_type not in self._largest and len(self._largest) >= MAX_OPERATORS:
            least = min(self._largest, key=lambda name: self._largest[name])
            if self._largest[least][0] >= size:
                return
            del self._largest[least]
        self._largest[op_type] = (size, short(op_type), where)

    def trip(self, op_type: str, where: str, trips: int | None, *, certain: bool, steps: int, size: int) -> None:
        """Keep one node that repeats; of a function that is called in several ways, the costliest way."""
        one = {
            "op_type": op_type, "where": where, "trips": None if trips is None else min(trips, SATURATED),
            "certain": certain and trips is not None, "steps": None if trips is None else times(trips, steps),
            "bytes": size,
        }  # fmt: skip
        key = (op_type, where)
        before = self._trips.get(key)
        if before is None and len(self._trips) >= 4 * MAX_TRIPS:
            key = min(self._trips, key=lambda at: _weight(self._trips[at]))
            before = self._trips[key]
            if _weight(before) < _weight(one):
                del self._trips[key]
                self._trips[op_type, where] = one
        elif before is None or _weight(before) < _weight(one):
            self._trips[key] = one

    def frame(self, whole: Tally) -> dict[str, Any]:
        """Return the ``cost`` of the facts frame (see acceptd.model_facts.Cost)."""
        values = [
            {"bytes": size, "op_type": op_type, "where": where}
            for size, op_type, where in sorted(self._largest.values(), key=lambda one: (-one[0], one[1]))
        ]
        heaviest = sorted(self._trips.values(), key=_weight, reverse=True)[:MAX_TRIPS]
        return {
            "largest": values[0] if values else None,
            "by_operator": values,
            "peak_bytes": min(whole.folded + whole.peak, SATURATED),
            "known": self.known,
            "unknown": self.unknown,
            "steps": whole.steps,
            "trips": heaviest,
        }


def _weight(one: dict[str, Any]) -> tuple[bool, int]:
    return one["certain"], one["steps"] or 0


def elements(value: Known) -> int | None:
    """Return the number of elements, None where it is not known."""
    if value.shape is None or None in value.shape:
        return None
    return times(*(size or 0 for size in value.shape))


def inside(op_type: str, attributes: Any, inputs: list[Known], outputs: list[Known]) -> int:
    """Return how often an operator repeats its own inner step because a number in the model says so; 0 if not."""
    if op_type == "TfIdfVectorizer":
        return max(int(attributes.integer("max_skip_count", 0)), 0)
    if op_type in {"AveragePool", "MaxPool", "LpPool"}:
        kernel = times(*(attributes.integers("kernel_shape") or ()))
        return times(kernel, elements(outputs[0]) or 1) if outputs else 0
    if op_type == "RoiAlign":
        ratio = int(attributes.integer("sampling_ratio", 0))
        return times(ratio, ratio, elements(outputs[0]) or 1) if outputs and ratio > 0 else 0
    if op_type == "NonMaxSuppression":
        boxes, scores = (value.shape for value in (*inputs[:2], *[Known()] * 2)[:2])
        most = inputs[2].numbers if len(inputs) > 2 else None
        if boxes is None or scores is None or len(boxes) != 3 or len(scores) != 3 or None in (*boxes, *scores):
            return 0
        kept = min(int(most[0]), boxes[1] or 0) if most else 0
        return times(*(size or 0 for size in scores), kept)
    return 0


REPEATS: Final = frozenset(
    {"TfIdfVectorizer", "AveragePool", "MaxPool", "LpPool", "RoiAlign", "NonMaxSuppression"}
)
