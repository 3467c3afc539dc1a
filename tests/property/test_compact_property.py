"""However references lie, overlap or lie about the blob: a run reads their bytes, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.cell.blobs import Blob, closing_blob
from acceptd.cell.compact import inputs_only
from acceptd.evidence import Named, TensorRef, VectorSet

pytestmark = pytest.mark.property

SIZE = 200
CONTENT = bytes(range(SIZE))

spans = st.lists(st.tuples(st.integers(0, SIZE + 20), st.integers(0, 60)), max_size=12)


def content(blob: Blob) -> bytes:
    reader = blob.reader()
    try:
        return os.pread(reader, 1 << 16, 0)
    finally:
        os.close(reader)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans)
def test_a_run_reads_what_its_sets_refer_to_and_nothing_else(
    tmp_path: Path, given_spans: list[tuple[int, int]]
) -> None:
    refs = [TensorRef(dtype="uint8", shape=[size], offset=start, nbytes=size) for start, size in given_spans]
    inputs = [Named(name="", value=ref) for ref in refs]
    golden = VectorSet(name="s", model="m", inputs=inputs, expected=[])
    with closing_blob(tmp_path) as source, closing_blob(tmp_path) as target:
        writer = source.writer()
        os.write(writer, CONTENT)
        os.close(writer)
        found = inputs_only([golden], (), source, lambda: target)
        whole = content(found.blob)
    inside = [(start, start + size) for start, size in given_spans if size and start + size <= SIZE]
    assert set(whole) == {byte for start, stop in inside for byte in range(start, stop)}
    assert len(whole) == len(set(whole)), "no byte twice"
    for (start, size), named in zip(given_spans, found.sets[0].inputs, strict=True):
        ref = named.value
        assert isinstance(ref, TensorRef)
        if start + size <= SIZE:
            assert whole[ref.offset : ref.offset + size] == CONTENT[start : start + size]
        elif size:
            assert ref.offset + ref.nbytes > len(whole)
