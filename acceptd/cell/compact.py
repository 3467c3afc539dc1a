"""What a run may read of golden inputs: the bytes that its own sets refer to, and nothing else.

The ``vectors`` job sees expected values and writes the blob of inputs, so what lies between the
references in that blob is its word, and may be an expected value on its way to a run that is taken
over as well. A run therefore never gets that blob unless every byte of it is an input of its own.
"""

from __future__ import annotations

import bisect
import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from acceptd.cell.blobs import Blob
from acceptd.evidence import MapRef, Named, OptionalRef, SequenceRef, TensorRef, ValueRef, VectorSet

_PIECE: Final = 1 << 20

Span = tuple[int, int]
"""First byte and the one after the last."""


@dataclass(frozen=True, slots=True)
class InputsOnly:
    """Sets without a trace of what is expected of them, and the blob that holds their inputs, without gaps."""

    sets: tuple[VectorSet, ...]
    blob: Blob


def inputs_only(
    sets: Sequence[VectorSet], known_names: Collection[str], source: Blob, fresh: Callable[[], Blob]
) -> InputsOnly:
    """Return ``sets`` as a run may know them, over a blob that holds their inputs alone.

    ``source`` itself is handed on where the references cover each byte of it, as those of an honest
    job for a bundle of one model do; else the bytes referred to are copied, once each however often
    they are referred to, to the blob that ``fresh`` makes. Values that do not lie in ``source``
    refer to bytes beyond the end afterwards too. A name of a value that is none of ``known_names``
    (the model's inputs and weights) is replaced by its position: it is text of the ``vectors`` job.
    """
    spans = merged(_spans(one.value for golden in sets for one in golden.inputs), source.size)
    if spans == [(0, source.size)]:
        blob, places = source, _Places(spans)
    else:
        blob, places = fresh(), _Places(spans)
        at = 0
        for start, stop in spans:
            _copy(source, start, stop - start, blob, at)
            at += stop - start
    names = frozenset(known_names)
    return InputsOnly(tuple(_moved(golden, names, places) for golden in sets), blob)


def merged(spans: Iterable[Span], size: int) -> list[Span]:
    """Return disjoint spans, in order, of the bytes that ``spans`` cover; those beyond ``size`` do not count.

    >>> merged([(4, 8), (0, 2), (6, 9), (20, 40)], 10)
    [(0, 2), (4, 9)]
    """
    found: list[Span] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1] <= size):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return found


class _Places:
    """Where bytes of the source lie when only ``spans`` of it are left."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._starts = [start for start, _ in spans]
        self._at = [0, *accumulate(stop - start for start, stop in spans)]

    def of(self, ref: TensorRef) -> TensorRef:
        """Return the reference to the same bytes; to none that are there where there were none."""
        number = bisect.bisect_right(self._starts, ref.offset) - 1
        if not ref.nbytes:
            place = 0
        elif number >= 0 and ref.offset + ref.nbytes <= self._spans[number][1]:
            place = self._at[number] + ref.offset - self._starts[number]
        else:
            place = self._at[-1]
        return ref if place == ref.offset else ref.model_copy(update={"offset": place})


def tensors_in(value: ValueRef | None) -> Iterator[TensorRef]:
    """Yield every tensor of a value."""
    if isinstance(value, TensorRef):
        yield value
    elif isinstance(value, SequenceRef):
        for item in value.items:
            yield from tensors_in(item)
    elif isinstance(value, OptionalRef):
        yield from tensors_in(value.value)
    elif value is not None:
        yield from (value.keys, value.values)


def _spans(values: Iterable[ValueRef]) -> Iterator[Span]:
    return ((ref.offset, ref.offset + ref.nbytes) for value in values for ref in tensors_in(value))


def _moved(golden: VectorSet, names: frozenset[str], places: _Places) -> VectorSet:
    inputs = [
        Named(
            name=one.name if not one.name or one.name in names else f"value {number}, which has no input's name",
            value=_value(one.value, places),
        )
        for number, one in enumerate(golden.inputs)
    ]
    return VectorSet(name=golden.name, model=golden.model, inputs=inputs, expected=[])


def _value(value: ValueRef, places: _Places) -> ValueRef:
    if isinstance(value, TensorRef):
        return places.of(value)
    if isinstance(value, SequenceRef):
        return SequenceRef(items=[_value(item, places) for item in value.items])
    if isinstance(value, OptionalRef):
        return OptionalRef(value=None if value.value is None else _value(value.value, places))
    return MapRef(keys=places.of(value.keys), values=places.of(value.values))


def _copy(source: Blob, offset: int, count: int, target: Blob, at: int) -> None:
    """Copy bytes between two blobs inside the kernel where it can. Raises OSError, as for a full disk."""
    reader, writer = source.reader(), target.writer()
    try:
        with contextlib.suppress(OSError):  # another file system, or one that cannot: the plain copy tells
            while count > 0:
                moved = os.copy_file_range(reader, writer, count, offset, at)
                if moved == 0:
                    break
                offset, at, count = offset + moved, at + moved, count - moved
        while count > 0:
            piece = os.pread(reader, min(count, _PIECE), offset)
            if not piece:
                raise OSError("the blob of inputs is shorter than it was")
            written = os.pwrite(writer, piece, at)
            offset, at, count = offset + written, at + written, count - written
    finally:
        os.close(reader)
        os.close(writer)
