"""Protobuf's basic forms, read as strictly as the strictest parser: numbers, tags, lengths, runs, small messages.

protobuf's implementations differ at the edges: C++ drops the high bits of a tag of five bytes, upb
refuses it; both take at most five bytes for a length. What they differ on is malformed or noted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandbox import wire_text
from sandbox.wire_schema import BYTES, DOC, ENUM, FIELDS, LAST_LENGTH, TABLES, VARINT32, Table
from sandbox.wire_text import CHUNK
from sandbox.wire_text import Buffer as Buffer
from sandbox.wire_text import Note as Note

Unknown = Callable[[str, int, int, int], None]
"""Takes the message's kind, the tag, begin and end of a field that the schema does not have."""

MAX_FLAT: Final = 256
"""Fields of an entry, an opset import or a segment: they have two."""
_BITS64: Final = (1 << 64) - 1
_VARINT: Final = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_RUNS: Final[dict[int, re.Pattern[bytes]]] = {}
_CLASSES: Final = b"012" + b"2" * 125 + b"c" * 128
"""Classes of bytes in packed numbers: 0, 1, other last bytes of a number, bytes that another follows."""
_ENDLESS: Final = b"c" * 10
_TOO_LONG: Final = b"c" * 9 + b"2"
_PADDED: Final = b"c0"


