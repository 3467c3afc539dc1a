"""One TensorProto at the wire level: shape, type, where its values lie and how many bytes they have.

The values themselves are never read, so that a walk over gigabytes of weights touches no page of
them. Sizes and value fields are judged here because the checker does so in the main graph only: in
a function's attribute it lets a tensor with two value fields pass (measured, onnx 1.23).
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sandbox.wire_schema import TABLES

Buffer = bytes | mmap.mmap
Note = Callable[[str, int, str], None]
"""Takes a code, the offset of the place in the file, and a message."""

BITS: Final[dict[int, int | None]] = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 8: None, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128,
    16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2, 27: 6, 28: 6,
}  # fmt: skip
"""Bits of one element in ``raw_data`` by TensorProto.DataType; None for strings."""

DTYPES: Final[tuple[str, ...]] = (
    "undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16",
    "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
    "float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2",
    "float6e2m3", "float6e3m2",
)  # fmt: skip
"""TensorProto.DataType to the name that manifests and evidence use."""

BIG_VALUES: Final = 4096
"""Values of at least this many bytes are left out of the copies for protobuf (:mod:`sandbox.inspect.stubs`)."""

STRING_TYPE: Final = 8
EXTERNAL: Final = 1
MAX_RANK: Final = 4096
MAX_STEPS: Final = 12_000_000
MAX_ELEMENTS: Final = 2**63 - 1
_VARINT: Final = rb"(?:[\x00-\x7f]|[\x80-\xff]{1,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"
_TOO_LONG: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]")
"""A varint of more than 64 bits, anywhere in packed numbers."""
RUNS: Final[dict[int, re.Pattern[bytes]]] = {}
_VALUE_FIELDS: Final = {
    4: "float_data", 5: "int32_data", 6: "string_data", 7: "int64_data", 9: "raw_data", 10: "double_data",
    11: "uint64_data",
}  # fmt: skip
_KNOWN: Final = TABLES["Tensor"]
_FLOATS: Final = {4: 4, 10: 8}
_VARINTS: Final = frozenset({5, 7, 11})
_FLOATS_PER_ELEMENT: Final = {(4, 1): 1, (4, 14): 2, (10, 11): 1, (10, 15): 2}


class MalformedError(Exception):
    """The bytes are no protobuf message. ``offset`` is where the walk stopped."""

    def __init__(self, code: str, offset: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset
        self.message = message


@dataclass(slots=True)
class TensorRecord:
    """What the wire says of one tensor. ``start`` and ``stop`` bound its message in the file."""

    start: int
    stop: int
    name: bytes = b""
    dims: list[int] = field(default_factory=list)
    dtype: int = 0
    location: int = 0
    entries: list[tuple[bytes, bytes]] = field(default_factory=list)
    value_bytes: dict[int, int] = field(default_factory=dict)
    """Field number to bytes of payload, for each value field that is there."""
    strings: int = 0
    steps: int = 0

    @property
    def elements(self) -> int:
        """Product of the dimensions; 1 for a scalar."""
        total = 1
        for dim in self.dims:
            total *= dim
        return total

    def expected_bytes(self) -> int | None:
        """Return the bytes that shape and type need in raw or external form; None where that is undefined."""
        bits = BITS.get(self.dtype)
        return None if bits is None else (self.elements * bits + 7) // 8


def varint(buf: Buffer, pos: int, end: int, note: Note) -> tuple[int, int]:
    """Return (value, next position). Raises MalformedError beyond ten bytes or the message's end."""
    value = shift = 0
    start = pos
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64 or (byte == 0 and pos - start > 1):
                note("wire/overlong-varint", start, f"a number of {pos - start} bytes that has a shorter form")
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        shift += 7
        if shift > 63:
            raise MalformedError("wire/malformed", start, "a number of more than ten bytes")
    raise MalformedError("wire/truncated", start, "the file or a message ends inside a number")


def signed(value: int) -> int:
    """Return the int64 that a 64-bit varint stands for."""
    return value - (1 << 64) if value >> 63 else value


