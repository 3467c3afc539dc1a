"""One TensorProto at the wire level: shape, type, where its values lie and how many bytes they have.

The values themselves are never read, so that a walk over gigabytes of weights touches no page of
them. Sizes and value fields are judged here because the checker does so in the main graph only: in
a function's attribute it lets a tensor with two value fields pass (measured, onnx 1.23).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sandbox import wire_text
from sandbox.wire_read import Buffer as Buffer
from sandbox.wire_read import MalformedError as MalformedError
from sandbox.wire_read import Note, Unknown, flat, length_at, narrow, packed, run, signed, tag_at
from sandbox.wire_read import skip as skip
from sandbox.wire_read import varint as varint
from sandbox.wire_schema import TABLES

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
FLAT_STEPS: Final = 12
"""What an entry in a tensor counts as."""
MAX_ENTRIES: Final = 64
"""External data has four keys. Those beyond are counted, not kept."""
MAX_ELEMENTS: Final = 2**63 - 1
_VALUE_FIELDS: Final = {
    4: "float_data", 5: "int32_data", 6: "string_data", 7: "int64_data", 9: "raw_data", 10: "double_data",
    11: "uint64_data",
}  # fmt: skip
_KNOWN: Final = TABLES["Tensor"]
_FLOATS: Final = {4: 4, 10: 8}
_VARINTS: Final = frozenset({5, 7, 11})
_PER_ELEMENT: Final = {
    **{(5, dtype): 1 for dtype in (2, 3, 4, 5, 6, 9, 10, *range(16, 21), 24)},
    **{(5, dtype): 0 for dtype in (21, 22, 23, 25, 26, 27, 28)},
    (4, 1): 1, (4, 14): 2, (7, 7): 1, (10, 11): 1, (10, 15): 2, (11, 12): 1, (11, 13): 1,
}  # fmt: skip
"""(Value field, type) to numbers per element; 0 where several elements share a number. Any other pair is wrong."""


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
    numbers: dict[int, int] = field(default_factory=dict)
    """Field number to how many numbers or strings, for each value field but raw_data."""
    steps: int = 0
    entry_count: int = 0
    metadata: int = 0
    """Entries of metadata_props, and their bytes with those of the documentation."""
    metadata_bytes: int = 0
    segments: int = 0

    @property
    def elements(self) -> int:
        """Product of the dimensions; 1 for a scalar. Saturates beyond 2**63, where no tensor can be."""
        if 0 in self.dims:
            return 0
        total = 1
        for dim in self.dims:
            total *= dim
            if abs(total) > MAX_ELEMENTS:
                return total
        return total

    def expected_bytes(self) -> int | None:
        """Return the bytes that shape and type need in raw or external form; None where that is undefined."""
        bits = BITS.get(self.dtype)
        return None if bits is None else (self.elements * bits + 7) // 8


def read(buf: Buffer, start: int, stop: int, note: Note, unknown: Unknown) -> TensorRecord:
    """Read the TensorProto in ``buf[start:stop]``; ``unknown`` gets foreign fields."""
    tensor = TensorRecord(start, stop)
    seen = 0
    pos = start
    while pos < stop:
        here = pos
        tensor.steps += 1
        if len(tensor.dims) > MAX_RANK or tensor.steps > MAX_STEPS:
            raise MalformedError("wire/too-many-fields", start, "more fields than a tensor has")
        tag = buf[pos]
        pos += 1
        if tag > 0x7F:
            tag, pos = tag_at(buf, here, stop, note)
        known = _KNOWN.get(tag)
        number = tag >> 3
        if known is None:
            pos = skip(buf, tag & 7, pos, stop, note) if number else pos
            unknown("Tensor", tag, here, pos)
            continue
        operation, bit, largest, _ = known
        if bit:
            if seen & bit:
                note("wire/duplicate-field", here, f"field {number} of a tensor stands twice")
            seen |= bit
        if tag & 7 == 2:
            begin, pos = length_at(buf, pos, stop, note)
            _payload(buf, tensor, number, here, begin, pos, note, unknown)
        elif number in _VALUE_FIELDS:
            width = _FLOATS.get(number, 0)
            count, pos = run(buf, bytes((tag,)), width, here, stop, note)
            _values(tensor, number, pos - here if not width else count * width, count)
        elif number == 1:
            # Not as a run: each must be kept, and so few are sane.
            value, pos = varint(buf, pos, stop, note)
            tensor.dims.append(signed(value))
        else:
            value, pos = varint(buf, pos, stop, note)
            value = narrow(value, operation, largest, here, note)
            if number == 2:
                tensor.dtype = value
            else:
                tensor.location = value
    judge(tensor, note)
    return tensor


def _payload(
    buf: Buffer, tensor: TensorRecord, number: int, here: int, pos: int, stop: int, note: Note, unknown: Unknown
) -> None:
    """Take a length-delimited field whose payload is ``buf[pos:stop]``."""
    if number in _VALUE_FIELDS:
        count = 1
        if number in _FLOATS:
            if (stop - pos) % _FLOATS[number]:
                raise MalformedError("wire/malformed", here, "packed numbers of a broken length")
            count = (stop - pos) // _FLOATS[number]
        elif number in _VARINTS:
            count = packed(buf, pos, stop, note)
        _values(tensor, number, stop - pos, count)
    elif number == 13:
        texts, _ = flat(buf, "StringStringEntry", pos, stop, note, unknown)
        tensor.entry_count += 1
        tensor.steps += FLAT_STEPS
        if tensor.entry_count <= MAX_ENTRIES:
            tensor.entries.append((_text(buf, texts.get(1), here, note), _text(buf, texts.get(2), here, note)))
        elif tensor.entry_count == MAX_ENTRIES + 1:
            note("external-data/duplicate-key", here, f"more than {MAX_ENTRIES} entries in one tensor")
    elif number == 1:
        while pos < stop and len(tensor.dims) <= MAX_RANK:
            value, pos = varint(buf, pos, stop, note)
            tensor.dims.append(signed(value))
    elif number == 8:
        wire_text.name(buf, pos, stop, here, note)
        tensor.name = buf[pos : min(stop, pos + wire_text.MAX_NAME)]
    elif number == 12:
        wire_text.free(buf, pos, stop, here, note)
        tensor.metadata_bytes += stop - pos
    elif number == 16:
        flat(buf, "StringStringEntry", pos, stop, note, unknown)
        tensor.metadata += 1
        tensor.steps += FLAT_STEPS
        tensor.metadata_bytes += stop - pos
    else:
        flat(buf, "Segment", pos, stop, note, unknown)
        tensor.segments += 1
        tensor.steps += FLAT_STEPS


def _values(tensor: TensorRecord, number: int, size: int, count: int) -> None:
    tensor.value_bytes[number] = tensor.value_bytes.get(number, 0) + size
    tensor.numbers[number] = tensor.numbers.get(number, 0) + count


def _text(buf: Buffer, span: tuple[int, int] | None, here: int, note: Note) -> bytes:
    if span is None:
        return b""
    start, stop = span
    if stop - start > wire_text.MAX_NAME:
        note("wire/long-name", here, f"a key or value of external data of {stop - start} bytes")
        stop = start + wire_text.MAX_NAME
    return buf[start:stop]


def judge(tensor: TensorRecord, note: Note) -> None:
    """Note what is wrong with a tensor's type, shape, value fields and number of bytes."""
    name = tensor.name[:100].decode("utf-8", "backslashreplace")
    at = tensor.start
    if not 0 < tensor.dtype < len(DTYPES):
        note(
            "structure/tensor-dtype", at, f"tensor {name!r} has element type {tensor.dtype}, which is none of ONNX"
        )
        return
    if min(tensor.dims, default=0) < 0 or (elements := tensor.elements) > MAX_ELEMENTS:
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
        needed, size, unit = elements, tensor.numbers[6], "strings"
    else:
        per_element = _PER_ELEMENT.get((number, tensor.dtype))
        if per_element is None:
            message = f"tensor {name!r} of {DTYPES[tensor.dtype]} has its values in {_VALUE_FIELDS[number]}"
            note("structure/tensor-dtype", tensor.start, message)
            return
        bits = BITS[tensor.dtype] or 0
        needed = elements * per_element if per_element else (elements * bits + 7) // 8
        size, unit = tensor.numbers[number], "numbers"
    if size != needed:
        message = f"tensor {name!r} of {elements} {DTYPES[tensor.dtype]} needs {needed} {unit} and has {size}"
        note("structure/tensor-bytes", tensor.start, message)
