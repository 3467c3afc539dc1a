"""What the comparer measures of goldens beside parity: inputs in their ranges, answers on labelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from acceptd.compare.blob import Blob
from acceptd.compare.quality import quality
from acceptd.compare.ranges import measure
from acceptd.compare.task import Bounded, Labelled, Slice
from acceptd.evidence import InputStats, QualityStats, TensorRef
from tests.unit.test_compare_values import Store

pytestmark = pytest.mark.unit


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.close()


def blobs(store: Store) -> dict[str, Blob]:
    return {"f": Blob(store._file.fileno())}


# -- ranges


def bounded(store: Store, ref: TensorRef, low: float, high: float) -> InputStats:
    value = Slice(file="f", value=ref)
    return measure(Bounded(set="s", model="main", input="x", value=value, low=low, high=high), blobs(store))


def test_an_element_outside_is_counted_and_the_furthest_is_named(store: Store) -> None:
    array = np.zeros((3, 4), np.float32)
    array[1, 2], array[2, 0] = 1.5, -3.0
    found = bounded(store, store.tensor(array), 0.0, 1.0)
    assert (found.n, found.outside, found.worst_index, found.worst) == (12, 2, [2, 0], "-3.0")


def test_nan_is_in_no_range(store: Store) -> None:
    found = bounded(store, store.tensor(np.array([0.5, np.nan, 9.0], np.float32)), 0.0, 1.0)
    assert (found.outside, found.worst_index, found.worst) == (2, [1], "nan")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_bound_is_taken_in_the_inputs_own_precision(dtype: str, store: Store) -> None:
    """float32(0.1) is more than 0.1, and the loader takes it all the same."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.array([0.1, 0.7], np.float64).astype(kind)
    assert bounded(store, store.tensor(array, dtype), 0.1, 0.7).outside == 0


def test_integers_are_exact_and_the_last_chunk_counts(store: Store) -> None:
    array = np.zeros((1 << 18) + 3, np.int64)
    array[-1] = 2**62
    assert bounded(store, store.tensor(array), 0, 2**62 - 1).outside == 0, "a range is a pair of floats"
    assert bounded(store, store.tensor(array), 0, 2**61).worst_index == [(1 << 18) + 2]


def test_a_reference_that_lies_is_not_comparable(store: Store) -> None:
    lie = TensorRef(dtype="float32", shape=[1 << 20], offset=0, nbytes=4 << 20)
    assert not bounded(store, lie, 0.0, 1.0).comparable
    assert bounded(store, store.tensor(np.zeros((0, 4), np.float32)), 0.0, 1.0).comparable


# -- labelled rows


def labelled(store: Store, got: Any, labels: Any, slices: list[str] | None = None, **changes: Any) -> Labelled:
    fields: dict[str, Any] = {
        "set": "s",
        "model": "main",
        "output": "y",
        "kind": "probabilities",
        "got": Slice(file="f", value=got if isinstance(got, TensorRef) else store.tensor(got)),
        "labels": Slice(file="f", value=store.tensor(np.asarray(labels, np.int64))),
        "slices": None if slices is None else Slice(file="f", value=store.strings(*slices)),
    }
    return Labelled.model_validate(fields | changes)


def figures(store: Store, *tasks: Labelled) -> dict[str | None, QualityStats]:
    return {one.slice: one for one in quality(tasks, blobs(store))}


def rows_of(seed: int, count: int, width: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(count, width))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probabilities, generator.integers(0, width, count)