def skip(buf: Buffer, wire_type: int, pos: int, end: int, note: Note) -> int:
    """Return the position after a field's value. Groups and illegal wire types are malformed."""
    start = pos
    if wire_type == 0:
        pos = varint(buf, pos, end, note)[1]
    elif wire_type == 2:
        length, pos = varint(buf, pos, end, note)
        pos += length
    elif wire_type in {1, 5}:
        pos += 8 if wire_type == 1 else 4
    elif wire_type in {3, 4}:
        raise MalformedError("wire/group", start, "a protobuf group")
    else:
        raise MalformedError("wire/malformed", start, f"wire type {wire_type} does not exist")
    if pos > end:
        raise MalformedError("wire/truncated", start, "a field reaches beyond the end of its message")
    return pos


def entry(buf: Buffer, start: int, stop: int, note: Note) -> tuple[bytes, bytes]:
    """Return key and value of a StringStringEntryProto."""
    found = [b"", b""]
    seen = 0
    pos = start
    while pos < stop:
        here = pos
        tag, pos = varint(buf, pos, stop, note)
        if tag in {0x0A, 0x12}:
            length, pos = varint(buf, pos, stop, note)
            if pos + length > stop:
                raise MalformedError("wire/truncated", here, "a text reaches beyond the end of its message")
            bit = tag >> 3
            if seen & bit:
                note("wire/duplicate-field", here, "a key or value stands twice in one entry")
            seen |= bit
            found[bit - 1] = text = buf[pos : pos + length]
            if not text.isascii():
                utf8(text, here, note)
            pos += length
        else:
            note("wire/unknown-field", here, f"field {tag >> 3} of an entry")
            if not tag >> 3:
                raise MalformedError("wire/malformed", here, "field number 0")
            pos = skip(buf, tag & 7, pos, stop, note)
    return found[0], found[1]


def utf8(text: bytes, offset: int, note: Note) -> None:
    """Note text that is not valid UTF-8: protobuf's implementations read different strings from it."""
    try:
        text.decode()
    except UnicodeDecodeError:
        note("wire/invalid-utf8", offset, "text that is not valid UTF-8")


