"""Walk over a model's protobuf wire form before protobuf is touched: iterative, bounded, no weights read.

Parsers of one wire form differ: duplicate singular fields merge, unknown fields vanish, trailing
zeros pass one parser and not the other (protobuf encoding guide; measured, FACTS). The walk finds
what they could differ on, and what would exhaust them: 20 MB of empty messages take 2.7 GiB to parse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from sandbox import wire_tensor
from sandbox.messages import RefusedError
from sandbox.wire_places import places
from sandbox.wire_schema import (
    ATTRIBUTES,
    BYTES,
    DOC,
    FIELDS,
    INITIALIZERS,
    IR_VERSION,
    LAST_LENGTH,
    MESSAGE,
    METADATA,
    NAME_OF,
    NODES,
    PACKED32,
    PACKED64,
    PACKED_VARINT,
    RUN32,
    RUN64,
    RUN_VARINT,
    STRING,
    TABLES,
    TENSOR,
    VARINT,
    Table,
)
from sandbox.wire_tensor import (
    BIG_VALUES,
    EXTERNAL,
    Buffer,
    MalformedError,
    TensorRecord,
    packed,
    signed,
    skip,
    utf8,
    varint,
)

MAX_FIELDS: Final = 12_000_000
"""Fields that the walk visits, runs of unpacked numbers counted once: about two seconds of CPU."""
MAX_MESSAGES: Final = 3_000_000
"""Messages; protobuf needs up to 270 bytes for an empty one (measured)."""
MAX_PER_CODE: Final = 12
MAX_PROBLEMS: Final = 240
"""Below the 256 that the frame takes."""
SMALL_ATTRIBUTE: Final = 96
CACHED_ATTRIBUTES: Final = 20_000
SMALL_NODE: Final = 1024
PLAIN_FIELDS: Final = 5
"""What a node taken as a whole counts as."""
ATTRIBUTE_TAG: Final = 0x2A
_TEXT: Final = b"(?>" + b"|".join(re.escape(bytes((n,))) + b"[\x00-\x7f]{%d}" % n for n in range(128)) + b")"
"""A length below 128 and as many ASCII bytes; each alternative begins with another byte, so none is retried."""
_HEAD: Final = re.compile(
    b"(?:\x0a%b){0,32}+(?:\x12%b){0,32}+(?:\x1a%b)?+\x22%b" % ((_TEXT,) * 4), re.DOTALL
).match
"""input*, output*, name, op_type of a NodeProto."""
_TAIL: Final = re.compile(b"(?:\x3a%b)(?:\x42%b)?+" % ((_TEXT,) * 2), re.DOTALL).fullmatch
"""domain, overload."""
ORT_MARK: Final = b"ORTM"
"""FlatBuffers file identifier of the ORT format, at offset 4; onnxruntime guesses the parser by it."""

Around = tuple[tuple[int, int], ...]
"""Begin and end of each message around a tensor, without the model itself."""


@dataclass(slots=True)
class Walk:
    """What the walk found. ``notes`` are (code, offset, message); ``fatal`` is the note that ended it."""

    size: int
    fields: int = 0
    messages: int = 1
    depth: int = 1
    ir_version: int | None = None
    counts: list[int] = field(default_factory=lambda: [0] * 8)
    unknown_fields: int = 0
    unknown_bytes: int = 0
    metadata_bytes: int = 0
    tensors: int = 0
    initializer_bytes: int = 0
    notes: list[tuple[str, int, str]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    fatal: tuple[str, int, str] | None = None
    external: list[TensorRecord] = field(default_factory=list)
    big: list[tuple[TensorRecord, Around]] = field(default_factory=list)
    """Tensors with large values outside sparse tensors."""
    attributes: set[bytes] = field(default_factory=set)
    """Small attributes already walked; given up at the first note, so that every later note is counted."""
    caching: bool = True

    def note(self, code: str, offset: int, message: str) -> None:
        """Keep a problem, at most MAX_PER_CODE of one code."""
        self.attributes.clear()
        self.caching = False
        count = self.dropped.get(code, 0) + 1
        self.dropped[code] = count
        if count <= MAX_PER_CODE and len(self.notes) < MAX_PROBLEMS:
            self.notes.append((code, offset, message))

    def unknown(self, message: str, tag: int, start: int, stop: int) -> None:
        """Count a field that the schema of ``message`` does not have, or has with another wire type."""
        if not tag >> 3:
            raise MalformedError("wire/malformed", start, "field number 0")
        self.fields += 1
        self.unknown_fields += 1
        if self.fields > MAX_FIELDS:
            _flood(start)
        self.unknown_bytes += stop - start
        known = FIELDS[message].get(tag >> 3)
        if known:
            self.note("wire/wrong-type", start, f"{known[1]} of {message} has wire type {tag & 7}")
        else:
            self.note("wire/unknown-field", start, f"field {tag >> 3} of {message}, {stop - start} bytes")

    def tensor(self, buf: Buffer, start: int, stop: int, around: Around | None) -> TensorRecord:
        """Read one tensor; ``around`` is None inside a sparse tensor, whose indices must stay readable."""

        def unknown(tag: int, begin: int, end: int) -> None:
            self.unknown("Tensor", tag, begin, end)

        record = wire_tensor.read(buf, start, stop, self.note, unknown)
        self.tensors += 1
        self.messages += len(record.entries)
        self.fields += record.steps
        if self.fields > MAX_FIELDS or self.messages > MAX_MESSAGES:
            _flood(start)
        if record.location == EXTERNAL or record.entries:
            self.external.append(record)
        if around is not None and sum(record.value_bytes.values()) >= BIG_VALUES:
            self.big.append((record, around))
        return record


def walk(buf: Buffer, size: int, depth_limit: int) -> Walk:
    """Walk ``buf[:size]`` as a ModelProto. Never raises for bad bytes: see ``notes`` and ``fatal``."""
    result = Walk(size)
    if size == 0:
        result.fatal = ("wire/empty", 0, "the file is empty")
    elif buf[4:8] == ORT_MARK:
        result.fatal = ("wire/ort-format", 4, "the mark of the ORT format stands at offset 4")
    else:
        try:
            _walk(buf, size, depth_limit, result)
        except MalformedError as error:
            result.fatal = (error.code, error.offset, error.message)
    if result.fatal:
        result.notes.append(result.fatal)
    return result


def _flood(offset: int) -> NoReturn:
    raise MalformedError(
        "wire/too-many-fields", offset, "more fields or messages than a model within the limits has"
    )


def _walk(buf: Buffer, size: int, depth_limit: int, result: Walk) -> None:  # one loop on purpose: calls cost most
    note = result.note
    counts = result.counts
    cache = result.attributes
    table: Table = TABLES["Model"]
    sparse = TABLES["SparseTensor"]
    stack: list[tuple[int, Table, int, int]] = []
    get = table.get
    pos = begin = fields = messages = seen = metadata = 0
    end = size
    while True:
        while pos < end:
            here = pos
            tag = buf[pos]
            pos += 1
            if tag > 0x7F:
                tag, pos = varint(buf, here, end, note)
            known = get(tag)
            if known is None:
                if tag == 0 and not stack:
                    _trailing(buf, here, end)
                start, pos = here, skip(buf, tag & 7, pos, end, note) if tag >> 3 else pos
                result.unknown(NAME_OF[id(table)], tag, start, pos)
                continue
            fields += 1
            operation, bit, child, counter = known
            if bit:
                if seen & bit:
                    name = NAME_OF[id(table)]
                    note("wire/duplicate-field", here, f"{FIELDS[name][tag >> 3][1]} of {name} stands twice")
                seen |= bit
            if operation <= LAST_LENGTH:
                if pos == end:
                    raise MalformedError("wire/truncated", here, "the file or a message ends after a tag")
                stop = buf[pos]
                pos += 1
                if stop > 0x7F:
                    stop, pos = varint(buf, pos - 1, end, note)
                stop += pos
                if stop > end:
                    raise MalformedError("wire/truncated", here, "a field reaches beyond the end of its message")
                if operation == STRING:
                    text = buf[pos:stop]
                    if not text.isascii():
                        utf8(text, here, note)
                    if fields > MAX_FIELDS:
                        _flood(here)
                elif operation == MESSAGE:
                    messages += 1
                    counts[counter] += 1
                    if fields > MAX_FIELDS or messages > MAX_MESSAGES:
                        _flood(here)
                    if counter == METADATA:
                        metadata += stop - pos
                    elif counter == NODES and stop - pos <= SMALL_NODE and result.caching:
                        depth = len(stack) + 3
                        taken = _plain_node(buf, pos, stop, cache) if depth <= depth_limit else 0
                        if taken:
                            fields += PLAIN_FIELDS
                            messages += taken - 1
                            if depth > result.depth:
                                result.depth = depth
                            pos = stop
                            continue
                    elif counter == ATTRIBUTES and stop - pos <= SMALL_ATTRIBUTE and result.caching:
                        body = buf[pos:stop]
                        if body in cache and len(stack) + 2 <= depth_limit:
                            result.depth = max(result.depth, len(stack) + 2)
                            pos = stop
                            continue
                        if len(cache) < CACHED_ATTRIBUTES and _flat(body):
                            cache.add(body)
                    if pos != stop:
                        stack.append((end, table, seen, begin))
                        depth = len(stack) + 1
                        if depth > result.depth:
                            if depth > depth_limit:
                                raise MalformedError(
                                    "wire/too-deep", here, f"more than {depth_limit} levels of messages"
                                )
                            result.depth = depth
                        end, table, seen, begin = stop, child, 0, pos
                        get = table.get
                        continue
                elif operation == TENSOR:
                    messages += 1
                    counts[counter] += 1
                    if fields > MAX_FIELDS or messages > MAX_MESSAGES:
                        _flood(here)
                    around = None if table is sparse else (*((at[3], at[0]) for at in stack[1:]), (begin, end))
                    record = result.tensor(buf, pos, stop, around)
                    if counter == INITIALIZERS:
                        result.initializer_bytes += record.expected_bytes() or sum(record.value_bytes.values())
                    if len(stack) + 2 > result.depth:
                        result.depth = len(stack) + 2
                elif operation == DOC:
                    metadata += stop - pos
                    utf8(buf[pos:stop], here, note)
                elif operation == PACKED_VARINT:
                    packed(buf, pos, stop)
                elif (operation == PACKED32 and (stop - pos) & 3) or (operation == PACKED64 and (stop - pos) & 7):
                    raise MalformedError("wire/malformed", here, "packed numbers of a broken length")
                elif operation == BYTES and fields > MAX_FIELDS:
                    _flood(here)
                pos = stop
            elif operation == VARINT:
                if pos < end and buf[pos] < 0x80 and not counter:
                    pos += 1
                    continue
                value, pos = varint(buf, pos, end, note)
                if counter == IR_VERSION:
                    result.ir_version = signed(value)
            elif operation in {RUN_VARINT, RUN32, RUN64}:
                width = 0 if operation == RUN_VARINT else 4 if operation == RUN32 else 8
                pos = wire_tensor.run(buf, buf[here:pos], width, here, end)[1]
            else:
                pos += 4
                if pos > end:
                    raise MalformedError("wire/truncated", here, "the file or a message ends inside a number")
        if not stack:
            break
        end, table, seen, begin = stack.pop()
        get = table.get
    result.fields += fields
    result.messages += messages
    result.metadata_bytes += metadata


def _plain_node(buf: Buffer, pos: int, stop: int, cache: set[bytes]) -> int:
    """Return 1 + the number of attributes of a NodeProto in the form that writers give it, else 0.

    That form: ASCII texts shorter than 128 bytes in the order of their numbers, and flat attributes
    that were walked before. Whatever else it is goes through the whole walk, from its beginning.
    """
    head = _HEAD(buf, pos, stop)
    if head is None:
        return 0
    pos = head.end()
    found = 1
    while pos < stop and buf[pos] == ATTRIBUTE_TAG:
        following = pos + 2 + buf[pos + 1] if pos + 1 < stop else stop + 1
        if following > stop or buf[pos + 2 : following] not in cache:
            return 0
        pos = following
        found += 1
    return found if pos == stop or _TAIL(buf, pos, stop) else 0


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
        if known is None or known[0] in {MESSAGE, TENSOR} or pos == len(body):
            return False
        if known[0] <= LAST_LENGTH:
            pos += 1 + body[pos]  # a small attribute has one-byte lengths
        elif known[0] in {VARINT, RUN_VARINT}:
            while pos < len(body) and body[pos] > 0x7F:
                pos += 1
            pos += 1
        else:
            pos += 4
    return pos == len(body)


def _trailing(buf: Buffer, start: int, end: int) -> None:
    for pos in range(start, end, 1 << 20):
        if buf[pos : min(pos + (1 << 20), end)].strip(b"\0"):
            return
    raise MalformedError("wire/trailing-data", start, f"{end - start} zero bytes follow the model")


def frame(buf: Buffer, result: Walk) -> dict[str, Any]:
    """Return the ``wire`` frame (see acceptd.evidence.Wire). Structure notes go into the facts instead."""
    own = [item for item in result.notes if item[0].startswith("wire/")]
    _, graphs, nodes, initializers, functions, *_ = result.counts
    return {
        "bytes": result.size,
        "fields": result.fields,
        "depth": result.depth,
        "ir_version": result.ir_version,
        "graphs": graphs,
        "nodes": nodes,
        "initializers": initializers,
        "functions": functions,
        "unknown_fields": result.unknown_fields,
        "unknown_bytes": result.unknown_bytes,
        "metadata_bytes": result.metadata_bytes,
        "problems": problems(buf, result, own),
    }


def problems(buf: Buffer, result: Walk, notes: list[tuple[str, int, str]]) -> list[dict[str, str]]:
    """Return notes as Problem bodies: offsets become places, the last of a code says how many there were."""
    where = places(buf, result.size, [offset for _, offset, _ in notes])
    last = {code: index for index, (code, _, _) in enumerate(notes)}
    out = []
    for index, (code, offset, message) in enumerate(notes):
        total = result.dropped.get(code, 0)
        more = f" (one of {total})" if total > MAX_PER_CODE and last[code] == index else ""
        out.append({"code": code, "where": where[offset], "message": message + more})
    return out


def refuse(buf: Buffer, result: Walk) -> None:
    """Raise RefusedError when the walk could not come to the end of the file."""
    if result.fatal:
        code, offset, message = result.fatal
        raise RefusedError(code, places(buf, result.size, [offset])[offset], message, stage="wire")
