"""Target: the wire walk. It ends with a result on any bytes, and what it passes protobuf reads the same.

``check`` is the whole oracle; ``make test`` runs it over the seeds without atheris. It raises AssertionError
where walk and protobuf (upb) tell one file differently, other than in the ways that the walk means to be stricter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError, Message

from acceptd.evidence import FRAMES
from sandbox import wire
from sandbox.inspect import counts, stubs
from sandbox.messages import clean
from sandbox.wire_places import places
from sandbox.wire_schema import SLOTS

DEPTH: Final = 100
STRICTER: Final = frozenset(
    {"wire/empty", "wire/ort-format", "wire/too-many-fields", "wire/group", "wire/too-deep", "wire/trailing-data"}
)
"""What ends the walk although protobuf may go on."""
MERGING: Final = frozenset({"wire/duplicate-field"})
"""Counts may differ where one message was merged into another: the walk has said so."""
EXTERNAL: Final = 1


def check(raw: bytes) -> None:
    """Hold the walk over ``raw`` against protobuf's reading. Raises AssertionError on a disagreement."""
    walk = wire.walk(raw, len(raw), DEPTH)
    where = places(raw, len(raw), [offset for _, offset, _ in walk.notes])
    assert set(where) == {offset for _, offset, _ in walk.notes}
    assert all(where.values())
    FRAMES["wire"].model_validate(clean(wire.frame(raw, walk)))
    try:
        model = onnx.ModelProto.FromString(raw)
    except DecodeError:
        assert walk.fatal is not None, "protobuf refuses what the walk passes"
        return
    codes = {code for code, _, _ in walk.notes}
    if walk.fatal:
        assert walk.fatal[0] in STRICTER, f"protobuf reads what the walk calls {walk.fatal}"
        return
    if codes & MERGING:
        return
    agree(raw, walk, model)


def agree(raw: bytes, walk: wire.Walk, model: Any) -> None:
    """Compare every count, the IR version, opset imports, external data, and the copies for protobuf."""
    walked = {name: count for name, count in zip(SLOTS, walk.counts, strict=True) if count}
    parsed = counts.count(model)
    assert walked == parsed, {
        name: (walked.get(name), parsed.get(name))
        for name in walked.keys() | parsed.keys()
        if walked.get(name) != parsed.get(name)
    }
    assert (walk.ir_version or 0) == model.ir_version
    if walk.opset_count == len(walk.opsets):
        imports = [*model.opset_import, *(one for item in model.functions for one in item.opset_import)]
        assert set(walk.opsets) == {(_raw(one.domain), one.version) for one in imports}
    stored = Counter(
        (_raw(tensor.name), tuple(tensor.dims), tensor.data_type, tensor.data_location, _entries(tensor))
        for tensor in tensors(model)
        if tensor.data_location == EXTERNAL or tensor.external_data
    )
    seen = Counter(
        (record.name, tuple(record.dims), record.dtype, record.location, tuple(record.entries))
        for record in walk.external
    )
    if walk.external_count == len(walk.external) and "wire/long-name" not in walk.dropped:
        assert seen == stored or any(len(tensor.external_data) > 64 for tensor in tensors(model)), (seen, stored)
    small = onnx.ModelProto.FromString(stubs.without_values(raw, walk))
    assert counts.count(small) == parsed


def tensors(message: Message) -> Iterator[Any]:
    """Yield every TensorProto below a message, in whatever place."""
    work = [message]
    while work:
        item = work.pop()
        if isinstance(item, onnx.TensorProto):
            yield item
            continue
        for field, value in item.ListFields():
            if field.message_type is not None:
                work += value if field.is_repeated else [value]


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _entries(tensor: Any) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((_raw(item.key), _raw(item.value)) for item in tensor.external_data)
