"""What the wire walk found: counts, notes, records, within bounds whatever the file holds; and its frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from sandbox import wire_tensor
from sandbox.messages import RefusedError, text_of
from sandbox.wire_nodes import Seen
from sandbox.wire_places import places
from sandbox.wire_read import Buffer, MalformedError, flat
from sandbox.wire_schema import FIELDS, FUNCTIONS, GRAPHS, INITIALIZERS, METADATA, NODES, SLOT, SLOTS
from sandbox.wire_tensor import BIG_VALUES, EXTERNAL, TensorRecord
from sandbox.wire_text import MAX_NAME

MAX_FIELDS: Final = 12_000_000
"""Fields that the walk visits, about three seconds of CPU: a run of unpacked numbers is one, a tensor is many."""
MAX_MESSAGES: Final = 3_000_000
"""Messages; protobuf needs up to 270 bytes for an empty one (measured)."""
MAX_EXTERNAL: Final = 20_001
"""Records kept: one more than a report holds."""
MAX_BIG: Final = 100_000
MAX_OPSETS: Final = 1000
MAX_PER_CODE: Final = 12
MAX_NOTES: Final = 100_000
"""Problems of one code, of which the walk ends: each costs as much as ten fields."""
MAX_PROBLEMS: Final = 240
"""Below the 256 that the frame takes."""

Around = tuple[tuple[int, int], ...]
"""Begin and end of each message around a tensor, without the model itself."""

_EXTERNAL_DATA: Final = SLOT["Tensor.external_data"]
_TENSOR_METADATA: Final = SLOT["Tensor.metadata_props"]
_SEGMENT: Final = SLOT["Tensor.segment"]


@dataclass(slots=True)
class Walk:
    """What the walk found. ``notes`` are (code, offset, message); ``fatal`` is the note that ended it."""

    size: int
    fields: int = 0
    messages: int = 1
    depth: int = 1
    ir_version: int | None = None
    counts: list[int] = field(default_factory=lambda: [0] * len(SLOTS))
    """Messages by the field that holds them: see :data:`sandbox.wire_schema.SLOTS`."""
    unknown_fields: int = 0
    unknown_bytes: int = 0
    metadata_bytes: int = 0
    initializer_bytes: int = 0
    notes: list[tuple[str, int, str]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    fatal: tuple[str, int, str] | None = None
    external: list[TensorRecord] = field(default_factory=list)
    """Tensors with external data or entries of it, the first MAX_EXTERNAL of ``external_count``."""
    external_count: int = 0
    big: list[tuple[TensorRecord, Around]] = field(default_factory=list)
    """Tensors with large values outside sparse tensors."""
    opsets: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """(Domain, version) to the place of the first import of it, in whatever scope; MAX_OPSETS at most."""
    opset_count: int = 0
    seen: Seen = field(default_factory=Seen)
    caching: bool = True
    """Given up at the first note, so that every later one is counted."""

    def total(self, slots: frozenset[int]) -> int:
        """Return how many messages the slots count together."""
        return sum(self.counts[slot] for slot in slots)

    @property
    def graphs(self) -> int:
        """Graphs in every place: main, training, subgraphs."""
        return self.total(GRAPHS)

    @property
    def nodes(self) -> int:
        """Nodes in all graphs and functions."""
        return self.total(NODES)

    @property
    def initializers(self) -> int:
        """Initializers in all graphs, sparse ones too."""
        return self.total(INITIALIZERS)

    @property
    def functions(self) -> int:
        """Local functions."""
        return self.total(FUNCTIONS)

    def note(self, code: str, offset: int, message: str) -> None:
        """Keep a problem, at most MAX_PER_CODE of one code."""
        self.seen.clear()
        self.caching = False
        count = self.dropped.get(code, 0) + 1
        self.dropped[code] = count
        if count > MAX_NOTES:
            flood(offset)
        if count <= MAX_PER_CODE and len(self.notes) < MAX_PROBLEMS:
            self.notes.append((code, offset, message))

    def unknown(self, message: str, tag: int, start: int, stop: int) -> None:
        """Count a field that the schema of ``message`` does not have, or has with another wire type."""
        if not tag >> 3:
            raise MalformedError("wire/malformed", start, "field number 0")
        self.fields += 1
        self.unknown_fields += 1
        if self.fields > MAX_FIELDS:
            flood(start)
        self.unknown_bytes += stop - start
        known = FIELDS[message].get(tag >> 3)
        if known:
            self.note("wire/wrong-type", start, f"{known[1]} of {message} has wire type {tag & 7}")
        else:
            self.note("wire/unknown-field", start, f"field {tag >> 3} of {message}, {stop - start} bytes")

    def tensor(self, buf: Buffer, start: int, stop: int, around: Around | None) -> TensorRecord:
        """Read one tensor; ``around`` is None inside a sparse tensor, whose indices must stay readable."""
        record = wire_tensor.read(buf, start, stop, self.note, self.unknown)
        counts = self.counts
        counts[_EXTERNAL_DATA] += record.entry_count
        counts[_TENSOR_METADATA] += record.metadata
        counts[_SEGMENT] += record.segments
        self.metadata_bytes += record.metadata_bytes
        self.messages += record.entry_count + record.metadata + record.segments
        self.fields += record.steps
        if self.fields > MAX_FIELDS or self.messages > MAX_MESSAGES or len(self.big) > MAX_BIG:
            flood(start)
        if record.location == EXTERNAL or record.entry_count:
            self.external_count += 1
            if self.external_count <= MAX_EXTERNAL:
                self.external.append(record)
        if around is not None and sum(record.value_bytes.values()) >= BIG_VALUES:
            self.big.append((record, around))
        return record

    def entry(self, buf: Buffer, slot: int, start: int, stop: int) -> None:
        """Read a StringStringEntryProto; those of ``metadata_props`` count as metadata, whole."""
        flat(buf, "StringStringEntry", start, stop, self.note, self.unknown)
        if slot in METADATA:
            self.metadata_bytes += stop - start

    def opset(self, buf: Buffer, start: int, stop: int) -> None:
        """Read an OperatorSetIdProto."""
        texts, numbers = flat(buf, "OperatorSetId", start, stop, self.note, self.unknown)
        begin, end = texts.get(1, (0, 0))
        self.opset_count += 1
        if len(self.opsets) < MAX_OPSETS:
            self.opsets.setdefault((buf[begin : min(end, begin + MAX_NAME)], numbers.get(2, 0)), start)


def flood(offset: int) -> NoReturn:
    """Raise for a file that would exhaust a parser."""
    raise MalformedError(
        "wire/too-many-fields", offset, "more fields or messages than a model within the limits has"
    )


def frame(buf: Buffer, result: Walk) -> dict[str, Any]:
    """Return the ``wire`` frame (see acceptd.evidence.Wire). Structure notes go into the facts instead."""
    own = [item for item in result.notes if item[0].startswith("wire/")]
    where = places(buf, result.size, result.opsets.values())
    return {
        "bytes": result.size,
        "fields": result.fields,
        "messages": result.messages,
        "depth": result.depth,
        "ir_version": result.ir_version,
        "graphs": result.graphs,
        "nodes": result.nodes,
        "initializers": result.initializers,
        "functions": result.functions,
        "counts": {name: count for name, count in zip(SLOTS, result.counts, strict=True) if count},
        "opsets": [
            {"domain": text_of(domain), "version": version, "where": where[offset]}
            for (domain, version), offset in result.opsets.items()
        ],
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
