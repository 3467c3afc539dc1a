"""Walk over a model's protobuf wire form before protobuf is touched: iterative, bounded, no weights read.

Parsers of one wire form differ: duplicate singular fields merge, unknown fields vanish, trailing
zeros pass one parser and not the other (protobuf encoding guide; measured, FACTS). The walk finds
what they could differ on, and what would exhaust them: 20 MB of empty messages take 2.7 GiB to parse.
"""

from __future__ import annotations

from typing import Final

from sandbox import wire_result, wire_text
from sandbox.wire_nodes import PLAIN_FIELDS, SMALL_ATTRIBUTE, take
from sandbox.wire_read import Buffer, MalformedError, narrow, packed, run, signed, skip, tag_at, varint
from sandbox.wire_result import Walk as Walk
from sandbox.wire_result import flood
from sandbox.wire_result import frame as frame
from sandbox.wire_result import problems as problems
from sandbox.wire_result import refuse as refuse
from sandbox.wire_schema import (
    ATTRIBUTE,
    DOC,
    ENTRY,
    ENUM,
    FIELDS,
    FIXED32,
    INITIALIZERS,
    IR,
    LAST_LENGTH,
    MESSAGE,
    NAME,
    NAME_OF,
    NODE,
    OPSET,
    PACKED32,
    PACKED64,
    PACKED_VARINT,
    RUN32,
    RUN64,
    SLOT,
    TABLES,
    TENSOR,
    VARINT,
    VARINT32,
    Table,
)
from sandbox.wire_text import PLAIN

ORT_MARK: Final = b"ORTM"
"""FlatBuffers file identifier of the ORT format, at offset 4; onnxruntime guesses the parser by it."""
SHORT: Final = 1 << 12
TENSOR_FIELDS: Final = 24
ENTRY_FIELDS: Final = 4
"""What a tensor, and an entry of two texts, count as: the time that it takes to read one."""
LONGEST_WAIT: Final = 63
"""Nodes that are walked one by one after one that was not plain, doubled while they are not."""
_NODE_ATTRIBUTES: Final = SLOT["Node.attribute"]


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


def _deeper(result: Walk, depth: int, limit: int, here: int) -> None:
    if depth > limit:
        raise MalformedError("wire/too-deep", here, f"more than {limit} levels of messages")
    result.depth = depth


