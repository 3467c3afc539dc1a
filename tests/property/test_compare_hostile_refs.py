"""Whatever a job says about its values, the comparer measures it or calls it malformed; it never fails."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acceptd.compare.blob import Blob
from acceptd.compare.decode import NATIVE, PACKED
from acceptd.compare.service import answer, compare
from acceptd.compare.task import Bounded, CompareTask, Group, Labelled, Pair, Sample, Slice
from acceptd.evidence import MapRef, OptionalRef, OutputStats, SequenceRef, TensorRef

pytestmark = pytest.mark.property

CONTENT = bytes(range(256)) * 2
SMALL = {
    "float32": 4,
    "float64": 8,
    "int64": 8,
    "bool": 1,
    "complex64": 8,
    "bfloat16": 2,
    "float8e5m2": 1,
    "string": 4,
}

edges = st.one_of(st.integers(0, 600), st.sampled_from([2**31, 2**32, 2**53, 2**63, 2**64]))
wild = st.builds(
    TensorRef,
    dtype=st.sampled_from([*NATIVE, *PACKED, "bfloat16", "float8e8m0", "float8e4m3fn", "string", "nonsense"]),
    shape=st.lists(st.one_of(st.integers(0, 9), edges), max_size=4),
    offset=edges,
    nbytes=edges,
)


@st.composite
def tame(draw: st.DrawFn) -> TensorRef:
    """A reference whose size fits its shape; it may still lie beyond the end."""
    dtype = draw(st.sampled_from(sorted(SMALL)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    total = 1
    for size in shape:
        total *= size
    return TensorRef(dtype=dtype, shape=shape, offset=draw(st.integers(0, 500)), nbytes=total * SMALL[dtype])


tensors = st.one_of(wild, tame())
anything = st.recursive(
    tensors,
    lambda inner: st.one_of(
        st.builds(SequenceRef, items=st.lists(inner, max_size=3)),
        st.builds(OptionalRef, value=st.one_of(st.none(), inner)),
        st.builds(MapRef, keys=tensors, values=tensors),
    ),
    max_leaves=6,
)
slices = st.builds(Slice, file=st.sampled_from(["f", "f", "f", "missing"]), value=anything)


def measured(pairs: list[Pair], groups: list[Group]) -> list[OutputStats]:
    with tempfile.TemporaryFile() as file:
        file.write(CONTENT)
        file.flush()
        found = compare(CompareTask(pairs=pairs, groups=groups), {"f": Blob(file.fileno())})
    return found.outputs


@settings(max_examples=400, deadline=None)
@given(slices, st.one_of(st.none(), slices), st.sampled_from(["values", "logits", "probabilities"]), st.booleans())
def test_hostile_references_are_measured_or_malformed(
    expected: Slice, got: Slice | None, kind: Any, same: bool
) -> None:
    other = expected if same else got
    pair = Pair(
        set="s",
        model="m",
        output="y",
        against="golden",
        expected=expected,
        got=other,
        rtol=0.0,
        atol=0.0,
        kind=kind,
    )
    samples = [
        Sample(key=name, inputs=[expected], output=one) for name, one in (("a", expected), ("b", got or expected))
    ]
    (found,) = measured([pair], [Group(model="m", output="y", samples=samples)])
    if found.comparable:
        assert found.note == ""
        if same:
            assert found.exceeding == 0
    else:
        assert found.note in {"dtype", "shape", "kind", "missing", "malformed"}
        assert (found.n, found.bit_exact) == (0, False)


def rows(dtype: str, width: int) -> st.SearchStrategy[Slice]:
    """One row of small values that lies in the file, or something hostile."""
    good = st.builds(
        lambda count, offset: TensorRef(dtype=dtype, shape=[count], offset=offset, nbytes=count * width),
        st.integers(0, 6),
        st.integers(0, 200),
    )
    return st.builds(Slice, file=st.just("f"), value=st.one_of(good, anything))


@settings(max_examples=300, deadline=None)
@given(slices, slices, st.one_of(rows("int64", 8), slices), st.one_of(st.none(), slices), st.integers(-2, 300))
def test_hostile_inputs_and_labels_are_measured_or_noted(
    value: Slice, got: Slice, labels: Slice, names: Slice | None, high: int
) -> None:
    inputs = [Bounded(set="s", model="m", input="x", value=value, low=-1.0, high=float(high))]
    fields = {"set": "s", "model": "m", "output": "y", "kind": "logits", "got": got}
    labelled = [Labelled.model_validate(fields | {"labels": labels, "slices": names})]
    with tempfile.TemporaryFile() as file:
        file.write(CONTENT)
        file.flush()
        found = compare(CompareTask(inputs=inputs, labelled=labelled), {"f": Blob(file.fileno())})
    (one,) = found.inputs
    assert one.outside <= one.n
    for row in found.quality:
        assert not (row.note and row.rows)
        assert row.accuracy is None or 0 <= row.accuracy <= 1
        assert sum(count.support for count in row.classes) == row.rows


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["id", "task", "files", "ping"]), st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)))  # fmt: skip
def test_a_request_of_another_form_is_answered_with_an_error(message: dict[str, object]) -> None:
    reply = answer(message, [])
    assert {"pong", "error", "statistics"} & set(reply)
