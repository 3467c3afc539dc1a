"""The search for class boundaries: how close it comes, inside the ranges, and when it gives up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sandbox.draws import Probe
from sandbox.ports import Port, declared_ports
from sandbox.search import NearTies, ranked_output

pytestmark = pytest.mark.unit

Array = np.ndarray[Any, Any]


def ports(dtype: str = "float32", shape: tuple[int | str, ...] = ("batch", 2)) -> list[Port]:
    declared = {"name": "x", "dtype": dtype, "shape": list(shape), "range": [-10.0, 10.0]}
    found = declared_ports([declared], {})
    assert found is not None
    return found


def classes(feeds: dict[str, Array]) -> Array:
    """Class 1 where the first element is above 0.3, by a margin that grows with the distance."""
    first = feeds["x"].reshape(-1, 2)[:, 0].astype(np.float64)
    return np.stack([0.3 - first, first - 0.3], axis=1)


def searched(rows: int, x: Array, found: list[Port], limit: int = 1) -> tuple[list[Probe], NearTies]:
    search = NearTies(found, classes, rows=rows, batched=rows > 1)
    probe = Probe("probe:draws-0", True, {"x": x}, rows)
    search.add(probe, classes(probe.feeds))
    if rows == 1:
        other = Probe("probe:draws-1", True, {"x": -x}, 1)
        search.add(other, classes(other.feeds))
    return list(search.find(limit, lambda: True)), search


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_the_boundary_is_closed_in_on_however_many_rows_one_inference_has(rows: int) -> None:
    x = np.tile(np.array([[-7.0, 1.0], [9.0, -3.0]], np.float32), (rows // 2 or 1, 1))[:rows]
    (tie,), search = searched(rows, x, ports())
    assert tie.feeds["x"].shape == x.shape
    assert tie.in_domain
    nearest = np.abs(tie.feeds["x"][:, 0] - 0.3).min()
    assert nearest < 16 / 2**14, "half of the last step of 15 halvings of the way of 16"
    assert search.margin is not None
    assert search.margin <= 2 * nearest + 1e-6
    assert search.inferences <= 15


def test_whole_numbers_stay_whole_and_inside() -> None:
    (tie,), _ = searched(1, np.array([[-7, 10]], np.int8), ports("int8"))
    assert tie.feeds["x"].dtype == np.int8
    assert set(tie.feeds["x"][:, 0].tolist()) <= {0, 1}


def test_a_model_that_fails_or_time_that_is_up_ends_the_search() -> None:
    x = np.array([[-7.0, 1.0], [9.0, -3.0]], np.float32)
    search = NearTies(ports(), lambda _feeds: None, rows=2, batched=True)
    search.add(Probe("", True, {"x": x}, 2), classes({"x": x}))
    assert search.classes == 2
    assert list(search.find(4, lambda: True)) == []
    assert search.inferences == 1
    again = NearTies(ports(), classes, rows=2, batched=True)
    again.add(Probe("", True, {"x": x}, 2), classes({"x": x}))
    assert list(again.find(4, lambda: False)) == []


@pytest.mark.parametrize(
    "output",
    [np.zeros((2, 1)), np.zeros((0, 3)), np.full((2, 3), np.nan), np.zeros((3, 5))[:, :0], np.zeros((3, 3))],
    ids=["one class", "no row", "not a number", "no class", "another count of rows"],
)
def test_outputs_without_classes_are_left_out(output: Array) -> None:
    search = NearTies(ports(), classes, rows=2, batched=True)
    search.add(Probe("", True, {"x": np.zeros((2, 2), np.float32)}, 2), output)
    assert (search.classes, search.margin) == (0, None)


def test_only_logits_and_probabilities_with_several_classes_are_searched() -> None:
    values = {"kind": "values", "shape": ["batch", 3]}
    one = {"kind": "probabilities", "shape": ["batch", 1]}
    several = {"kind": "logits", "shape": ["batch", 3]}
    assert ranked_output([values, one, several]) == 2
    assert ranked_output([values, one, {"kind": "logits", "shape": None}]) is None
