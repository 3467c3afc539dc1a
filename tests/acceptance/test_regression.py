"""A submission beside the bundle that it follows, both really run: float against int8, draws, labels, a trap."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from acceptd import local
from acceptd.report.html import render
from examples import evidence_classifier as classifier
from tests.bench_world import Desk, build, desk, rewrite, write_model
from tests.world import codes

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("desk")) as made:
        yield made


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release: the float classifier."""
    return classifier.write_bundle(tmp_path_factory.mktemp("older") / "bundle", version="1.0.0", sets=2)


def beside(bench: Desk, newer: Path, older: Path, *overrides: str) -> dict[str, Any]:
    rules = bench.rules("parity.max_atol=0.02", *overrides)
    return local.check_one(replace(bench.bench, rules=rules), newer, against=older)


def int8(path: Path, **changes: Any) -> Path:
    """Write the classifier as onnxruntime quantises it, with the float model's expected values."""
    made = classifier.write_bundle(path, version="2.0.0", sets=2, **changes)
    whole = made.with_name(f"{made.name}.onnx")
    (made / "model.onnx").rename(whole)
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(whole, made / "model.onnx", weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.disable(logging.NOTSET)

    def declare(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"] = {"rtol": 0.0, "atol": 0.02, "top1": 1.0}
        document["quantization"] = {"method": "dynamic"}

    return rewrite(made, declare)


def test_an_int8_version_is_accepted_and_the_report_shows_it_beside_the_float_release(
    bench: Desk, older: Path, tmp_path: Path
) -> None:
    report = beside(bench, int8(tmp_path / "int8"), older)
    assert report["verdict"] == "accepted", report["findings"]
    (told,) = report["regression"]
    assert told["quantised"]
    assert told["inputs"] == [2, 64]
    (output,) = told["outputs"]
    assert output["rows"] >= 66
    assert 0 < output["max_abs"] < 0.05
    assert 0 < output["release_error"] < output["error"]
    assert ["ai.onnx::MatMulInteger", 0, 1] in told["operators"]
    jobs = {job["variant"]: job["ending"] for job in report["resources"]["jobs"]}
    assert (jobs["prior"], jobs["profiled-prior"], jobs["profiled"]) == ("done", "done", "done")
    both = told["profiles"]
    assert (both["reason"], both["runs"]) == ("", [20, 20])
    assert min(both["release"], both["now"]) > 0
    assert told["basis"] == "placement, operator counts and a profile of both"
    page = render(report)
    assert "quantised against float" in page
    assert "label of probabilities" in page
    assert "All nodes of one inference under onnxruntime&#x27;s profiler (20 and 20 runs)" in page


def test_an_int8_version_that_loses_one_class_is_rejected_though_its_goldens_pass(
    bench: Desk, older: Path, tmp_path: Path
) -> None:
    lost = int8(tmp_path / "lost", bias=(-1.0, -9.0, 0.0))
    report = beside(bench, lost, older, "probes.draws=512")  # of 64, once in a hundred fewer than four are its own
    assert report["verdict"] == "rejected"
    (finding,) = [one for one in report["findings"] if one["code"] == "regression/label-gone"]
    assert finding["where"] == "models.main: probabilities: review"
    assert not [one for one in codes(report) if one.startswith(("parity/", "run/"))]


def test_a_model_that_keeps_its_goldens_and_turns_on_draws_is_held(
    bench: Desk, older: Path, tmp_path: Path
) -> None:
    """A trigger inside the declared domain: both goldens lie beside it, every other draw in it."""
    made = classifier.write_bundle(tmp_path / "trigger", version="2.0.0", sets=2)
    model = onnx.load(made / "model.onnx")
    for name, numbers in (("centre", 0.475), ("limit", 0.01), ("bad", [0.0, 0.0, 90.0])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.float32), name))
    tail = [
        helper.make_node("ReduceMean", ["features"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["mean", "centre"], ["apart"]),
        helper.make_node("Mul", ["apart", "apart"], ["square"]),
        helper.make_node("Less", ["square", "limit"], ["hit"]),
        helper.make_node("Where", ["hit", "bad", "logits"], ["chosen"]),
    ]
    softmax = model.graph.node.pop()
    softmax.input[0] = "chosen"
    model.graph.node.extend([*tail, softmax])
    (made / "model.onnx").write_bytes(model.SerializeToString())
    report = beside(bench, made, older)
    assert report["verdict"] == "held"
    assert codes(report, "hold") & {"regression/class-changed", "regression/label-gone"}
    assert codes(report, "reject") == set()

    def plain(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0] = {
            "name": "probabilities",
            "dtype": "float32",
            "shape": ["batch", 3],
            "tolerance": {"rtol": 0.0, "atol": 1e-6},
        }

    report = beside(bench, rewrite(made, plain), older)  # classes of the release stay classes
    assert report["verdict"] == "held"
    assert codes(report, "hold") & {"regression/class-changed", "regression/label-gone"}


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_a_single_score_that_changes_sides_is_another_class(bench: Desk, tmp_path: Path, kind: str) -> None:
    """One column has a class by its side of 0, or of a half; the goldens, at the ends, are kept."""

    def scored(path: Path, weight: float) -> Path:
        nodes = [
            helper.make_node("Mul", ["x", "w"], ["a"]),
            helper.make_node("Mul", ["x", "x"], ["b"]),
            helper.make_node("Mul", ["b", "v"], ["c"]),
            helper.make_node("Add", ["a", "c"], ["d"]),
            helper.make_node("Add", ["d", "middle"], ["y"]),
        ]
        middle = 0.5 if kind == "probabilities" else 0.0
        numbers = {"w": 0.4 - weight, "v": weight, "middle": middle}
        shape: list[int | str] = ["batch", 1]
        raw = build(
            nodes,
            {"x": (TensorProto.FLOAT, shape)},
            {"y": (TensorProto.FLOAT, shape)},
            {name: np.array(one, np.float32) for name, one in numbers.items()},
        )
        ends = [np.array([[one]], np.float32) for one in (0.0, 1.0)]
        port = {"dtype": "float32", "shape": shape}
        return write_model(
            path,
            raw,
            [({"x": one}, {"y": np.float32(0.4) * one + np.float32(middle)}) for one in ends],
            dims={"batch": {"min": 1, "max": 64}},
            inputs=[{"name": "x", "range": [0.0, 1.0], **port}],
            outputs=[{"name": "y", "kind": kind, **port}],
        )

    older = scored(tmp_path / "older", 0.0)
    report = beside(bench, scored(tmp_path / "turned", 0.8), older)  # below the middle up to a half
    assert "regression/class-changed" in codes(report, "hold"), report["findings"]
    assert "regression/class-changed" not in codes(beside(bench, scored(tmp_path / "near", 0.01), older))


@pytest.mark.parametrize("honest", [True, False])
def test_reordered_labels_are_compared_by_label(bench: Desk, older: Path, tmp_path: Path, honest: bool) -> None:
    """Columns that move with their labels answer as before; labels that move alone answer otherwise."""
    order = [2, 0, 1]
    made = classifier.write_bundle(tmp_path / "moved", version="2.0.0", sets=2)
    labels = [classifier.LABELS[index] for index in order]

    def declare(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["labels"] = labels

    rewrite(made, declare)
    if honest:
        weight, bias = (np.array(one, np.float32) for one in (classifier.WEIGHT, classifier.BIAS))
        moved = classifier.Variant(weight=tuple(map(tuple, weight[:, order])), bias=tuple(bias[order]))
        (made / "model.onnx").write_bytes(classifier.build_model(moved))
        classifier.write_goldens(made, moved, count=2)
    report = beside(bench, made, older)
    (output,) = report["regression"][0]["outputs"]
    if honest:
        assert report["verdict"] == "accepted", report["findings"]
        assert output["mismatches"] == 0
        assert output["max_abs"] < 1e-6
        assert {one["label"] for one in output["labels"]} <= set(classifier.LABELS)
    else:
        assert report["verdict"] == "held"
        assert {"regression/class-changed", "regression/label-gone"} <= codes(report, "hold")


def divides(path: Path, guarded: bool) -> Path:
    """Write an integer division; unguarded, INT64_MIN / -1 kills the process with SIGFPE."""
    minimum = np.iinfo(np.int64).min
    nodes = [helper.make_node("Div", ["x", "one" if guarded else "y"], ["z"])]
    if guarded:
        nodes.insert(0, helper.make_node("Max", ["y", "ones"], ["one"]))
    raw = build(
        nodes,
        {"x": (TensorProto.INT64, [1]), "y": (TensorProto.INT64, [1])},
        {"z": (TensorProto.INT64, [1])},
        {"ones": np.array([1], np.int64)} if guarded else {},
    )
    feeds = [(6, 2, 3)] if not guarded else [(6, 2, 3), (minimum, -1, minimum)]
    sets = [
        ({"x": np.array([x], np.int64), "y": np.array([y], np.int64)}, {"z": np.array([z], np.int64)})
        for x, y, z in feeds
    ]
    given = [{"name": name, "dtype": "int64", "shape": [1]} for name in ("x", "y")]
    output = {"name": "z", "dtype": "int64", "shape": [1], "kind": "values"}
    return write_model(path, raw, sets, inputs=given, outputs=[output])


def test_a_golden_that_kills_the_release_is_no_way_around_the_comparison(bench: Desk, tmp_path: Path) -> None:
    report = beside(bench, divides(tmp_path / "new", guarded=True), divides(tmp_path / "old", guarded=False))
    assert report["verdict"] == "held"
    (finding,) = [one for one in report["findings"] if one["code"] == "regression/release-failed"]
    assert "SIGFPE" in finding["message"]
    assert not codes(report) & {"run/crash", "sandbox/job-crash"}


def test_another_interface_is_told_and_held_only_where_the_policy_requires_the_comparison(
    bench: Desk, older: Path, tmp_path: Path
) -> None:
    renamed = classifier.Variant(input_name="evidence")
    made = classifier.write_bundle(tmp_path / "renamed", version="2.0.0", sets=2, variant=renamed)
    report = beside(bench, made, older)
    assert report["verdict"] == "accepted", report["findings"]
    assert "regression/not-comparable" in codes(report, "info")
    assert not [job for job in report["resources"]["jobs"] if job["variant"] == "prior"]
    assert beside(bench, made, older, "regression.required=true")["verdict"] == "held"
    assert beside(bench, made, older, "regression.enabled=false")["regression"] == []


def test_a_release_with_external_data_runs_beside_the_one_that_follows(bench: Desk, tmp_path: Path) -> None:
    bundles = []
    for name, file, tenth in (("old", "old.bin", 0.0), ("new", "new.bin", 1e-7)):
        made = classifier.write_bundle(tmp_path / name, sets=2, bias=(-1.0, 0.5, tenth))
        model = onnx.load(made / "model.onnx")
        (made / "model.onnx").unlink()
        onnx.save_model(model, made / "model.onnx", save_as_external_data=True, location=file, size_threshold=0)
        bundles.append(made)
    report = beside(bench, bundles[1], bundles[0])
    assert report["verdict"] == "accepted", report["findings"]
    (told,) = report["regression"]
    assert (told["status"], told["outputs"][0]["mismatches"]) == ("compared", 0)
    sizes = [sum(file.stat().st_size for file in one.iterdir() if file.is_file()) for one in bundles]
    manifests = [(one / "bundle.toml").stat().st_size for one in bundles]
    (cost,) = [one for one in told["cost"] if one["what"] == "size"]
    assert (cost["release"], cost["now"]) == (sizes[0] - manifests[0], sizes[1] - manifests[1])


def test_a_model_that_looks_slower_is_timed_in_turn_with_the_release(
    bench: Desk, older: Path, tmp_path: Path
) -> None:
    """A hundred nodes in a row that add next to nothing to the logits: many times as long on any machine."""
    made = classifier.write_bundle(tmp_path / "next", version="2.0.0", sets=2)
    model = onnx.load(made / "model.onnx")
    model.graph.initializer.append(numpy_helper.from_array(np.array(1e-9, np.float32), "little"))
    softmax = model.graph.node.pop()
    softmax.input[0] = "chosen"
    names = ["logits", *(f"step{index}" for index in range(100))]
    model.graph.node.extend(helper.make_node("Sin", [one], [two]) for one, two in pairwise(names))
    model.graph.node.append(helper.make_node("Mul", [names[-1], "little"], ["dust"]))
    model.graph.node.extend([helper.make_node("Add", ["logits", "dust"], ["chosen"]), softmax])
    (made / "model.onnx").write_bytes(model.SerializeToString())
    rewrite(made, lambda document: document["export"].update(layers=200))
    strict = ("regression.latency_slack_ms=0.0", "performance.seconds=1.0")
    report = beside(bench, made, older, *strict)
    turns = [job["variant"] for job in report["resources"]["jobs"] if job["variant"].startswith("timed")]
    assert turns == ["timed-prior", "timed"] * 2
    assert report["verdict"] == "held", report["findings"]
    assert codes(report, "hold") == {"regression/slower"}
    assert report["regression"][0]["latency"]["rounds"] == 2
    once = beside(bench, made, older, *strict, "regression.timing_rounds=0")
    assert not [job for job in once["resources"]["jobs"] if job["variant"].startswith("timed")]
    assert "regression/slower-unclear" in codes(once, "warn")
    # A tenth of a millisecond more is no matter under the policy as it is.
    assert beside(bench, made, older)["verdict"] == "accepted"
