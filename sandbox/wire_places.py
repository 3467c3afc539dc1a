"""From an offset in a model file to a place for people: ``graph/node[12] If/then_branch/node[0] Foo``.

The walk and the tensor records keep offsets only; places are worked out for the few that end up in
a frame, in one descent over the file that enters no message without one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from sandbox.messages import text_of
from sandbox.wire_schema import FIELDS, TABLES
from sandbox.wire_tensor import Buffer, MalformedError, skip, varint

MAX_LABEL: Final = 80
MAX_STEPS: Final = 600_000
"""Fields that one descent looks at, well below a second; where a flood hides a place, its offset must do."""
LABEL_STEPS: Final = 1000
"""Fields of a message that are looked at for its name."""
MAX_PLACE: Final = 600
_MESSAGES: Final = frozenset(TABLES)
_NAME_FIELDS: Final = {"Node": 4, "Tensor": 8, "Function": 1, "Attribute": 1, "ValueInfo": 1}
_TRANSPARENT: Final = {("Attribute", "t"), ("Attribute", "g"), ("Attribute", "sparse_tensor"), ("Attribute", "tp")}
"""Singular values of an attribute: the attribute's own name says it already."""
_PLURAL: Final = {("Attribute", "tensors"), ("Attribute", "graphs"), ("Attribute", "sparse_tensors")}


def short(text: bytes | str) -> str:
    """Return hostile text in the length that a place has room for."""
    whole = text_of(text)
    return whole if len(whole) <= MAX_LABEL else whole[: MAX_LABEL - 1] + "…"


def join(prefix: str, step: str) -> str:
    """Return ``prefix/step``, cut in the middle when deep nesting makes it long."""
    place = f"{prefix}/{step}" if prefix else step
    return place if len(place) <= MAX_PLACE else f"{place[:200]}…{place[-(MAX_PLACE - 201) :]}"


def step(message: str, field: str, index: int | None, label: str) -> str:
    """Return one step of a place: ``node[3] Conv``, an attribute's name, ``graph``."""
    if message in {"Node", "Function"} and field in {"attribute", "attribute_proto"}:
        return label or f"{field}[{index}]"
    at = field if index is None else f"{field}[{index}]"
    return f"{at} {label}" if label else at


def _ignore(_code: str, _offset: int, _message: str) -> None:
    """Problems were noted by the walk already."""


def _label(buf: Buffer, kind: str, start: int, stop: int) -> str:
    wanted = _NAME_FIELDS.get(kind)
    if wanted is None:
        return ""
    pos = start
    left = LABEL_STEPS
    try:
        while pos < stop and left:
            left -= 1
            tag, pos = varint(buf, pos, stop, _ignore)
            if tag == wanted << 3 | 2:
                length, pos = varint(buf, pos, stop, _ignore)
                return short(buf[pos : min(pos + length, stop, pos + 4 * MAX_LABEL)])
            pos = skip(buf, tag & 7, pos, stop, _ignore)
    except MalformedError:
        pass
    return ""


def places(buf: Buffer, size: int, offsets: Iterable[int]) -> dict[int, str]:
    """Return the place of each offset; of bytes that cannot be read, the nearest place and the offset."""
    wanted = sorted(set(offsets))
    found = {offset: f"byte {offset}" for offset in wanted}
    work = [(0, size, "Model", "", wanted)]
    budget = [MAX_STEPS]
    while work:
        start, stop, kind, prefix, inside = work.pop()
        try:
            work += _descend(buf, start, stop, kind, prefix, inside, found, budget)
        except MalformedError:
            for offset in inside:
                if found[offset].startswith("byte ") and prefix:
                    found[offset] = f"{prefix}, byte {offset}"
    return found


def _descend(
    buf: Buffer,
    start: int,
    stop: int,
    kind: str,
    prefix: str,
    inside: list[int],
    found: dict[int, str],
    budget: list[int],
) -> list[tuple[int, int, str, str, list[int]]]:
    children = []
    counts: dict[int, int] = {}
    pos = start
    at = bisect_left(inside, start)
    while at < len(inside) and inside[at] == start and prefix:
        found[inside[at]] = prefix  # the offset of a message's body names the message itself
        at += 1
    at = bisect_left(inside, start) if not prefix else at
    while at < len(inside) and pos < stop:
        here = pos
        budget[0] -= 1
        if budget[0] < 0:
            raise MalformedError("wire/too-many-fields", pos, "a place behind a flood of fields")
        tag, pos = varint(buf, pos, stop, _ignore)
        number = tag >> 3
        field_kind, name, repeats = FIELDS[kind].get(number, ("bytes", f"field {number}", False))
        body = pos
        try:
            if tag & 7 == 2:
                length, body = varint(buf, pos, stop, _ignore)
                following = body + length
                if following > stop:
                    following = stop  # truncated: what can be read still names the place
            else:
                following = skip(buf, tag & 7, pos, stop, _ignore)
        except MalformedError:
            # Nothing behind this field can be read; whatever is wanted there is named by it.
            for offset in inside[at:]:
                found[offset] = join(prefix, f"{name}, byte {offset}")
            break
        index = counts.get(number, 0) if repeats else None
        counts[number] = counts.get(number, 0) + 1
        until = bisect_left(inside, following)
        if until > at:
            is_message = field_kind in _MESSAGES and tag & 7 == 2
            place = _place(buf, kind, prefix, name, index, field_kind if is_message else "", body, following)
            deeper = []
            for offset in inside[at:until]:
                found[offset] = place if is_message or offset == here else f"{place}, byte {offset}"
                if is_message and offset >= body:
                    deeper.append(offset)
            if deeper:
                children.append((body, following, field_kind, place, deeper))
            at = until
        pos = following
    return children


def _place(
    buf: Buffer, kind: str, prefix: str, name: str, index: int | None, child: str, start: int, stop: int
) -> str:
    if (kind, name) in _TRANSPARENT:
        return prefix
    if (kind, name) in _PLURAL:
        return f"{prefix}[{index}]"
    return join(prefix, step(kind, name, index, _label(buf, child, start, stop) if child else ""))
