"""Draws: the same in every process, inside the declared domain, however many one inference takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandbox.draws import Probe, draws
from sandbox.ports import declared_ports

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
X: dict[str, Any] = {"name": "x", "dtype": "float32", "shape": ["batch", 4], "range": [-1.0, 2.0]}
Y: dict[str, Any] = {"name": "y", "dtype": "float32", "shape": ["batch", 3]}


def made(
    inputs: list[dict[str, Any]],
    outputs: list[dict[str, Any]],
    most: int = 32,
    least: int = 1,
    count: int = 64,
    golden: dict[str, Any] | None = None,
    seed: str = "ab",
    max_elements: int = 100_000,
) -> list[Probe]:
    found = declared_ports(inputs, golden or {})
    assert found is not None
    dims = {"batch": {"min": least, "max": most}, "length": {"min": 1, "max": 9}}
    return list(draws(found, outputs, dims, seed=seed, count=count, max_elements=max_elements))


def rows(probes: list[Probe], name: str = "x") -> np.ndarray[Any, Any]:
    return np.concatenate([probe.feeds[name].reshape(probe.rows, -1) for probe in probes])


def test_rows_of_a_bounded_batch_are_draws_of_their_own() -> None:
    probes = made([X], [Y])
    assert [probe.rows for probe in probes] == [32, 32]
    assert all(probe.in_domain for probe in probes)
    drawn = rows(probes)
    assert len(np.unique(drawn, axis=0)) > 56, "corners of four elements may meet"
    assert drawn.min() >= -1
    assert drawn.max() <= 2
    assert drawn.dtype == np.float32


@pytest.mark.parametrize("most", [1, 5, 64])
def test_a_draw_has_the_same_values_however_many_one_inference_takes(most: int) -> None:
    assert (rows(made([X], [Y], most=most)) == rows(made([X], [Y], most=32))).all()


def test_every_eighth_draw_is_a_corner_of_the_range() -> None:
    drawn = rows(made([X], [Y]))
    corners = [number for number, row in enumerate(drawn) if set(row.tolist()) <= {-1.0, 2.0}]
    assert corners == list(range(7, 64, 8))


def test_whole_numbers_stay_in_their_range_to_both_ends() -> None:
    ids = {"name": "x", "dtype": "int8", "shape": ["batch", 50], "range": [-128.0, 127.0]}
    drawn = rows(made([ids], [Y]))
    assert (drawn.min(), drawn.max()) == (-128, 127)
    wide = {"name": "x", "dtype": "uint64", "shape": ["batch", 50], "range": [0.0, 2.0**70]}
    assert rows(made([wide], [Y])).max() == 2**64 - 1


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([X], [{**Y, "shape": [3]}]),
        ([X], [{**Y, "shape": ["batch", "batch"]}]),
        ([{**X, "shape": ["length", 4]}], [Y]),
        ([X, {"name": "t", "dtype": "float32", "shape": [], "range": [0, 1]}], [Y]),
    ],
    ids=["an output without it", "an output with it twice", "another name", "an input of all rows"],
)
def test_rows_that_are_no_examples_of_their_own_are_not_gathered(
    inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]
) -> None:
    probes = made(inputs, outputs)
    assert [probe.rows for probe in probes] == [1] * 64


def test_a_least_batch_is_kept_and_large_inputs_are_drawn_alone() -> None:
    assert [probe.rows for probe in made([X], [Y], least=5, most=6, count=8)] == [6, 5]
    image = {**X, "shape": ["batch", 3, 200, 200]}
    assert [probe.rows for probe in made([image], [Y], count=2, max_elements=10**6)] == [1, 1]
    assert made([image], [Y], count=2, max_elements=100_000) == []


def test_nothing_is_drawn_where_something_is_not_declared() -> None:
    assert made([{**X, "range": None}], [Y]) == []
    assert made([{**X, "shape": ["batch", "?"]}], [Y]) == []
    held = {"name": "rate", "dtype": "int64", "shape": [1]}
    assert made([X, held], [Y]) == []
    probes = made([X, held], [Y], golden={"rate": np.array([16000])})
    assert [probe.feeds["rate"].tolist() for probe in probes] == [[16000], [16000]]


def test_a_fresh_process_makes_the_same_draws_from_what_is_declared_alone() -> None:
    code = f"""
import json
from sandbox.draws import draws
from sandbox.ports import declared_ports
found = declared_ports([{X!r}], {{}})
made = draws(found, [{Y!r}], {{"batch": {{"min": 1, "max": 32}}}}, seed="ab", count=9, max_elements=1000)
print(json.dumps([probe.feeds["x"].tolist() for probe in made]))
"""
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == [probe.feeds["x"].tolist() for probe in made([X], [Y], count=9)]
    assert made([X], [Y], seed="ac")[0].feeds["x"].tolist() != made([X], [Y])[0].feeds["x"].tolist()
