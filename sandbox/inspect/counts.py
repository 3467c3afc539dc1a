"""Messages by the field that holds them, as protobuf parsed them: the second reading beside the wire walk's.

What is checked must be what runs. The walk counts bytes, protobuf counts objects; the trusted side
compares both, field by field. Iterative, a batch of objects at a time: calls from Python cost most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import attrgetter, methodcaller
from typing import Any, Final

from sandbox.wire_schema import FIELDS

BATCH: Final = 2048

_Step = tuple[str, Callable[[Any], Any], Callable[[Any], Any] | None, str]
_PLANS: Final[dict[str, list[_Step]]] = {
    kind: [
        (f"{kind}.{name}", attrgetter(name), None if repeats else methodcaller("HasField", name), child)
        for child, name, repeats in fields.values()
        if child in FIELDS
    ]
    for kind, fields in FIELDS.items()
}
"""Kind of message to (key, how to get the field, whether a single one is there, kind of what it holds)."""


def count(model: Any) -> dict[str, int]:
    """Return how many messages each field of a parsed ModelProto holds, over the whole tree; zeros left out."""
    counts: dict[str, int] = {}
    work: list[tuple[list[_Step], Iterator[Any]]] = [(_PLANS["Model"], iter((model,)))]
    while work:
        plan, more = work[-1]
        items = list(islice(more, BATCH))
        if not items:
            work.pop()
            continue
        for key, get, present, child in plan:
            held: Iterator[Any]
            if present is None:
                fields = list(map(get, items))
                found = sum(map(len, fields))
                held = chain.from_iterable(fields)
            else:
                owners = list(filter(present, items))
                found = len(owners)
                held = map(get, owners)
            if found:
                counts[key] = counts.get(key, 0) + found
                if _PLANS[child]:
                    work.append((_PLANS[child], held))
    return counts
