"""Smoke sets, origins, declared ranges, labelled rows and fixtures, through the real rooms."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from examples import evidence_classifier as classifier
from examples.bundle_text import toml_text, write_set
from examples.evidence_classifier import Variant, golden_inputs, oracle
from tests.bench_world import Desk, desk, rewrite, write_model
from tests.run_world import model_bytes, tensor_info
from tests.world import codes

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("sets"), contract=True) as made:
        yield made


def spec(bundle: Path, *tables: dict[str, Any]) -> Path:
    return rewrite(bundle, lambda document: document["models"][0].update(vectors=list(tables)))


GOLDEN = {"sets": ["test_data_set_*"], "origin": "float64 numpy oracle"}


def smoke_inputs(folder: Path, features: Any) -> None:
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(features, "features").SerializeToString())


def test_smoke_sets_run_and_are_counted_apart(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=2)
    smoke_inputs(bundle / "example", np.full((3, 4), 0.5, np.float32))
    (bundle / "more").mkdir()
    np.savez(bundle / "more" / "inputs.npz", features=np.full((1, 4), 0.25, np.float32))
    own = {"sets": ["test_data_set_1"], "origin": "onnxruntime 1.32"}
    spec(bundle, {**GOLDEN, "sets": ["test_data_set_0"]}, own, {"sets": ["example", "more"]})
    report = place.check(bundle)
    assert report["verdict"] == "accepted", report["findings"]
    (model,) = report["goldens"]["models"]
    assert (model["parity"], model["regression"], model["undeclared"], model["smoke"]) == (1, 1, 0, 2)
    rows = {(row["set"], row["against"]) for row in report["parity"]}
    assert ("example", "golden") not in rows
    assert ("example", "repeat") in rows, "it was run"
    assert {one["where"] for one in report["findings"] if one["code"] == "vectors/smoke-only"} == {
        "example",
        "more",
    }


def test_a_smoke_input_that_breaks_the_model_rejects(place: Desk, tmp_path: Path) -> None:
    """INT64_MIN / -1 is SIGFPE: an example input may show it as a golden does."""
    node = helper.make_node("Div", ["x", "d"], ["y"])
    ports = [tensor_info(name, TensorProto.INT64, ["n"]) for name in ("x", "d", "y")]
    one = {"x": np.array([4]), "d": np.array([2])}
    port = {"dtype": "int64", "shape": ["n"]}
    bundle = write_model(
        tmp_path / "b",
        model_bytes([node], ports[:2], ports[2:]),
        [(one, {"y": np.array([2])})],
        dims={"n": {"min": 1, "max": 4}},
        inputs=[{"name": "x", **port}, {"name": "d", **port}],
        outputs=[{"name": "y", **port}],
    )
    write_set(bundle / "bad", {"x": np.array([np.iinfo(np.int64).min]), "d": np.array([-1])}.items(), ())
    assert "run/crash" not in codes(place.check(bundle, "probes.enabled=false"))
    spec(bundle, GOLDEN, {"sets": ["bad"]})
    report = place.check(bundle, "probes.enabled=false")
    assert report["verdict"] == "rejected"
    assert "run/crash" in codes(report, "reject")


def test_smoke_sets_alone_are_no_golden(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=0)
    smoke_inputs(bundle / "example", np.full((3, 4), 0.5, np.float32))
    spec(bundle, {"sets": ["example"], "origin": "float64 numpy oracle"})
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"vectors/missing"})
    report = place.check(bundle, "vectors.required=false")
    assert report["verdict"] == "accepted", report["findings"]


@pytest.mark.parametrize("kind", ["golden", "smoke"])
def test_an_input_outside_its_declared_range_is_rejected_and_named(kind: str, place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=1)
    features = np.full((2, 4), 0.5, np.float32)
    features[1, 3] = 1.25
    if kind == "golden":
        expected = oracle(features)["probabilities"].astype(np.float32)
        write_set(bundle / "far", [("features", features)], [("probabilities", expected)])
    else:
        smoke_inputs(bundle / "far", features)
    spec(bundle, GOLDEN, {"sets": ["far"], "origin": "float64 numpy oracle"})
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    (one,) = [one for one in report["findings"] if one["code"] == "vectors/input-range"]
    assert one["where"] == "main: far: features"
    assert "1 of 8 elements" in one["message"]
    assert "[1, 3]: 1.25" in one["message"]


def test_parity_is_not_shown_by_the_runtimes_own_values(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=2)
    for origin, required, verdict, said in (
        ("onnxruntime 1.32", "true", "rejected", {"vectors/regression-only"}),
        (None, "true", "held", {"vectors/origin-undeclared"}),
        ("float64 numpy oracle", '["float64 *"]', "accepted", set()),
    ):
        spec(bundle, {"sets": ["test_data_set_*"]} | ({"origin": origin} if origin else {}))
        report = place.check(bundle, f"vectors.require_origin={required}")
        assert (report["verdict"], codes(report, "reject", "hold")) == (verdict, said), origin


# -- labelled rows


def labelled(bundle: Path, *, wrong: int = 3) -> Path:
    """Add 32 rows whose labels are the model's own answers but for the first ``wrong``, in two slices."""
    features = golden_inputs(Variant(), 9)[-1]
    classes = oracle(features)["probabilities"].argmax(axis=1)
    classes[:wrong] = (classes[:wrong] + 1) % 3
    smoke_inputs(bundle / "labelled", features)
    np.save(bundle / "labelled" / "labels.npy", classes)
    names = ["night" if index < 8 else "day" for index in range(len(classes))]
    (bundle / "labelled" / "slices.txt").write_text("\n".join(names) + "\n")
    return spec(bundle, GOLDEN, {"sets": ["labelled"], "labels": "labels.npy", "slices": "slices.txt"})


