"""References of jobs that lie about their values, one by one: nothing is compared, and nothing raises."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from acceptd.compare import quality, values
from acceptd.compare.blob import CHUNK_BYTES, Blob, MalformedError
from acceptd.compare.service import compare
from acceptd.compare.task import Companion, CompareTask, How, Labelled, Pair, Slice
from acceptd.evidence import MapRef, OptionalRef, OutputStats, SequenceRef, TensorRef
from acceptd.values import ValueRef
from tests.unit.test_compare_values import Store, f32, insensitive, sample

pytestmark = pytest.mark.unit

Both = tuple[Any, Any]


@pytest.fixture
def store() -> Iterator[Store]:
    one = Store()
    yield one
    one.close()


def strings(store: Store, *raw: bytes, shape: list[int], lengths: list[int]) -> TensorRef:
    """Strings whose lengths are those that are told."""
    packed = b"".join(struct.pack("<I", length) + one for length, one in zip(lengths, raw, strict=True))
    return TensorRef(dtype="string", shape=shape, offset=store.put(packed), nbytes=len(packed))


def mapped(store: Store, keys: Any, numbers: Any) -> MapRef:
    return MapRef(keys=store.tensor(keys), values=store.tensor(numbers))


def deep(ref: ValueRef, wrap: Callable[[ValueRef], ValueRef], levels: int) -> ValueRef:
    for _ in range(levels):
        ref = wrap(ref)
    return ref


REFUSED: dict[str, tuple[Callable[[Store], Both], str]] = {
    "a map with more values than keys": (
        lambda s: (mapped(s, np.arange(2), f32(1, 2)), mapped(s, np.arange(2), f32(1, 2, 3))),
        "malformed",
    ),
    "a map whose values are a matrix": (
        lambda s: (mapped(s, np.arange(2), np.ones((2, 1))), mapped(s, np.arange(2), np.ones((2, 1)))),
        "malformed",
    ),
    "a map whose keys are a matrix": (
        lambda s: (mapped(s, np.ones((1, 1), np.int64), f32(1)), mapped(s, np.ones((1, 1), np.int64), f32(1))),
        "malformed",
    ),
    "a map of another type of keys": (
        lambda s: (mapped(s, np.arange(2), f32(1, 2)), mapped(s, np.arange(2, dtype=np.int32), f32(1, 2))),
        "dtype",
    ),
    "a map of another type of values": (
        lambda s: (mapped(s, np.arange(2), f32(1, 2)), mapped(s, np.arange(2), np.ones(2))),
        "dtype",
    ),
    "a map for a tensor": (lambda s: (mapped(s, np.arange(1), f32(1)), s.tensor(f32(1))), "kind"),
    "sequences in sequences without end": (
        lambda s: (deep(s.tensor(f32(1)), lambda one: SequenceRef(items=[one]), 20),) * 2,
        "malformed",
    ),
    "optionals in optionals without end": (
        lambda s: (deep(s.tensor(f32(1)), lambda one: OptionalRef(value=one), 20),) * 2,
        "malformed",
    ),
    "a string that ends beyond its tensor": (
        lambda s: (s.strings("ab", "cd"), strings(s, b"ab", b"cd", shape=[2], lengths=[2, 900])),
        "malformed",
    ),
    "bytes after the last string": (
        lambda s: (s.strings("a"), strings(s, b"abc", shape=[1], lengths=[1])),
        "malformed",
    ),
    "fewer bytes than the strings' lengths need": (
        lambda s: (s.strings("a"), TensorRef(dtype="string", shape=[9], offset=0, nbytes=5)),
        "malformed",
    ),
    "an element type that is none": (
        lambda s: (s.tensor(f32(1)), TensorRef(dtype="float33", shape=[1], offset=0, nbytes=4)),
        "malformed",
    ),
    "more elements than any file holds": (
        lambda s: (s.tensor(f32(1)), TensorRef(dtype="float32", shape=[1 << 40, 1 << 40], offset=0, nbytes=4)),
        "malformed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_does_not_describe_its_bytes_is_not_compared(store: Store, name: str) -> None:
    made, note = REFUSED[name]
    expected, got = made(store)
    for first, second in ((expected, got), (got, expected)):
        found = store.against(first, second)
        assert (found.comparable, found.note, found.n, found.bit_exact) == (False, note, 0, False)


def test_a_value_in_a_file_that_the_task_does_not_carry_is_malformed(store: Store) -> None:
    held, lost = (Slice(file=name, value=store.tensor(f32(1))) for name in ("f", "g"))
    fields = {"set": "s", "model": "m", "output": "y", "against": "golden", "rtol": 0.0, "atol": 0.0}
    (found,) = store.statistics([Pair.model_validate(fields | {"expected": held, "got": lost})]).outputs
    assert (found.comparable, found.note) == (False, "malformed")


def test_bounds_on_strings_and_keys_refuse_what_is_beyond_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_STRINGS", 2)
    monkeypatch.setattr(values, "MAX_KEYS", 2)
    two, three = store.strings("a", "b"), store.strings("a", "b", "c")
    assert store.against(two, two).bit_exact
    assert store.against(three, three).note == "malformed"
    assert store.against(mapped(store, np.arange(2), f32(1, 2)), mapped(store, np.arange(2), f32(1, 2))).bit_exact
    whole = mapped(store, np.arange(3), f32(1, 2, 3))
    assert store.against(whole, whole).note == "malformed"


# -- boxes with scores


def boxed(store: Store, boxes: Both, scores: Both) -> list[OutputStats]:
    def held(value: Any) -> Slice:
        given = value if not isinstance(value, np.ndarray) else store.tensor(value)
        return Slice(file="f", value=given)

    companion = Companion(output="scores", expected=held(scores[0]), got=held(scores[1]))
    pair = Pair(
        set="s", model="main", output="y", against="golden", expected=held(boxes[0]), got=held(boxes[1]),
        rtol=0.0, atol=0.0, kind="boxes", how=How(scores=companion),
    )  # fmt: skip
    return store.statistics([pair]).outputs


BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40]], np.float32)
SCORES = f32(0.9, 0.8)

COMPANIONS: dict[str, tuple[Callable[[Store], tuple[Both, Both]], str]] = {
    "boxes that are a map": (lambda s: ((mapped(s, np.arange(1), f32(1)), BOXES), (SCORES, SCORES)), "malformed"),
    "calls of another number": (
        lambda s: ((items(s, BOXES), items(s, BOXES, BOXES)), (items(s, SCORES), items(s, SCORES))),
        "shape",
    ),
    "a call that gave a map": (
        lambda s: (
            (SequenceRef(items=[mapped(s, np.arange(1), f32(1))]), items(s, BOXES)),
            (items(s, SCORES), items(s, SCORES)),
        ),
        "malformed",
    ),
    "scores of fewer calls than boxes": (
        lambda s: ((items(s, BOXES, BOXES), items(s, BOXES, BOXES)), (items(s, SCORES), items(s, SCORES))),
        "malformed",
    ),
    "one tensor of scores for two calls": (
        lambda s: ((items(s, BOXES, BOXES), items(s, BOXES, BOXES)), (SCORES, SCORES)),
        "malformed",
    ),
    "scores that are a map": (
        lambda s: ((BOXES, BOXES), (mapped(s, np.arange(2), SCORES), mapped(s, np.arange(2), SCORES))),
        "malformed",
    ),
    "scores of another type": (lambda s: ((BOXES, BOXES), (SCORES, SCORES.astype(np.float64))), "dtype"),
    "scores of another width": (
        lambda s: ((BOXES, BOXES), (np.ones((2, 3), np.float32), np.ones((2, 4), np.float32))),
        "shape",
    ),
    "scores that are complex": (
        lambda s: ((BOXES, BOXES), (SCORES.astype(np.complex64), SCORES.astype(np.complex64))),
        "malformed",
    ),
    "boxes of another type": (lambda s: ((BOXES, BOXES.astype(np.float64)), (SCORES, SCORES)), "dtype"),
    "boxes of another rank": (lambda s: ((BOXES, BOXES[None]), (SCORES, SCORES)), "shape"),
    "boxes of other columns": (lambda s: ((BOXES, BOXES[:, :3]), (SCORES, SCORES)), "shape"),
}


def items(store: Store, *arrays: Any) -> SequenceRef:
    return SequenceRef(items=[store.tensor(one) for one in arrays])


@pytest.mark.parametrize("name", COMPANIONS)
def test_boxes_and_scores_that_do_not_belong_together_compare_nothing(store: Store, name: str) -> None:
    made, note = COMPANIONS[name]
    assert [(row.output, row.comparable, row.note, row.n) for row in boxed(store, *made(store))] == [
        ("y", False, note, 0),
        ("scores", False, note, 0),
    ]


def test_boxes_and_scores_of_several_calls_are_compared_call_by_call(store: Store) -> None:
    second = BOXES + 1
    boxes, scores = boxed(
        store,
        (items(store, BOXES, second), items(store, BOXES, second[::-1])),
        (items(store, SCORES, SCORES), items(store, SCORES, SCORES[::-1])),
    )
    assert (boxes.exceeding, scores.exceeding, boxes.n, scores.n) == (0, 0, 16, 4)


# -- labels and slices of labelled rows


def told(store: Store, labels: Any, got: Any = None, slices: ValueRef | None = None) -> str:
    """Return the note on labelled rows."""
    one = Labelled(
        set="s",
        model="main",
        output="y",
        kind="probabilities",
        got=Slice(file="f", value=store.tensor(np.full((2, 2), 0.5)) if got is None else got),
        labels=Slice(file="f", value=labels if not isinstance(labels, np.ndarray) else store.tensor(labels)),
        slices=None if slices is None else Slice(file="f", value=slices),
    )
    (found,) = compare(CompareTask(labelled=[one]), {"f": Blob(store._file.fileno())}).quality
    assert (found.rows, found.accuracy, found.brier) == (0, None, None)
    return found.note


def test_labels_that_are_no_labels_give_no_figure(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(store, np.array([0, 1], np.int32)) == "malformed"
    assert told(store, np.zeros((2, 1), np.int64)) == "malformed"
    assert told(store, np.array([0, -1])) == "malformed"
    assert told(store, np.array([0, 1]), slices=store.tensor(np.array([1, 2]))) == "malformed"
    assert told(store, np.array([0, 1]), slices=store.strings("a", "b", shape=[2, 1])) == "malformed"
    assert told(store, mapped(store, np.arange(1), f32(1))) == "malformed"
    monkeypatch.setattr(quality, "MAX_ROWS", 1)
    assert told(store, np.array([0, 1])) == "malformed"


# -- insensitive outputs


def test_outputs_that_lie_do_not_make_a_model_insensitive(store: Store) -> None:
    thirds = store.tensor(np.full((1, 3), 1 / 3))
    first, second = store.tensor(f32(1)), store.tensor(f32(2))
    lie = TensorRef(dtype="float64", shape=[1, 3], offset=1 << 40, nbytes=24)
    assert not insensitive(store, sample("a", thirds, first), sample("b", lie, second))
    wide = store.tensor(np.full((1, 4), 1 / 3))
    assert not insensitive(store, sample("a", thirds, first), sample("b", wide, second))
    uneven = store.tensor(np.array([[1 / 3] * 3, [0.0] * 3]))  # the first row is the same, the second is not
    assert not insensitive(store, sample("a", thirds, first), sample("b", uneven, second))
    other = store.tensor(np.full((1, 3), 1 / 3, np.float32))
    assert not insensitive(store, sample("a", thirds, first), sample("b", other, second))


def test_maps_and_absent_values_that_never_change_are_insensitive_too(store: Store) -> None:
    first, second = store.tensor(f32(1)), store.tensor(f32(2))
    one, same, other = (mapped(store, np.arange(2), f32(0.5, last)) for last in (0.5, 0.5, 0.25))

    def both(left: Any, right: Any) -> bool:
        return insensitive(store, sample("a", left, first), sample("b", right, second))

    assert both(one, same)
    assert not both(one, other)
    assert both(SequenceRef(items=[one]), SequenceRef(items=[same]))
    assert not both(SequenceRef(items=[one]), SequenceRef(items=[same, same]))
    assert not both(one, store.tensor(f32(1)))
    endless = deep(one, lambda value: SequenceRef(items=[value]), 20)
    assert not both(endless, endless)


# -- files that are read again and again


def test_references_that_read_one_byte_without_end_are_given_up(store: Store) -> None:
    """Each value is as large as the file: what is beyond the budget is told as malformed, not read."""
    array = store.tensor(np.zeros(1 << 16, np.float64))
    fields = {"set": "s", "model": "m", "output": "y", "against": "golden", "rtol": 0.0, "atol": 0.0}
    part = Slice(file="f", value=array)
    pair = Pair.model_validate(fields | {"expected": part, "got": part})
    endless = SequenceRef(items=[array] * 200)
    costly = pair.model_copy(update={"expected": Slice(file="f", value=endless), "got": part})
    found = store.statistics([pair, costly, pair])
    assert [(row.comparable, row.note) for row in found.outputs] == [(True, ""), *[(False, "malformed")] * 2]


def test_a_file_that_shrinks_while_it_is_read_is_malformed() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(64))
        file.flush()
        held = Blob(file.fileno())
        os.ftruncate(file.fileno(), 16)
        assert held.read(0, 16) == bytes(16)
        with pytest.raises(MalformedError, match="shorter than it was"):
            held.read(0, 64)


@pytest.mark.parametrize(("offset", "length"), [(-1, 4), (0, -4), (60, 8), (0, CHUNK_BYTES + 1)])
def test_no_read_leaves_the_file(offset: int, length: int) -> None:
    with tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), 64 if length <= 64 else 2 * CHUNK_BYTES)
        with pytest.raises(MalformedError, match="beyond the end"):
            Blob(file.fileno()).read(offset, length)
