"""Rows by class: two outputs of one input, against a plain numpy count."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pytest

from acceptd.compare.blob import Blob
from acceptd.compare.service import compare
from acceptd.compare.task import CompareTask, Pair, Slice
from acceptd.evidence import OutputStats, SequenceRef, TensorRef

pytestmark = pytest.mark.unit


@pytest.fixture
def file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as made:
        yield made


def held(file: IO[bytes], array: Any, **changes: Any) -> Slice:
    array = np.asarray(array)
    offset = file.seek(0, 2)
    file.write(array.tobytes())
    file.flush()
    ref = {"dtype": array.dtype.name, "shape": list(array.shape), "offset": offset, "nbytes": array.nbytes}
    return Slice(file="f", value=TensorRef.model_validate(ref | changes))


def against(file: IO[bytes], expected: Slice, got: Slice, **changes: Any) -> OutputStats:
    pair = Pair(
        set="s", model="main", output="y", against="prior", expected=expected, got=got, rtol=0.0, atol=0.0,
        kind="logits", labels=True,
    )  # fmt: skip
    task = CompareTask(pairs=[pair.model_copy(update=changes)])
    return compare(task, {"f": Blob(file.fileno())}).outputs[0]


@pytest.mark.parametrize("shape", [(500, 7), (5, 100, 7), (7,), (0, 7)])
def test_rows_and_losses_by_label_are_those_of_numpy(file: IO[bytes], shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(7)
    one = source.normal(size=shape).astype(np.float32)
    other = (one + source.normal(size=shape) * 0.5).astype(np.float32)
    labels = against(file, held(file, one), held(file, other)).labels
    assert labels is not None
    first, second = one.reshape(-1, 7).argmax(axis=1), other.reshape(-1, 7).argmax(axis=1)
    assert (labels.rows, labels.mismatches) == (len(first), int((first != second).sum()))
    for label in labels.labels:
        assert label.rows == int((first == label.index).sum())
        assert label.missed == int(((first == label.index) & (second != label.index)).sum())
    assert sum(label.rows for label in labels.labels) == labels.rows


def test_columns_in_another_order_are_compared_by_label(file: IO[bytes]) -> None:
    one = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
    same = held(file, one[:, [2, 0, 1]])  # the same answers, columns c, a, b
    row = against(file, held(file, one), same, order=[1, 2, 0])
    assert row.labels is not None
    assert (row.exceeding, row.max_abs, row.bit_exact, row.labels.mismatches) == (0, 0.0, True, 0)
    # The same columns under permuted labels are other answers.
    row = against(file, held(file, one), held(file, one), order=[1, 2, 0])
    assert row.labels is not None
    assert (row.exceeding, row.labels.mismatches) == (6, 2)


def test_more_labels_than_are_told_are_counted_together(file: IO[bytes]) -> None:
    one = np.eye(400, dtype=np.float32)
    labels = against(file, held(file, one), held(file, np.roll(one, 1, axis=1))).labels
    assert labels is not None
    assert (labels.rows, labels.mismatches, len(labels.labels)) == (400, 400, 256)
    assert (labels.other_rows, labels.other_missed) == (144, 144)


def test_nan_is_no_class_and_the_lowest_index_wins_a_tie(file: IO[bytes]) -> None:
    one = np.array([[np.nan, 1.0, 1.0], [np.nan, np.nan, np.nan]], np.float32)
    other = np.array([[0.0, 1.0, 1.0], [0.0, -1.0, -1.0]], np.float32)
    labels = against(file, held(file, one), held(file, other)).labels
    assert labels is not None
    assert (labels.rows, labels.mismatches) == (2, 0)


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({"nbytes": 1 << 40}, None),
        ({"shape": [1 << 30, 3]}, None),
        ({"shape": [2, 4]}, [0, 1, 2]),
        ({}, [0, 1, 7]),
        ({}, [0, 0, 0]),
        ({}, [0, 1]),
        ({"dtype": "int32"}, [0, 1, 2]),
    ],
)
def test_hostile_references_and_orders_are_no_crash(
    file: IO[bytes], changes: dict[str, Any], order: list[int] | None
) -> None:
    one = np.ones((2, 3), np.float32)
    row = against(file, held(file, one), held(file, one, **changes), order=order)
    assert not row.comparable
    assert row.labels is None


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (np.ones((2, 3), np.int32), "classes themselves are no scores"),
        (np.ones((2, 0), np.float32), "no column"),
        (np.ones((1, (1 << 15) + 1), np.float32), "more columns than one piece holds"),
        (np.float32(1), "no row"),
    ],
)
def test_what_has_no_rows_of_scores_is_compared_and_counts_no_labels(file: IO[bytes], one: Any, why: str) -> None:
    row = against(file, held(file, one), held(file, one), kind="values")
    assert (row.comparable, row.bit_exact, row.labels) == (True, True, None), why


def test_a_single_score_is_that_of_the_second_class(file: IO[bytes]) -> None:
    one, other = np.array([[0.75], [0.25], [0.5]], np.float32), np.array([[0.75], [0.75], [0.5]], np.float32)
    labels = against(file, held(file, one), held(file, other), kind="probabilities").labels
    assert labels is not None
    assert (labels.rows, labels.mismatches) == (3, 1)
    assert [(row.index, row.rows, row.missed) for row in labels.labels] == [(0, 2, 1), (1, 1, 0)]


@pytest.mark.parametrize(
    ("got", "note"),
    [
        (np.ones((2, 3), np.float64), "dtype"),
        (np.ones((3, 3), np.float32), "shape"),
        (np.ones((6,), np.float32), "shape"),
    ],
)
def test_columns_are_not_put_in_order_where_the_rows_are_others(file: IO[bytes], got: Any, note: str) -> None:
    one = held(file, np.ones((2, 3), np.float32))
    row = against(file, one, held(file, got), order=[2, 1, 0])
    assert (row.comparable, row.note, row.labels) == (False, note, None)
    boxed = one.model_copy(update={"value": SequenceRef(items=[one.value])})
    assert against(file, one, boxed, order=[2, 1, 0]).note == "kind"