def _walk(buf: Buffer, size: int, depth_limit: int, result: Walk) -> None:  # one loop on purpose: calls cost most
    note = result.note
    counts = result.counts
    seen_attributes = result.seen
    most_fields, most_messages = wire_result.MAX_FIELDS, wire_result.MAX_MESSAGES
    table: Table = TABLES["Model"]
    sparse = TABLES["SparseTensor"]
    stack: list[tuple[int, Table, int, int]] = []
    get = table.get
    pos = begin = fields = messages = seen = metadata = missed = wait = 0
    end = size
    try:
        while True:
            while pos < end:
                here = pos
                tag = buf[pos]
                pos += 1
                if tag > 0x7F:
                    tag, pos = tag_at(buf, here, end, note)
                known = get(tag)
                if known is None:
                    if tag == 0 and not stack:
                        _trailing(buf, here, end)
                    pos = skip(buf, tag & 7, pos, end, note) if tag >> 3 else pos
                    result.unknown(NAME_OF[id(table)], tag, here, pos)
                    continue
                fields += 1
                if fields > most_fields:
                    flood(here)
                operation, bit, child, slot = known
                if bit:
                    if seen & bit:
                        name = NAME_OF[id(table)]
                        note("wire/duplicate-field", here, f"{FIELDS[name][tag >> 3][1]} of {name} stands twice")
                    seen |= bit
                if operation <= LAST_LENGTH:
                    if operation == NODE and wait:
                        wait -= 1
                    elif operation == NODE and result.caching and len(stack) + 3 <= depth_limit:
                        pos, nodes, attributes = take(buf, here, end, tag, seen_attributes)
                        if nodes:
                            missed = 0
                            counts[slot] += nodes
                            counts[_NODE_ATTRIBUTES] += attributes
                            fields += nodes * PLAIN_FIELDS
                            messages += nodes + attributes
                            if messages > most_messages:
                                flood(here)
                            result.depth = max(result.depth, len(stack) + 2 + (attributes > 0))
                            continue
                        pos = here + 1
                        missed = wait = min(2 * missed + 1, LONGEST_WAIT)
                    if pos == end:
                        raise MalformedError("wire/truncated", here, "the file or a message ends after a tag")
                    stop = buf[pos]
                    pos += 1
                    if stop > 0x7F:
                        stop, following = varint(buf, pos - 1, end, note)
                        if following - pos > 4:
                            raise MalformedError("wire/malformed", here, "a length of more than five bytes")
                        pos = following
                    stop += pos
                    if stop > end:
                        raise MalformedError(
                            "wire/truncated", here, "a field reaches beyond the end of its message"
                        )
                    if operation == NAME:
                        if stop - pos > SHORT or buf[pos:stop].translate(None, PLAIN):
                            wire_text.name(buf, pos, stop, here, note)
                    elif operation <= OPSET:
                        messages += 1
                        counts[slot] += 1
                        if messages > most_messages:
                            flood(here)
                        depth = len(stack) + 2
                        if depth > result.depth:
                            _deeper(result, depth, depth_limit, here)
                        if operation <= MESSAGE:
                            if operation == ATTRIBUTE and stop - pos <= SMALL_ATTRIBUTE and result.caching:
                                body = buf[pos:stop]
                                if body in seen_attributes.bodies:
                                    pos = stop
                                    continue
                                seen_attributes.add(body)
                            if pos != stop:
                                stack.append((end, table, seen, begin))
                                end, table, seen, begin = stop, child, 0, pos
                                get = table.get
                            continue
                        if operation == TENSOR:
                            fields += TENSOR_FIELDS
                            around = (
                                None if table is sparse else (*((at[3], at[0]) for at in stack[1:]), (begin, end))
                            )
                            record = result.tensor(buf, pos, stop, around)
                            if slot in INITIALIZERS:
                                result.initializer_bytes += record.expected_bytes() or sum(
                                    record.value_bytes.values()
                                )
                            if record.entry_count or record.metadata or record.segments:
                                _deeper(result, max(result.depth, depth + 1), depth_limit, here)
                        elif operation == ENTRY:
                            fields += ENTRY_FIELDS
                            result.entry(buf, slot, pos, stop)
                        else:
                            fields += ENTRY_FIELDS
                            result.opset(buf, pos, stop)
                    elif operation == DOC:
                        metadata += stop - pos
                        wire_text.free(buf, pos, stop, here, note)
                    elif operation == PACKED_VARINT:
                        packed(buf, pos, stop, note)
                    elif (operation == PACKED32 and (stop - pos) & 3) or (
                        operation == PACKED64 and (stop - pos) & 7
                    ):
                        raise MalformedError("wire/malformed", here, "packed numbers of a broken length")
                    pos = stop
                elif operation == VARINT:
                    if pos < end and buf[pos] < 0x80:
                        pos += 1
                        continue
                    pos = varint(buf, pos, end, note)[1]
                elif operation in {VARINT32, ENUM, IR}:
                    value, pos = varint(buf, pos, end, note)
                    if operation == IR:
                        result.ir_version = signed(value)
                    else:
                        narrow(value, operation, child, here, note)
                elif operation == FIXED32:
                    pos += 4
                    if pos > end:
                        raise MalformedError("wire/truncated", here, "the file or a message ends inside a number")
                else:
                    width = 4 if operation == RUN32 else 8 if operation == RUN64 else 0
                    pos = run(buf, buf[here:pos], width, here, end, note)[1]
            if not stack:
                break
            end, table, seen, begin = stack.pop()
            get = table.get
    finally:
        result.fields += fields
        result.messages += messages
        result.metadata_bytes += metadata


def _trailing(buf: Buffer, start: int, end: int) -> None:
    for pos in range(start, end, 1 << 20):
        if buf[pos : min(pos + (1 << 20), end)].strip(b"\0"):
            return
    raise MalformedError("wire/trailing-data", start, f"{end - start} zero bytes follow the model")
