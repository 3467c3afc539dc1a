"""A run reads the golden inputs of its own sets, and not a byte more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.cell.blobs import Blob
from acceptd.cell.compact import InputsOnly, inputs_only
from acceptd.evidence import MapRef, Named, OptionalRef, SequenceRef, TensorRef, ValueRef, VectorSet

pytestmark = pytest.mark.unit

Make = Callable[[bytes], Blob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Blob] = []

    def blob(content: bytes) -> Blob:
        one = Blob(tmp_path)
        writer = one.writer()
        os.write(writer, content)
        os.close(writer)
        made.append(one)
        return one

    yield blob
    for one in made:
        one.close()


def content(blob: Blob) -> bytes:
    reader = blob.reader()
    try:
        return os.pread(reader, 1 << 20, 0)
    finally:
        os.close(reader)


def bytes_at(offset: int, nbytes: int) -> TensorRef:
    return TensorRef(dtype="uint8", shape=[nbytes], offset=offset, nbytes=nbytes)


def golden(*values: ValueRef, model: str = "main", names: tuple[str, ...] = ()) -> VectorSet:
    named = zip(names or ("",) * len(values), values, strict=True)
    inputs = [Named(name=name, value=value) for name, value in named]
    expected = [Named(name="", value=bytes_at(0, 1))]
    return VectorSet(name="s", model=model, inputs=inputs, expected=expected, rtol=0.5)


def fed(found: InputsOnly) -> list[bytes]:
    """The bytes of every tensor input of the first set, through the references that a run gets."""
    whole = content(found.blob)
    refs = [one.value for one in found.sets[0].inputs]
    return [whole[ref.offset : ref.offset + ref.nbytes] for ref in refs if isinstance(ref, TensorRef)]


def test_what_no_input_refers_to_does_not_reach_a_run(make: Make) -> None:
    source, target = make(b"AAAAsecretBBBBsecret"), make(b"")
    found = inputs_only([golden(bytes_at(10, 4), bytes_at(0, 4))], (), source, lambda: target)
    assert content(found.blob) == b"AAAABBBB"
    assert fed(found) == [b"BBBB", b"AAAA"]


def test_references_that_overlap_are_copied_once(make: Make) -> None:
    source, target = make(bytes(range(100)) + b"secret"), make(b"")
    refs = [bytes_at(start, 100 - start) for start in range(99)]
    found = inputs_only([golden(*refs)], (), source, lambda: target)
    assert found.blob.size == 100
    assert fed(found) == [bytes(range(start, 100)) for start in range(99)]


def test_nothing_is_copied_where_every_byte_is_an_input(make: Make) -> None:
    source = make(b"AAAABBBB")

    def never() -> Blob:
        raise AssertionError("a blob was made")

    found = inputs_only([golden(bytes_at(0, 4)), golden(bytes_at(4, 4), bytes_at(0, 0))], (), source, never)
    assert found.blob is source


def test_nested_values_keep_their_bytes(make: Make) -> None:
    source, target = make(b"..AA..BB..CC..DD"), make(b"")
    nested = SequenceRef(items=[OptionalRef(value=bytes_at(6, 2)), OptionalRef(value=None)])
    mapping = MapRef(keys=bytes_at(10, 2), values=bytes_at(14, 2))
    found = inputs_only([golden(bytes_at(2, 2), nested, mapping)], (), source, lambda: target)
    assert content(found.blob) == b"AABBCCDD"
    _, items, entries = (one.value for one in found.sets[0].inputs)
    assert isinstance(items, SequenceRef)
    assert items.items[0] == OptionalRef(value=bytes_at(2, 2))
    assert entries == MapRef(keys=bytes_at(4, 2), values=bytes_at(6, 2))


@pytest.mark.parametrize("offset", [5, 8, 2**62])
def test_a_value_that_lies_beyond_the_blob_still_does(offset: int, make: Make) -> None:
    source, target = make(b"AAAAxxxx"), make(b"")
    found = inputs_only([golden(bytes_at(0, 4), bytes_at(offset, 4))], (), source, lambda: target)
    lost = found.sets[0].inputs[1].value
    assert isinstance(lost, TensorRef)
    assert lost.offset + lost.nbytes > found.blob.size


def test_neither_expected_values_nor_texts_of_the_job_reach_a_run(make: Make) -> None:
    source = make(b"AAAABBBB")
    one = golden(bytes_at(0, 4), bytes_at(4, 4), names=("features", "0.11 0.57 0.93"))
    found = inputs_only([one], ("features",), source, lambda: make(b""))
    assert found.sets[0].expected == []
    assert found.sets[0].rtol is None
    assert [named.name for named in found.sets[0].inputs] == ["features", "value 1, which has no input's name"]


def test_another_models_inputs_stay_away(make: Make) -> None:
    """In a pipeline they are what this model is expected to give."""
    source, target = make(b"AAAABBBB"), make(b"")
    sets = [golden(bytes_at(0, 4)), golden(bytes_at(4, 4), model="decoder")]
    found = inputs_only([one for one in sets if one.model == "main"], (), source, lambda: target)
    assert content(found.blob) == b"AAAA"
