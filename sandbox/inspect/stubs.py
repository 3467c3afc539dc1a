"""The copy of a model without its large values: what protobuf, the checker and shape inference get.

Parsing a model copies all weights, shape inference four times. Both only want shapes and types, so
the copy leaves out values of BIG_VALUES bytes and more; the walk has judged them already. The
lengths of the messages around are rewritten in the width that they had (a padded varint, which
every parser takes), so that no byte elsewhere moves into another field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandbox.wire import Walk
from sandbox.wire_tensor import Buffer, MalformedError, TensorRecord, skip, varint

_VALUES: Final = frozenset({4, 5, 6, 7, 9, 10, 11})
_RAW_DATA: Final = 0x4A


def _ignore(_code: str, _offset: int, _message: str) -> None:
    """Problems were noted by the walk already."""


def _stub(buf: Buffer, tensor: TensorRecord) -> bytes:
    """Return the tensor without values."""
    kept = []
    pos = tensor.start
    while pos < tensor.stop:
        here = pos
        tag, pos = varint(buf, pos, tensor.stop, _ignore)
        pos = skip(buf, tag & 7, pos, tensor.stop, _ignore)
        if tag >> 3 not in _VALUES:
            kept.append(buf[here:pos])
    return b"".join(kept)


def _length_before(buf: Buffer, start: int, length: int) -> tuple[int, int]:
    """Return (position, width) of the length field that ends right before a message's body at ``start``."""
    for width in range(1, 6):
        try:
            value, following = varint(buf, start - width, start, _ignore)
        except MalformedError:
            continue
        if following == start and value == length:
            return start - width, width
    raise MalformedError("wire/malformed", start, "no length before a message")


def _padded(value: int, width: int) -> bytes:
    return bytes((value >> 7 * i & 0x7F) | (0x80 if i < width - 1 else 0) for i in range(width))


def without_values(buf: Buffer, walk: Walk) -> bytes:
    """Return the model with shapes and types but without large values."""
    return _rebuild(buf, walk)


def with_marks(buf: Buffer, walk: Walk, mark: Callable[[TensorRecord], bytes]) -> bytes:
    """Return the model with ``mark(tensor)``, of less than 128 bytes, as raw data of each large tensor."""
    return _rebuild(buf, walk, mark)


def _rebuild(buf: Buffer, walk: Walk, mark: Callable[[TensorRecord], bytes] | None = None) -> bytes:
    edits: list[tuple[int, int, bytes]] = []
    shrunk: dict[tuple[int, int], int] = {}
    for tensor, around in walk.big:
        stub = _stub(buf, tensor)
        if mark is not None:
            raw = mark(tensor)
            stub += bytes((_RAW_DATA, len(raw))) + raw
        edits.append((tensor.start, tensor.stop, stub))
        lost = tensor.stop - tensor.start - len(stub)
        for message in (*around, (tensor.start, tensor.stop)):
            shrunk[message] = shrunk.get(message, 0) + lost
    for (start, stop), lost in shrunk.items():
        at, width = _length_before(buf, start, stop - start)
        edits.append((at, at + width, _padded(stop - start - lost, width)))
    pieces: list[bytes] = []
    pos = 0
    for start, stop, replacement in sorted(edits):
        pieces += [buf[pos:start], replacement]
        pos = stop
    pieces.append(buf[pos : walk.size])
    return b"".join(pieces)