def run(buf: Buffer, tag: bytes, width: int, pos: int, end: int) -> tuple[int, int]:
    """Take a run of equal tags with unpacked numbers; ``pos`` is at the first tag. Returns (count or bytes, next).

    ``width`` is 4 or 8 for fixed numbers, 0 for varints (then the first item is bytes, tags included).
    """
    key = int.from_bytes(tag, "little") << 4 | width
    pattern = RUNS.get(key)
    if pattern is None:
        item = _VARINT if width == 0 else b".{%d}" % width
        pattern = RUNS[key] = re.compile(b"(?:" + re.escape(tag) + item + b")+", re.DOTALL)
    match = pattern.match(buf, pos, end)
    if match is None:
        raise MalformedError("wire/truncated", pos, "the file or a message ends inside a number")
    size = match.end() - pos
    return (size if width == 0 else size // (width + len(tag))), match.end()


def packed(buf: Buffer, start: int, stop: int) -> None:
    """Raise MalformedError for packed varints that end inside one or hold one of more than 64 bits."""
    if stop > start and buf[stop - 1] > 0x7F:
        raise MalformedError("wire/truncated", start, "packed numbers end inside a number")
    if _TOO_LONG.search(buf, start, stop):
        raise MalformedError("wire/malformed", start, "a number of more than 64 bits")


def read(buf: Buffer, start: int, stop: int, note: Note, unknown: Callable[[int, int, int], None]) -> TensorRecord:
    """Read the TensorProto in ``buf[start:stop]``; ``unknown(tag, start, stop)`` gets foreign fields."""
    tensor = TensorRecord(start, stop)
    seen = 0
    pos = start
    while pos < stop:
        here = pos
        tag = buf[pos]
        pos += 1
        tensor.steps += 1
        if len(tensor.dims) > MAX_RANK or tensor.steps > MAX_STEPS:
            raise MalformedError("wire/too-many-fields", start, "more fields than a tensor has")
        if tag > 0x7F:
            tag, pos = varint(buf, here, stop, note)
        known = _KNOWN.get(tag)
        number = tag >> 3
        if known is None:
            pos = skip(buf, tag & 7, pos, stop, note) if number else pos
            unknown(tag, here, pos)
            continue
        bit = known[1]
        if bit:
            if seen & bit:
                note("wire/duplicate-field", here, f"field {number} of a tensor stands twice")
            seen |= bit
        wire_type = tag & 7
        if wire_type == 2:
            length, pos = varint(buf, pos, stop, note)
            following = pos + length
            if following > stop:
                raise MalformedError("wire/truncated", here, "a tensor's field reaches beyond the tensor")
            if number in _VALUE_FIELDS:
                if number in _FLOATS and length % _FLOATS[number]:
                    raise MalformedError("wire/malformed", here, "packed numbers of a broken length")
                if number in _VARINTS:
                    packed(buf, pos, following)
                tensor.value_bytes[number] = tensor.value_bytes.get(number, 0) + length
                tensor.strings += number == 6
            elif number == 13:
                tensor.entries.append(entry(buf, pos, following, note))
            elif number == 1:
                while pos < following and len(tensor.dims) <= MAX_RANK:
                    value, pos = varint(buf, pos, following, note)
                    tensor.dims.append(signed(value))
            elif number in {8, 12}:
                text = buf[pos:following]
                if not text.isascii():
                    utf8(text, here, note)
                if number == 8:
                    tensor.name = text
            elif number == 16:
                entry(buf, pos, following, note)
            pos = following
        elif number in _VALUE_FIELDS:
            width = _FLOATS.get(number, 0)
            size, pos = run(buf, bytes((tag,)), width, here, stop)
            tensor.value_bytes[number] = tensor.value_bytes.get(number, 0) + size * (width or 1)
        else:
            value, pos = varint(buf, pos, stop, note)
            if number == 1:
                tensor.dims.append(signed(value))
            elif number == 2:
                tensor.dtype = value
            elif number == 14:
                tensor.location = value
    judge(tensor, note)
    return tensor


def judge(tensor: TensorRecord, note: Note) -> None:
    """Note what is wrong with a tensor's type, shape, value fields and number of bytes."""
    name = tensor.name[:100].decode("utf-8", "backslashreplace")
    at = tensor.start
    if not 0 < tensor.dtype < len(DTYPES):
        note("structure/tensor-dtype", at, f"tensor {name!r} has data type {tensor.dtype}")
        return
    if any(dim < 0 for dim in tensor.dims) or (elements := tensor.elements) > MAX_ELEMENTS:
        note("structure/tensor-dims", at, f"tensor {name!r} has dimensions {tensor.dims[:16]}")
        return
    fields = [_VALUE_FIELDS[number] for number, size in tensor.value_bytes.items() if size or number != 9]
    if tensor.location == EXTERNAL:
        if fields:
            note("structure/tensor-two-values", at, f"tensor {name!r} has external data and {fields[0]}")
        return
    if len(fields) > 1:
        note("structure/tensor-two-values", at, f"tensor {name!r} has {' and '.join(fields)}")
    elif fields:
        _judge_size(tensor, elements, name, note)
    elif elements:
        note("structure/tensor-bytes", at, f"tensor {name!r} of {elements} elements has no data")


def _judge_size(tensor: TensorRecord, elements: int, name: str, note: Note) -> None:
    (number, size), *_ = [item for item in tensor.value_bytes.items() if item[1] or item[0] != 9]
    needed: int | None
    unit = "bytes"
    if number == 9:
        needed = tensor.expected_bytes()
        if needed is None:
            note("structure/tensor-bytes", tensor.start, f"string tensor {name!r} has raw data")
            return
    elif number == 6:
        needed, size, unit = elements, tensor.strings, "strings"
    else:
        per_element = _FLOATS_PER_ELEMENT.get((number, tensor.dtype))
        if per_element is None:
            return  # integers in varints have no fixed size; the checker knows which field a type may use
        needed = elements * per_element * _FLOATS[number]
    if size != needed:
        message = f"tensor {name!r} of {elements} {DTYPES[tensor.dtype]} needs {needed} {unit} and has {size}"
        note("structure/tensor-bytes", tensor.start, message)