def plain_calibration(probabilities: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """Guo et al. 2017, section 2, written down element by element."""
    total = 0.0
    for number in range(15):
        inside = [
            index
            for index, row in enumerate(probabilities)
            if number / 15 < row.max() <= (number + 1) / 15 or (number == 0 and row.max() == 0)
        ]
        if inside:
            accuracy = sum(probabilities[index].argmax() == labels[index] for index in inside) / len(inside)
            confidence = sum(probabilities[index].max() for index in inside) / len(inside)
            total += len(inside) / len(labels) * abs(accuracy - confidence)
    return total


def test_figures_are_those_of_a_plain_computation(store: Store) -> None:
    probabilities, labels = rows_of(3, 500, 4)
    found = figures(store, labelled(store, probabilities, labels))[None]
    wrong = probabilities.argmax(axis=1) != labels
    assert found.rows == 500
    assert found.accuracy == 1 - wrong.mean()
    assert found.brier == pytest.approx(((probabilities - np.eye(4)[labels]) ** 2).sum(axis=1).mean(), rel=1e-12)
    assert found.calibration_error == pytest.approx(plain_calibration(probabilities, labels), rel=1e-9)
    assert [(one.label, one.support, one.false_negatives) for one in found.classes] == [
        (label, int((labels == label).sum()), int((wrong & (labels == label)).sum())) for label in range(4)
    ]


def test_a_confidence_on_an_edge_is_in_the_lower_bin_and_the_first_bin_is_its_own(store: Store) -> None:
    edge = np.array([[0.6, 0.4], [0.61, 0.39]])
    found = figures(store, labelled(store, edge, [1, 0]))[None]
    assert found.calibration_error == pytest.approx((0.6 + 0.39) / 2)
    many = np.zeros((2, 40))
    many[0], many[1, 0], many[1, 1:] = 1 / 40, 0.12, 0.88 / 39
    found = figures(store, labelled(store, many, [5, 0]))[None]
    assert found.calibration_error == pytest.approx((1 / 40 + 0.88) / 2)


def test_sets_are_one_whole_and_slices_are_told_apart(store: Store) -> None:
    probabilities, labels = rows_of(4, 90, 3)
    names = ["day", "night"] * 20
    first = labelled(store, probabilities[:40], labels[:40], names)
    second = labelled(store, probabilities[40:], labels[40:], ["night"] * 50)
    found = figures(store, first, second)
    night = np.array([name == "night" for name in names] + [True] * 50)
    hits = probabilities.argmax(axis=1) == labels
    assert {name: one.rows for name, one in found.items()} == {None: 90, "day": 20, "night": 70}
    assert found["night"].accuracy == hits[night].mean()
    assert found[None].accuracy == hits.mean()
    assert found["day"].calibration_error == pytest.approx(
        plain_calibration(probabilities[~night], labels[~night])
    )


def test_logits_go_through_softmax_and_huge_ones_do_not_overflow(store: Store) -> None:
    logits = np.array([[1000.0, 0.0], [0.0, 1000.0], [np.log(3), 0.0]], np.float32)
    found = figures(store, labelled(store, logits, [0, 0, 0], kind="logits"))[None]
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.brier == pytest.approx((0 + 2 + 2 * 0.25**2) / 3, rel=1e-6)


@pytest.mark.parametrize(("kind", "values"), [("probabilities", [0.9, 0.2]), ("logits", [2.1972246, -1.3862944])])
def test_a_single_column_is_the_class_1_against_0(kind: str, values: list[float], store: Store) -> None:
    array = np.array(values, np.float32).reshape(2, 1)
    found = figures(store, labelled(store, array, [1, 1], kind=kind))[None]
    assert (found.accuracy, found.classes[0].false_negatives) == (0.5, 1)
    assert found.brier == pytest.approx((2 * 0.1**2 + 2 * 0.8**2) / 2, rel=1e-5)


def test_an_output_of_classes_has_no_probabilities(store: Store) -> None:
    found = figures(store, labelled(store, np.array([2, 1, 0], np.int64), [2, 1, 1], kind="values"))[None]
    assert found.accuracy == pytest.approx(2 / 3)
    assert (found.calibration_error, found.brier) == (None, None)


def test_a_tie_is_the_lowest_class_and_nan_is_none(store: Store) -> None:
    rows = np.array([[0.5, 0.5], [np.nan, 0.4]], np.float32)
    found = figures(store, labelled(store, rows, [0, 1]))[None]
    assert found.accuracy == 1.0
    assert found.calibration_error is None, "a row with NaN is no probability"


FAULTS: dict[str, tuple[Any, Any, list[str] | None, str]] = {
    "too few labels": (np.full((3, 2), 0.5), [0, 1], None, "2 labels for an output [3, 2]"),
    "a class that the output has not": (
        np.full((2, 2), 0.5),
        [0, 2],
        None,
        "label 2, but the output has 2 classes",
    ),
    "too few slices": (np.full((2, 2), 0.5), [0, 1], ["a"], "1 slices for 2 labels"),
    "complex numbers whose real parts are the labels": (
        np.array([0 + 9j, 1 - 9j], np.complex64),
        [0, 1],
        None,
        "complex64 numbers are no classes",
    ),
    "a row of complex scores": (np.ones((2, 2), np.complex128), [0, 1], None, "complex128 numbers are no classes"),
    "one label for each element of a matrix": (np.full((2, 2), 0.5), [0, 1, 1, 0], None, "4 labels for an output"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_labels_that_do_not_go_with_the_output_give_no_figure(name: str, store: Store) -> None:
    got, labels, slices, said = FAULTS[name]
    (found,) = quality([labelled(store, got, labels, slices)], blobs(store))
    assert said in found.note
    assert found.rows == 0


def test_more_slices_than_can_be_told_give_no_figure(store: Store) -> None:
    count = 65
    task = labelled(store, np.full((count, 2), 0.5), [0] * count, [f"s{index}" for index in range(count)])
    assert "more than 64 slices" in quality([task], blobs(store))[0].note


def test_hostile_references_never_raise(store: Store) -> None:
    lie = TensorRef(dtype="float32", shape=[4, 2], offset=1 << 40, nbytes=32)
    missing = labelled(store, lie, [0] * 4).model_copy(update={"output": "gone", "got": None})
    found = quality([labelled(store, lie, [0] * 4), missing], blobs(store))
    assert [one.note for one in found] == ["malformed", "s: the run gave no tensor of this output"]


@pytest.mark.parametrize(
    "got",
    [
        np.array([[np.nan, np.nan], [0.9, 0.1]], np.float32),
        np.array([np.nan, 0.1], np.float32),
    ],
    ids=["a row of NaN", "a lone NaN"],
)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_a_row_of_nan_is_right_about_no_class(got: Any, kind: str, store: Store) -> None:
    second = 1 if got.ndim == 1 and kind == "logits" else 0
    found = figures(store, labelled(store, got, [0, second], kind=kind))[None]
    assert (found.accuracy, found.brier, found.calibration_error) == (0.5, None, None)
    assert found.classes[0].false_negatives == 1
