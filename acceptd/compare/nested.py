"""Sequences, optionals and maps: taken apart until tensors are left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.boxes import Part
from acceptd.compare.kinds import Measures
from acceptd.compare.tally import Tally
from acceptd.compare.task import Companion, Pair, Slice
from acceptd.compare.values import DiffersError, boxes, map_keys, same_bytes, strings, tensors
from acceptd.values import MapRef, OptionalRef, SequenceRef, TensorRef, ValueRef

MAX_DEPTH: Final = 16

Blobs = Mapping[str, Blob]


def blob_of(part: Slice, blobs: Blobs) -> Blob:
    """Return the file of a slice; raise MalformedError where the task carries no such file."""
    try:
        return blobs[part.file]
    except KeyError:
        raise MalformedError(f"the task has no file {part.file!r}") from None


def compare(pair: Pair, blobs: Blobs, measures: Measures, companions: Mapping[str, Tally]) -> None:
    """Compare the two values of a pair that has both. Raises DiffersError (with the note), MalformedError.

    ``companions``: where the elements of scores and classes of boxes are counted, by ``scores`` and ``classes``.
    """
    assert pair.got is not None
    first, second = blob_of(pair.expected, blobs), blob_of(pair.got, blobs)
    expected, got = plain(pair.expected.value), plain(pair.got.value)
    if companions:
        sides = _items(expected, got)
        for at, (one, other) in enumerate(sides):
            parts = [
                _part(_item(own, at, len(sides)), blobs, companions[name], len(one.shape) - 1)
                if own is not None and name in companions
                else None
                for name, own in (("scores", pair.how.scores), ("classes", pair.how.classes))
            ]
            boxes(one, first, other, second, measures, [at] if isinstance(expected, SequenceRef) else [], parts)
        return
    _values(pair.expected.value, first, pair.got.value, second, measures, [])


def _items(expected: ValueRef | None, got: ValueRef | None) -> list[tuple[TensorRef, TensorRef]]:
    """Return boxes of both sides: one tensor each, or the items of two sequences, as several calls give them."""
    if isinstance(expected, TensorRef) and isinstance(got, TensorRef):
        return [(expected, got)]
    if not isinstance(expected, SequenceRef) or not isinstance(got, SequenceRef):
        raise MalformedError("boxes with scores or classes are tensors")
    if len(expected.items) != len(got.items):
        raise DiffersError("shape")
    found = []
    for one, other in zip(map(plain, expected.items), map(plain, got.items), strict=True):
        if not isinstance(one, TensorRef) or not isinstance(other, TensorRef):
            raise MalformedError("boxes with scores or classes are tensors")
        found.append((one, other))
    return found


def _item(one: Companion, at: int, of: int) -> Companion:
    """Return what belongs to one item of boxes; raise MalformedError where there are not as many items."""
    assert one.got is not None
    sides = []
    for part in (one.expected, one.got):
        value = plain(part.value)
        if isinstance(value, SequenceRef):
            if len(value.items) != of:
                raise MalformedError("scores and classes have one row for each box")
            value = value.items[at]
        elif of != 1:
            raise MalformedError("scores and classes have one row for each box")
        sides.append(Slice(file=part.file, value=value) if value is not None else part)
    return one.model_copy(update={"expected": sides[0], "got": sides[1]})


def _part(one: Companion, blobs: Blobs, tally: Tally, rank: int) -> Part:
    """Return scores or classes as they belong to boxes of ``rank`` axes without the columns."""
    assert one.got is not None
    expected, got = plain(one.expected.value), plain(one.got.value)
    if not isinstance(expected, TensorRef) or not isinstance(got, TensorRef):
        raise MalformedError("scores and classes are tensors")
    first, second = blob_of(one.expected, blobs), blob_of(one.got, blobs)
    decode.check(expected, first)
    decode.check(got, second)
    if expected.dtype != got.dtype:
        raise DiffersError("dtype")
    if expected.shape[rank:] != got.shape[rank:]:
        raise DiffersError("shape")
    return Part((expected, got), (first, second), tally, rank)


def plain(value: ValueRef | None, depth: int = 0) -> ValueRef | None:
    """Return a value without the optionals around it: onnxruntime gives a present optional as its value."""
    if isinstance(value, OptionalRef):
        if depth > MAX_DEPTH:
            raise MalformedError("nested too deeply")
        return plain(value.value, depth + 1)
    return value


def _values(
    left: ValueRef, first: Blob, right: ValueRef, second: Blob, measures: Measures, prefix: list[int]
) -> None:
    if len(prefix) > MAX_DEPTH:
        raise MalformedError("nested too deeply")
    expected, got = plain(left), plain(right)
    if expected is None and got is None:
        return
    if isinstance(expected, TensorRef) and isinstance(got, TensorRef):
        compared = boxes if measures.boxes is not None else tensors
        compared(expected, first, got, second, measures, prefix)
    elif isinstance(expected, SequenceRef) and isinstance(got, SequenceRef):
        if len(expected.items) != len(got.items):
            raise DiffersError("shape")
        for index, (one, other) in enumerate(zip(expected.items, got.items, strict=True)):
            _values(one, first, other, second, measures, [*prefix, index])
    elif isinstance(expected, MapRef) and isinstance(got, MapRef):
        _maps(expected, first, got, second, measures.tally, prefix)
    else:
        raise DiffersError("kind")


def _maps(expected: MapRef, first: Blob, got: MapRef, second: Blob, tally: Tally, prefix: list[int]) -> None:
    """Compare by key; the order of entries means nothing."""
    if expected.keys.dtype != got.keys.dtype or expected.values.dtype != got.values.dtype:
        raise DiffersError("dtype")
    left_keys, right_keys = map_keys(expected.keys, first), map_keys(got.keys, second)
    if len(left_keys) != _length(expected.values, first) or len(right_keys) != _length(got.values, second):
        raise MalformedError("a map with another number of values than keys")
    places = {key: index for index, key in enumerate(right_keys)}
    if len(places) != len(right_keys) or len(set(left_keys)) != len(left_keys):
        raise MalformedError("a map with one key twice")
    if set(left_keys) != set(places):
        raise DiffersError("shape")
    order = [places[key] for key in left_keys]
    if order != sorted(order):
        tally.bit_exact = False
    if expected.values.dtype == "string":
        _string_entries(expected.values, first, got.values, second, order, tally, prefix)
    elif order:
        raw, left = decode.read(expected.values, first, 0, len(order))
        other, right = decode.read(got.values, second, 0, len(order))
        if raw != other:
            tally.bit_exact = False
        tally.add(left, right[np.array(order)], expected.values.shape, 0, prefix)


def _length(values: TensorRef, blob: Blob) -> int:
    total = decode.check(values, blob)
    if len(values.shape) != 1:
        raise MalformedError("the values of a map are one row")
    return total


def _string_entries(
    left: TensorRef, first: Blob, right: TensorRef, second: Blob, order: list[int], tally: Tally, prefix: list[int]
) -> None:
    expected, got = list(strings(left, first, len(order))), list(strings(right, second, len(order)))
    for index, place in enumerate(order):
        tally.n += 1
        if expected[index] != got[place]:
            tally.bit_exact = False
            tally.unequal([len(order)], index, prefix, repr(expected[index][:80]), repr(got[place][:80]))


def identical(left: ValueRef, first: Blob, right: ValueRef, second: Blob, depth: int = 0) -> bool:
    """Say whether two values are the same to the byte. Raises MalformedError."""
    if depth > MAX_DEPTH:
        raise MalformedError("nested too deeply")
    one, other = plain(left), plain(right)
    if isinstance(one, TensorRef) and isinstance(other, TensorRef):
        return same_bytes(one, first, other, second)
    if isinstance(one, SequenceRef) and isinstance(other, SequenceRef):
        return len(one.items) == len(other.items) and all(
            identical(a, first, b, second, depth + 1) for a, b in zip(one.items, other.items, strict=True)
        )
    if isinstance(one, MapRef) and isinstance(other, MapRef):
        return same_bytes(one.keys, first, other.keys, second) and same_bytes(
            one.values, first, other.values, second
        )
    return one is None and other is None
