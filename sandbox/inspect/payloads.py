"""What begins like a program, an archive or a pickle where a model only has numbers and descriptions.

Only beginnings are looked at, so this costs nothing and is no scanner: it tells the payload that
nobody took the trouble to disguise. Each mark is long enough that weights do not begin so by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sandbox import wire
from sandbox.inspect.problems import Problems
from sandbox.inspect.scopes import name_text
from sandbox.wire_places import places
from sandbox.wire_tensor import Buffer, TensorRecord, skip, varint

HEAD: Final = 16
MAX_TOLD: Final = 32
_RAW_DATA: Final = 9
_MARKS: Final = (
    (b"\x7fELF", "an ELF program"),
    (b"MZ\x90\x00\x03\x00\x00\x00", "a Windows program"),
    (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", "a macOS program"),
    (b"#!/", "a script"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"f0VMR", "an ELF program in base64"),
    (b"TVqQA", "a Windows program in base64"),
    (b"UEsDB", "a zip archive in base64"),
    (b"gASV", "a pickle in base64"),
)

_SYSTEMS: Final = frozenset({*range(14), 255})
"""Where a gzip archive may say that it was made (RFC 1952, 2.3.1)."""


def mark(head: bytes) -> str:
    """Return what bytes begin like, or an empty string."""
    for begin, what in _MARKS:
        if head.startswith(begin):
            return what
    if head[:1] == b"\x80" and head[1:3] in {b"\x04\x95", b"\x05\x95"} and head[7:11] == bytes(4):
        return "a pickle"  # PROTO 4 or 5, FRAME and its length, which is below 4 GiB
    if (
        head[:3] == b"\x1f\x8b\x08"
        and len(head) > 9
        and head[3] < 32
        and head[8] in {0, 2, 4}
        and head[9] in _SYSTEMS
    ):
        return "a gzip archive"
    return ""


def examine(model: Any, buf: Buffer, walk: wire.Walk, problems: Problems) -> None:
    """Add a problem for each metadata value, documentation and weight that begins like a payload."""
    for place, head in _texts(model):
        if what := mark(head):
            problems.add("structure/payload", place, f"begins like {what}")
    told: list[tuple[int, str]] = []
    for tensor, _ in walk.big:
        what = mark(_raw_head(buf, tensor))
        if what and len(told) < MAX_TOLD:
            told.append((tensor.start, what))
    where = places(buf, walk.size, [start for start, _ in told]) if told else {}
    for start, what in told:
        problems.add("structure/payload", where[start], f"the values begin like {what}")


def _texts(model: Any) -> Iterator[tuple[str, bytes]]:
    yield "doc_string", name_text(model.doc_string[:HEAD]).encode()
    yield "graph/doc_string", name_text(model.graph.doc_string[:HEAD]).encode()
    for place, owner in (("metadata_props", model), ("graph/metadata_props", model.graph)):
        for index, item in enumerate(owner.metadata_props):
            yield f"{place}[{index}]", name_text(item.value[:HEAD]).encode()
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.raw_data:  # the large ones are not in this copy
            yield f"graph/initializer[{index}]", tensor.raw_data[:HEAD]


def _raw_head(buf: Buffer, tensor: TensorRecord) -> bytes:
    pos = tensor.start
    while pos < tensor.stop:
        tag, pos = varint(buf, pos, tensor.stop, _ignore)
        if tag >> 3 == _RAW_DATA and tag & 7 == 2:
            length, pos = varint(buf, pos, tensor.stop, _ignore)
            return bytes(buf[pos : min(pos + length, pos + HEAD, tensor.stop)])
        pos = skip(buf, tag & 7, pos, tensor.stop, _ignore)
    return b""


def _ignore(_code: str, _offset: int, _message: str) -> None:
    """Problems were noted by the walk already."""
