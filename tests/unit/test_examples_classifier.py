"""The published fixture is what it says: sizes, bytes, values, labels, refusals, drift families."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime as ort

from acceptd.policy.manifest import Manifest, validate
from examples import evidence_classifier as example
from examples.bundle_text import lock, toml_text
from examples.evidence_classifier import DRIFTS, PUBLISHED, Variant

pytestmark = pytest.mark.unit
VARIANTS = {"published": Variant(), **DRIFTS}


def session(data: bytes) -> ort.InferenceSession:
    return ort.InferenceSession(data, providers=["CPUExecutionProvider"])


def declared(directory: Path) -> Manifest:
    return validate(tomllib.loads((directory / "bundle.toml").read_text("utf-8")))


def test_the_model_has_the_published_size_and_two_builds_are_identical() -> None:
    assert len(example.build_model()) == 309
    assert len(example.build_model(Variant(batch=1))) == 299
    assert example.build_model() == example.build_model(Variant())
    model = onnx.ModelProto.FromString(example.build_model())
    assert model.ir_version == 8
    assert [(item.domain, item.version) for item in model.opset_import] == [("", 13)]
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Add", "Softmax"]
    assert [value for node in model.graph.node for value in node.output] == ["weighted", "logits", "probabilities"]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("point", PUBLISHED, ids=lambda point: str(point.evidence))
def test_oracle_and_runtime_give_the_published_probabilities(point: example.Published) -> None:
    features = example.features_from_evidence(*point.evidence)
    expected = np.array([point.probabilities])
    by_oracle = example.oracle(features)["probabilities"]
    (by_runtime,) = session(example.build_model()).run(None, {"features": features})
    assert np.abs(by_oracle - expected).max() <= 1e-6
    assert np.abs(by_runtime - expected).max() <= 1e-6
    assert example.label(by_oracle[0]) == example.label(by_runtime[0]) == point.label


def test_the_first_point_has_the_published_logit_differences() -> None:
    (logits,) = example.oracle(example.features_from_evidence(9000, 8000, 3, 1000))["logits"]
    differences = [logits[0] - logits[1], logits[1] - logits[2], logits[0] - logits[2]]
    assert differences == pytest.approx([2.775, 4.875, 7.65], abs=1e-6)


def test_the_oracle_agrees_with_the_runtime_over_ten_thousand_points() -> None:
    drawn = np.random.default_rng(3).integers(0, [10_001, 10_001, 5, 10_001], (10_000, 4))
    features = (drawn / [10_000, 10_000, 4, 10_000]).astype(np.float32)
    (got,) = session(example.build_model()).run(None, {"features": features})
    assert np.abs(got - example.oracle(features)["probabilities"]).max() <= 3e-7
    assert np.abs(got.sum(axis=1, dtype=np.float64) - 1).max() <= 3e-7


@pytest.mark.parametrize(
    "evidence",
    [
        (10_001, 0, 0, 0),
        (0, 10_001, 0, 0),
        (0, 0, 5, 0),
        (0, 0, 0, 10_001),
        (-1, 0, 0, 0),
        (0, 0, -1, 0),
        (True, 0, 0, 0),
    ],
)
def test_evidence_outside_its_limits_is_refused_before_a_tensor_exists(
    evidence: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_tensor(*_: object, **__: object) -> None:
        raise AssertionError("a tensor was made")

    monkeypatch.setattr("examples.evidence_classifier.np.array", no_tensor)
    with pytest.raises(ValueError, match="must be an integer from 0 to"):
        example.features_from_evidence(*evidence)


def test_a_tie_gives_the_lowest_index() -> None:
    probabilities = example.oracle(np.zeros((1, 4), np.float32), DRIFTS["zero-weights"])["probabilities"]
    assert probabilities.tolist() == [[1 / 3] * 3]
    assert example.label(probabilities[0]) == "accept"


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_a_whole_bundle_whose_goldens_the_runtime_meets(name: str, tmp_path: Path) -> None:
    variant = VARIANTS[name]
    bundle = example.write_bundle(tmp_path / name, variant=variant, locked=True)
    manifest = declared(bundle)
    model = manifest.models[0]
    opened = session((bundle / "model.onnx").read_bytes())
    assert [value.name for value in opened.get_inputs()] == [value.name for value in model.inputs]
    assert [value.name for value in opened.get_outputs()] == [value.name for value in model.outputs]
    assert [value.shape for value in opened.get_inputs()] == [value.shape for value in model.inputs]
    assert manifest.files is not None
    assert {path: dict(entry) for path, entry in manifest.files.items()} == lock(bundle)
    sets = sorted(bundle.glob("test_data_set_*"))
    assert len(sets) == 7
    for directory in sets:
        read = {
            kind: [numpy_helper.to_array(onnx.load_tensor(str(p))) for p in sorted(directory.glob(f"{kind}_*.pb"))]
            for kind in ("input", "output")
        }
        feeds = {value.name: array for value, array in zip(model.inputs, read["input"], strict=True)}
        for spec, got, expected in zip(model.outputs, opened.run(None, feeds), read["output"], strict=True):
            assert got.dtype == expected.dtype == np.dtype(spec.dtype)
            assert got.shape == expected.shape
            assert spec.tolerance is not None
            assert np.abs(got.astype(np.float64) - expected).max() <= spec.tolerance.atol


def test_two_bundles_with_the_same_arguments_have_the_same_bytes(tmp_path: Path) -> None:
    one = example.write_bundle(tmp_path / "one", version="2.0.0", bias=(0.0, 1.0, 2.0))
    other = example.write_bundle(tmp_path / "other", version="2.0.0", bias=(0.0, 1.0, 2.0))
    assert lock(one) == lock(other)
    assert (one / "bundle.toml").read_bytes() == (other / "bundle.toml").read_bytes()
    assert lock(one) != lock(example.write_bundle(tmp_path / "v1"))


def test_a_wrong_manifest_beside_the_right_file_declares_the_other_variant(tmp_path: Path) -> None:
    bundle = example.write_bundle(tmp_path / "b", declared=DRIFTS["renamed-input"])
    assert (bundle / "model.onnx").read_bytes() == example.build_model()
    assert declared(bundle).models[0].inputs[0].name == "evidence"


def test_golden_files_may_be_written_without_tensor_names(tmp_path: Path) -> None:
    bundle = example.write_bundle(tmp_path / "b", named=False)
    assert {onnx.load_tensor(str(path)).name for path in bundle.rglob("*.pb")} == {""}


def test_toml_text_survives_awkward_keys_and_strings() -> None:
    document = {
        "plain": 'quote " backslash \\ newline \n del \x7f nul \x00 ö',
        "numbers": [0.0, 1e-6, -3, True],
        "table": {"key with spaces": {"a.b": 1, "": "empty"}, "?": {}},
        "rows": [{"name": "x", "inner": [{"deep": [1]}]}, {"name": "y"}],
    }
    assert tomllib.loads(toml_text(document)) == document


def test_toml_text_refuses_what_toml_has_not() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_text({"nothing": None})


def test_the_command_line_writes_the_bundle_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "b"
    assert example.main([str(target), "--version", "1.4.1", "--bias", "0", "1", "0", "--lock"]) == 0
    assert "309 bytes" in capsys.readouterr().out
    manifest = declared(target)
    assert manifest.bundle.version == "1.4.1"
    assert manifest.files is not None
    assert (target / "model.onnx").read_bytes() == example.build_model(Variant(bias=(0.0, 1.0, 0.0)))
