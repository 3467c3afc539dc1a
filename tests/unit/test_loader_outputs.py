"""What the loader refuses to hand on: outputs that break the accepted interface (FIXTURE, output validation)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acceptd.errors import InvalidOutputError
from acceptd.loader_values import check_output
from acceptd.release.interface import Spec, interface

pytestmark = pytest.mark.unit

DIMS = {"batch": (1, 32)}


def _spec(dtype: str = "float32", **more: Any) -> Spec:
    shape = more.pop("shape", ("batch", 3))
    kind = more.pop("kind", "probabilities")
    return Spec("probabilities", dtype, "tensor", shape, kind=kind, labels=more.pop("labels", ("a", "b", "c")))


def _check(rows: Any, dtype: str = "float32", **more: Any) -> None:
    check_output(_spec(dtype, **more), np.array(rows, dtype), DIMS, {"batch": len(rows)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "row",
    [
        [1.0, 0.0, 0.0],
        [0.2, 0.3, 0.5],
        [1 / 3, 1 / 3, 1 / 3],
        [0.5001, 0.3, 0.2],
        [0.5001, 0.5, 0.0],
        [0.4999, 0.5, 0.0],
        [0.3334, 0.3333, 0.3334],
        [0.9999, 0.0, 0.0],
    ],
)
def test_a_sum_of_one_and_exactly_1e_4_beside_it_passes(dtype: str, row: list[float]) -> None:
    _check([row], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "row", [[0.500101, 0.5, 0.0], [0.5002, 0.3, 0.2], [0.499899, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
)
def test_a_sum_beyond_1e_4_is_refused(dtype: str, row: list[float]) -> None:
    with pytest.raises(InvalidOutputError, match="sums to"):
        _check([[0.2, 0.3, 0.5], row], dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_next_number_after_the_bound_is_refused(dtype: str) -> None:
    """[x, 0.5, 0] with x as close above 0.5001 as the dtype can say, beside the bound itself."""
    bound = np.array(0.5001, dtype)
    _check([[bound, 0.5, 0.0]], dtype)
    step = bound
    for _ in range(3):  # the rounding of three elements is at most as much
        step = np.nextafter(step, np.array(1, dtype), dtype=dtype)
    with pytest.raises(InvalidOutputError, match="sums to"):
        _check([[step, 0.5, 0.0]], dtype)


@pytest.mark.parametrize(
    "row",
    [
        [-1e-9, 0.5, 0.5],
        [1.0000002, 0.0, 0.0],
        [np.nan, 0.5, 0.5],
        [np.inf, 0.0, 0.0],
        [-np.inf, 0.5, 0.5],
        [2.0, -1.0, 0.0],
    ],
)
def test_an_element_that_is_no_probability(row: list[float]) -> None:
    with pytest.raises(InvalidOutputError, match=r"probability|NaN"):
        _check([[0.2, 0.3, 0.5], row])


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((1, 2), np.float32),
        np.zeros((1, 4), np.float32),
        np.zeros(3, np.float32),
        np.zeros((1, 1, 3), np.float32),
        np.full((2, 3), 1 / 3, np.float32),
        np.full((1, 3), 1 / 3),
        np.full((1, 3), 1 / 3, np.float16),
        [[0.2, 0.3, 0.5]],
        None,
    ],
    ids=["two", "four", "rank-1", "rank-3", "batch-2-of-1", "float64", "float16", "a-list", "nothing"],
)
def test_an_output_of_another_shape_or_type(value: Any) -> None:
    with pytest.raises(InvalidOutputError):
        check_output(_spec(), value, DIMS, {"batch": 1})


def test_labels_and_width_must_agree_also_where_the_width_is_open() -> None:
    with pytest.raises(InvalidOutputError, match="3 labels"):
        _check([[0.5, 0.5]], shape=("batch", "?"))


def test_a_single_sigmoid_need_not_sum_to_one() -> None:
    _check([[0.25], [0.5]], shape=("batch", 1), labels=())
    with pytest.raises(InvalidOutputError):
        _check([[1.5]], shape=("batch", 1), labels=())


def test_logits_may_be_anything_finite() -> None:
    _check([[-7.5, 1e30, 3.0]], kind="logits")
    with pytest.raises(InvalidOutputError, match="NaN"):
        _check([[np.nan, 0.0, 0.0]], kind="logits")


def test_integers_have_no_nan() -> None:
    check_output(_spec("int64", kind="values", labels=()), np.zeros((1, 3), np.int64), DIMS, {"batch": 1})


@pytest.mark.parametrize("value", [[{"a": float("nan")}], [np.array([1.0, np.inf])], {"a": np.float32("nan")}])
def test_nan_inside_sequences_and_maps(value: Any) -> None:
    spec = Spec("scores", "float32", "sequence", None)
    check_output(spec, [{"a": 1.0}, np.array([1.0])], {}, {})
    with pytest.raises(InvalidOutputError):
        check_output(spec, value, {}, {})


@pytest.mark.parametrize(
    ("tolerance", "method", "sum_error"),
    [
        (None, None, 1e-4),
        ({"atol": 1e-6, "rtol": 0.0}, None, 1e-4),
        ({"atol": 5e-3, "rtol": 0.0}, None, 5e-3),
        ({"atol": 9.0, "rtol": 0.0}, None, 0.02),
        (None, "static", 0.02),
        (None, "weight-only", 1e-4),
        ({"limits": {"max_sum_error": 2e-4}}, "static", 2e-4),
        ({"limits": {"max_sum_error": 1.0}}, None, 0.02),
    ],
)
def test_the_sum_keeps_what_the_release_declares_and_never_more_than_a_fiftieth(
    tolerance: Any, method: str | None, sum_error: float
) -> None:
    output = {"name": "p", "dtype": "float64", "kind": "probabilities", "tolerance": tolerance}
    table = {"inputs": [], "outputs": [output], "quantization": {"method": method} if method else None}
    (spec,) = interface({"dims": {}}, table).outputs
    assert spec.sum_error == sum_error
    check_output(spec, np.array([[0.5, 0.5 + sum_error]]), {}, {})
    with pytest.raises(InvalidOutputError, match=f"not 1 within {sum_error:g}"):
        check_output(spec, np.array([[0.5, 0.5 + sum_error * 1.001]]), {}, {})