FLOOR = {"output": "probabilities", "slice": "night", "min_accuracy": 0.5, "min_rows": 8}


def with_floor(place: Desk, floor: dict[str, Any]) -> None:
    file = place.policies / "contracts" / "mosaic" / "evidence-disposition.toml"
    document = tomllib.loads(file.read_text("utf-8"))
    document["models"][0]["quality"] = [floor]
    file.write_text(toml_text(document), "utf-8")


def test_answers_on_labelled_rows_are_measured_and_held_against_the_contract(place: Desk, tmp_path: Path) -> None:
    bundle = labelled(classifier.write_bundle(tmp_path / "b", sets=2))
    contract = place.policies / "contracts" / "mosaic" / "evidence-disposition.toml"
    before = contract.read_bytes()
    try:
        with_floor(place, FLOOR)
        report = place.check(bundle)
        assert report["verdict"] == "accepted", report["findings"]
        figures = {row["slice"]: row for row in report["goldens"]["quality"]}
        assert {name: row["rows"] for name, row in figures.items()} == {None: 32, "day": 24, "night": 8}
        assert figures[None]["accuracy"] == pytest.approx(29 / 32)
        assert figures["night"]["accuracy"] == pytest.approx(5 / 8)
        assert figures["day"]["accuracy"] == 1.0
        assert sum(one["false_negatives"] for one in figures["night"]["classes"]) == 3
        with_floor(place, FLOOR | {"min_accuracy": 0.7})
        report = place.check(bundle, "vectors.separate=true")
        assert (report["verdict"], codes(report, "reject")) == ("rejected", {"quality/accuracy"})
        (one,) = [one for one in report["findings"] if one["code"] == "quality/accuracy"]
        assert "0.625" in one["message"]
        assert "0.7" in one["message"]
        (bundle / "labelled" / "slices.txt").unlink()
        report = place.check(bundle)
        assert codes(report, "reject") >= {"vectors/labels-missing"}
    finally:
        contract.write_bytes(before)


def test_labels_for_another_number_of_rows_are_refused(place: Desk, tmp_path: Path) -> None:
    bundle = labelled(classifier.write_bundle(tmp_path / "b", sets=1))
    np.save(bundle / "labelled" / "labels.npy", np.zeros(31, np.int64))
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"vectors/labels-invalid"})


def test_a_model_whose_weights_are_its_labels_is_refused(place: Desk, tmp_path: Path) -> None:
    """External data may name no vector file, and labels are one."""
    bundle = classifier.write_bundle(tmp_path / "b", sets=1)
    (bundle / "labelled").mkdir()
    np.save(bundle / "labelled" / "labels.npy", np.zeros(4, np.int64))
    (bundle / "labelled" / "input_0.pb").write_bytes(
        numpy_helper.from_array(np.zeros((4, 4), np.float32), "features").SerializeToString()
    )

    model = onnx.load(str(bundle / "model.onnx"))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="labelled/labels.npy")
    (bundle / "model.onnx").write_bytes(model.SerializeToString())
    spec(bundle, GOLDEN, {"sets": ["labelled"], "labels": "labels.npy"})
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert "external-data/names-forbidden-file" in codes(report, "reject")


# -- fixtures


def test_fixtures_are_told_with_the_digests_of_both_ends(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=1)
    (bundle / "raw.csv").write_text("0.5,0.5,0.5,0.5\n")

    def change(document: dict[str, Any]) -> None:
        document["preprocessing"] = document.get("preprocessing", {"version": "1", "sha256": "ab" * 32})
        document["preprocessing"]["fixtures"] = [{"raw": "raw.csv", "set": "test_data_set_0"}]

    report = place.check(rewrite(bundle, change))
    assert report["verdict"] == "accepted", report["findings"]
    assert "manifest/undeclared-file" not in codes(report)
    (one,) = report["goldens"]["fixtures"]
    assert (one["raw"], one["set"]) == ("raw.csv", "test_data_set_0")
    assert one["raw_sha256"] == hashlib.sha256((bundle / "raw.csv").read_bytes()).hexdigest()
    tensor = (bundle / "test_data_set_0" / "input_0.pb").read_bytes()
    assert one["inputs"] == [{"path": "test_data_set_0/input_0.pb", "sha256": hashlib.sha256(tensor).hexdigest()}]
    (bundle / "raw.csv").unlink()
    assert codes(place.check(bundle), "reject") == {"vectors/fixture-missing"}