class MalformedError(Exception):
    """The bytes are no protobuf message. ``offset`` is where the walk stopped."""

    def __init__(self, code: str, offset: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset
        self.message = message


def varint(buf: Buffer, pos: int, end: int, note: Note) -> tuple[int, int]:
    """Return (value, next position). Raises MalformedError beyond ten bytes or the message's end."""
    value = shift = 0
    start = pos
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                # upb and C++ drop the high bits; other parsers refuse it.
                note("wire/number-out-of-range", start, "a number of more than 64 bits")
                value &= _BITS64
            elif byte == 0 and pos - start > 1:
                note("wire/overlong-varint", start, f"a number of {pos - start} bytes that has a shorter form")
            return value, pos
        shift += 7
        if shift > 63:
            raise MalformedError("wire/malformed", start, "a number of more than ten bytes")
    # Where nothing follows a tag, the tag is the place: the number would stand in the next message.
    at = start - 1 if start == end else start
    raise MalformedError("wire/truncated", at, "the file or a message ends inside a number")


def tag_at(buf: Buffer, pos: int, end: int, note: Note) -> tuple[int, int]:
    """Return (tag, next position). Raises MalformedError for one of more than 32 bits or five bytes."""
    tag, following = varint(buf, pos, end, note)
    if tag >> 32 or following - pos > 5:
        raise MalformedError("wire/malformed", pos, "a tag of more than 32 bits")
    return tag, following


def length_at(buf: Buffer, pos: int, end: int, note: Note) -> tuple[int, int]:
    """Return (begin, end) of the payload whose length stands at ``pos``. Raises MalformedError beyond ``end``."""
    length, begin = varint(buf, pos, end, note)
    if begin - pos > 5:
        raise MalformedError("wire/malformed", pos, "a length of more than five bytes")
    if begin + length > end:
        raise MalformedError("wire/truncated", pos, "a field reaches beyond the end of its message")
    return begin, begin + length


def signed(value: int) -> int:
    """Return the int64 that a 64-bit varint stands for."""
    return value - (1 << 64) if value >> 63 else value


def narrow(value: int, operation: int, largest: int, offset: int, note: Note) -> int:
    """Return a number of 32 bits or an enum's as protobuf keeps it; what it cuts off or drops is noted."""
    low = value & 0xFFFF_FFFF
    number = low - (1 << 32) if low >> 31 else low
    if signed(value) != number:
        note("wire/number-out-of-range", offset, f"{signed(value)} where 32 bits are kept: parsers read {number}")
    if operation == ENUM and not 0 <= number <= largest:
        note("wire/unknown-value", offset, f"{number} is none of the field's values: parsers drop it")
        return 0
    return number


def skip(buf: Buffer, wire_type: int, pos: int, end: int, note: Note) -> int:
    """Return the position after a field's value. Groups and illegal wire types are malformed."""
    start = pos
    if wire_type == 0:
        return varint(buf, pos, end, note)[1]
    if wire_type == 2:
        return length_at(buf, pos, end, note)[1]
    if wire_type in {1, 5}:
        pos += 8 if wire_type == 1 else 4
    elif wire_type in {3, 4}:
        raise MalformedError("wire/group", start, "a protobuf group, which no ONNX field is")
    else:
        raise MalformedError("wire/malformed", start, f"wire type {wire_type} does not exist")
    if pos > end:
        raise MalformedError("wire/truncated", start, "a field reaches beyond the end of its message")
    return pos


def flat(
    buf: Buffer, kind: str, start: int, stop: int, note: Note, unknown: Unknown
) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Read a message that holds texts and numbers alone: StringStringEntry, OperatorSetId, Segment.

    Returns (begin and end of each text, value of each number), by field number.
    """
    table: Table = TABLES[kind]
    texts: dict[int, tuple[int, int]] = {}
    numbers: dict[int, int] = {}
    pos = start
    seen = steps = 0
    while pos < stop:
        here = pos
        steps += 1
        if steps > MAX_FLAT:
            raise MalformedError("wire/too-many-fields", start, f"more than {MAX_FLAT} fields in {kind}")
        tag, pos = tag_at(buf, pos, stop, note)
        known = table.get(tag)
        if known is None:
            pos = skip(buf, tag & 7, pos, stop, note) if tag >> 3 else pos
            unknown(kind, tag, here, pos)
            continue
        operation, bit, largest, _ = known
        if seen & bit:
            note("wire/duplicate-field", here, f"{FIELDS[kind][tag >> 3][1]} of {kind} stands twice")
        seen |= bit
        if operation <= LAST_LENGTH:
            begin, pos = length_at(buf, pos, stop, note)
            texts[tag >> 3] = begin, pos
            if operation == DOC:
                wire_text.free(buf, begin, pos, here, note)
            elif operation != BYTES:
                wire_text.name(buf, begin, pos, here, note)
        else:
            value, pos = varint(buf, pos, stop, note)
            numbers[tag >> 3] = (
                narrow(value, operation, largest, here, note) if operation in {VARINT32, ENUM} else signed(value)
            )
    return texts, numbers


def run(buf: Buffer, tag: bytes, width: int, pos: int, end: int, note: Note) -> tuple[int, int]:
    """Take a run of equal tags with unpacked numbers; ``pos`` is at the first tag. Returns (numbers, next).

    ``width`` is 4 or 8 for fixed numbers, 0 for varints.
    """
    key = int.from_bytes(tag, "little") << 4 | width
    pattern = _RUNS.get(key)
    if pattern is None:
        item = _VARINT if width == 0 else b".{%d}" % width
        pattern = _RUNS[key] = re.compile(b"(?:" + re.escape(tag) + item + b")++", re.DOTALL)
    match = pattern.match(buf, pos, end)
    if match is None:
        # Let the strict reader say what is wrong: cut short, or more than 64 bits.
        skip(buf, tag[0] & 7, pos + len(tag), end, note)
        raise MalformedError("wire/malformed", pos, "a number that cannot be read")
    if width:
        return (match.end() - pos) // (width + len(tag)), match.end()
    # Each number and each tag ends with one byte below 0x80.
    return packed(buf, pos, match.end(), note) // 2, match.end()


def packed(buf: Buffer, start: int, stop: int, note: Note) -> int:
    """Return how many varints ``buf[start:stop]`` holds, a megabyte at a time.

    Raises MalformedError where they end inside one or hold one of more than ten bytes.
    """
    if stop > start and buf[stop - 1] > 0x7F:
        raise MalformedError("wire/truncated", start, "packed numbers end inside a number")
    found = 0
    tail = b""
    told = False
    for pos in range(start, stop, CHUNK):
        classes = buf[pos : min(pos + CHUNK, stop)].translate(_CLASSES)
        found += len(classes) - classes.count(b"c")
        classes = tail + classes
        if _ENDLESS in classes:
            raise MalformedError("wire/malformed", start, "a number of more than ten bytes")
        if not told and _TOO_LONG in classes:
            told = True
            note("wire/number-out-of-range", start, "packed numbers of which one has more than 64 bits")
        if not told and _PADDED in classes:
            told = True
            note("wire/overlong-varint", start, "packed numbers of which one has a shorter form")
        tail = classes[-10:]
    return found
