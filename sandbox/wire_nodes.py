"""Nodes in the form that every writer gives them, taken as a whole: most of a large model.

That form: tag, length, then ASCII texts shorter than 128 bytes in the order of their numbers, and
attributes that the walk has seen before, byte for byte. One regular expression takes a node; the
stated length must be the one found. Whatever else it is goes through the walk, from its beginning.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sandbox.wire_read import Buffer
from sandbox.wire_schema import BYTES, FIXED32, LAST_LENGTH, NAME, RUN32, TABLES

SMALL_ATTRIBUTE: Final = 96
CACHED_ATTRIBUTES: Final = 20_000
LONGEST_ROW: Final = 512
MAX_RUN: Final = 50_000
"""Nodes taken before the walk looks at its limits again."""
PLAIN_FIELDS: Final = 5
"""What a node taken as a whole counts as."""

_LETTERS: Final = rb"[\t\n\r\x20-\x7e]"
"""The same as :data:`sandbox.wire_text.PLAIN`: names with anything else are looked at."""


def _sized(letters: bytes, longest: int) -> bytes:
    """Return a pattern for a length and as many letters; alternatives begin differently, so none is retried."""
    sizes = b"|".join(re.escape(bytes((n,))) + letters + b"{%d}" % n for n in range(longest + 1))
    return b"(?>" + sizes + b")"


_TEXT: Final = _sized(_LETTERS, 127)
_BODY: Final = (
    rb"([\x00-\x7f]|[\x80-\xff][\x01-\x07])"
    rb"(?:\x0a" + _TEXT + rb"){0,32}+(?:\x12" + _TEXT + rb"){0,32}+(?:\x1a" + _TEXT + rb")?+\x22" + _TEXT +
    rb"((?:\x2a" + _sized(b".", SMALL_ATTRIBUTE) + rb"){0,32}+)(?:\x3a" + _TEXT + rb")?+(?:\x42" + _TEXT + rb")?+"
)  # fmt: skip
"""Length (1); input*, output*, name, op_type; attributes (2); domain, overload of a NodeProto."""
_NODE: Final[Any] = re.compile(rb"[\x0a\x3a]" + _BODY, re.DOTALL)
"""Field 1 of a graph, field 7 of a function; one pattern, because compiling it is most of this module's import."""


class Seen:
    """Small attributes without messages in them that the walk went through and had nothing to note on."""

    def __init__(self) -> None:
        self.bodies: set[bytes] = set()
        self._rows: dict[bytes, int] = {b"": 0}

    def add(self, body: bytes) -> None:
        """Keep an attribute's body, if it is one of few that may be kept."""
        if len(self.bodies) < CACHED_ATTRIBUTES and _flat(body):
            self.bodies.add(body)

    def clear(self) -> None:
        """Forget all: from now on every attribute is walked."""
        self.bodies.clear()
        self._rows = {}

    def row(self, fields: bytes) -> int:
        """Return how many attributes stand in a row of whole fields; -1 if one of them was not seen before."""
        known = self._rows.get(fields)
        if known is None:
            pos = known = 0
            while pos < len(fields):
                following = pos + 2 + fields[pos + 1]
                if fields[pos + 2 : following] not in self.bodies:
                    return -1
                known += 1
                pos = following
            if len(self._rows) < CACHED_ATTRIBUTES and len(fields) <= LONGEST_ROW:
                self._rows[fields] = known
        return known


def take(buf: Buffer, here: int, end: int, tag: int, seen: Seen) -> tuple[int, int, int]:
    """Take plain nodes from ``here``, the first one's tag. Returns (next position, nodes, their attributes)."""
    nodes = attributes = 0
    row = seen.row
    # A scanner's match begins where the last one ended, or is none.
    step = _NODE.scanner(buf, here, end).match
    while nodes < MAX_RUN and (found := step()):
        begin, stop = found.span()
        length, fields = found.groups()
        size = length[0] if len(length) == 1 else (length[0] & 0x7F) | length[1] << 7
        if stop - begin - 1 - len(length) != size or buf[begin] != tag:
            break
        if fields:
            count = row(fields)
            if count < 0:
                break
            attributes += count
        nodes += 1
        here = stop
    return here, nodes, attributes


def _flat(body: bytes) -> bool:
    """Whether an attribute's body holds no message: no t, g, tensors, graphs, tp, type_protos, sparse tensors."""
    table = TABLES["Attribute"]
    pos = 0
    while pos < len(body):
        tag = body[pos]
        pos += 1
        if tag > 0x7F:
            if pos == len(body) or body[pos] > 0x7F:
                return False
            tag = tag & 0x7F | body[pos] << 7
            pos += 1
        known = table.get(tag)
        if known is None or pos == len(body):
            return False
        operation = known[0]
        if operation == NAME or BYTES <= operation <= LAST_LENGTH:
            pos += 1 + body[pos]  # a small attribute has one-byte lengths
        elif operation <= LAST_LENGTH:
            return False
        elif operation in {FIXED32, RUN32}:
            pos += 4
        else:
            while pos < len(body) and body[pos] > 0x7F:
                pos += 1
            pos += 1
    return pos == len(body)
