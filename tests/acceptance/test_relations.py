"""Draws and relations under all walls: threads and calls find their room, what breaks a relation is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from examples import evidence_classifier as classifier
from examples.hostile_models import node
from tests.bench_world import Desk, build, desk, write_model
from tests.world import codes

pytestmark = pytest.mark.acceptance

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
PATIENT = ("probes.seconds=600", "probes.relations_seconds=600")
"""A busy machine must not leave out what a test looks for."""
BATCH = {"batch": {"min": 1, "max": 32}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("relations")) as made:
        yield made


def told(report: dict[str, Any], scope: str) -> dict[str, Any]:
    (found,) = [one for one in report["probed"] if one["scope"] == scope]
    return dict(found)


def test_an_honest_model_meets_every_draw_and_every_relation_within_all_walls(place: Desk, tmp_path: Path) -> None:
    classifier.write_bundle(tmp_path / "good")
    report = place.check(tmp_path / "good", *PATIENT)
    assert (report["verdict"], codes(report, "reject", "hold", "warn")) == ("accepted", set())
    assert {state for name, state in report["walls"].items() if name in place.rules().policy.required_walls} == {
        "enforced"
    }
    inside, relations = told(report, "inside"), told(report, "relations")
    assert (inside["counts"]["draws"], inside["classes"], inside["left_out"]) == (64, 3, [])
    assert (relations["concurrent"], relations["sizes"], relations["left_out"]) == (4, [1, 32, 7, 1], [])
    rows = {row["against"]: row for row in report["parity"]}
    assert {"row", "order", "batch", "threads", "fresh", "concurrent"} <= set(rows)
    assert all(rows[one]["comparable"] for one in rows)


def test_too_few_threads_leave_calls_at_once_out_and_say_so(place: Desk, tmp_path: Path) -> None:
    classifier.write_bundle(tmp_path / "good")
    report = place.check(tmp_path / "good", "limits.threads=3", *PATIENT)
    assert report["verdict"] == "accepted"
    assert "behaviour/probes-left-out" in codes(report, "info")
    assert [part["what"] for part in told(report, "relations")["left_out"]] == ["meta:concurrent-4"]


def test_beyond_the_bytes_of_weights_the_second_process_packs_nothing_and_says_what_it_left_out(
    place: Desk, tmp_path: Path
) -> None:
    """A model of one byte too many, and a quantised one, whose kernels would be others: fewer sessions."""
    classifier.write_bundle(tmp_path / "good")
    report = place.check(tmp_path / "good", "probes.packed_bytes=1", *PATIENT)
    assert (report["verdict"], codes(report, "reject", "hold", "warn")) == ("accepted", set())
    left = [(part["what"], part["reason"]) for part in told(report, "relations")["left_out"]]
    assert left == [("a fresh process", "probes.packed_bytes")]
    kinds = {row["against"] for row in report["parity"]}
    assert {"row", "order", "batch", "threads", "concurrent"} <= kinds
    assert "fresh" not in kinds
    few = place.check(quantised(tmp_path / "int8"), "probes.packed_bytes=1", *PATIENT)
    assert few["verdict"] == "accepted", few["reason"]
    left = [(part["what"], part["reason"]) for part in told(few, "relations")["left_out"]]
    assert left == [("relations", "probes.packed_bytes")]
    (finding,) = [one for one in few["findings"] if one["message"] == "not tried: relations (probes.packed_bytes)"]
    assert (finding["code"], finding["severity"]) == ("behaviour/probes-left-out", "info")


def quantised(path: Path) -> Path:
    """Three numbers through eight bits and back."""
    raw = build(
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
        ],
        {"x": (FLOAT, ["batch", 3])},
        {"y": (FLOAT, ["batch", 3])},
        {"scale": np.array(0.0078125, np.float32), "zero": np.array(0, np.int8)},
    )
    rows = np.array([[0.5, -0.5, 0.25]], np.float32)
    value = {"dtype": "float32", "shape": ["batch", 3]}
    return write_model(
        path,
        raw,
        [({"x": rows}, {"y": rows})],
        dims=BATCH,
        inputs=[{"name": "x", **value, "range": [-1.0, 1.0]}],
        outputs=[{"name": "y", **value}],
    )


def softmax_over_the_batch(path: Path, **table: Any) -> Path:
    rows = np.array([[0.5, -0.5, 0.25]], np.float32)
    raw = build(
        [node("Softmax", ["x"], ["y"], axis=0)], {"x": (FLOAT, ["batch", 3])}, {"y": (FLOAT, ["batch", 3])}
    )
    value = {"dtype": "float32", "shape": ["batch", 3]}
    return write_model(
        path,
        raw,
        [({"x": rows}, {"y": np.ones((1, 3), np.float32)})],
        dims=BATCH,
        inputs=[{"name": "x", **value, "range": [-1.0, 1.0]}],
        outputs=[{"name": "y", **value}],
        **table,
    )


def test_rows_that_influence_each_other_are_held_unless_that_is_declared(place: Desk, tmp_path: Path) -> None:
    held = place.check(softmax_over_the_batch(tmp_path / "plain"), *PATIENT)
    assert held["verdict"] == "held"
    assert "behaviour/row-dependence" in codes(held, "hold")
    declared = place.check(softmax_over_the_batch(tmp_path / "declared", rows_interact=True), *PATIENT)
    assert declared["verdict"] == "accepted", declared["reason"]
    assert "behaviour/rows-interact-declared" in codes(declared, "info")


def deadly(path: Path, at: int) -> Path:
    """Eight whole numbers from 0 to 20: where one is ``at``, the process dies of the least integer over -1."""
    raw = build(
        [
            node("Equal", ["x", "at"], ["hit"]),
            node("Where", ["hit", "least", "x"], ["chosen"]),
            node("Div", ["chosen", "minus_one"], ["y"]),
        ],
        {"x": (INT64, [1, 8])},
        {"y": (INT64, [1, 8])},
        {"at": np.array([at]), "least": np.array([-(2**63)]), "minus_one": np.array([-1])},
    )
    rows = np.full((1, 8), 3)
    value = {"dtype": "int64", "shape": [1, 8]}
    return write_model(
        path,
        raw,
        [({"x": rows}, {"y": -rows})],
        inputs=[{"name": "x", **value, "range": [0.0, 20.0]}],
        outputs=[{"name": "y", **value}],
    )


def test_a_crash_on_one_number_of_the_declared_range_is_met_by_draws_and_not_excused(
    place: Desk, tmp_path: Path
) -> None:
    report = place.check(deadly(tmp_path / "inside", 7), *PATIENT)
    assert report["verdict"] == "rejected"
    assert "run/crash" in codes(report, "reject")
    assert "behaviour/probe-crash-outside" not in codes(report)
    outside = place.check(deadly(tmp_path / "outside", 40), *PATIENT)
    assert outside["verdict"] == "accepted", outside["reason"]
    (finding,) = [one for one in outside["findings"] if one["code"] == "behaviour/probe-crash-outside"]
    assert finding["message"].startswith("SIGFPE")
    assert finding["message"].endswith("the one after 'probe:below'"), "and it is named by the last that passed"
