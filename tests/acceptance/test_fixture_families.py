"""The fixture's families through the real rooms: batch, ties, outputs, digests, drift, providers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from examples.bundle_text import write_set
from examples.evidence_classifier import DRIFTS, LABELS, Variant
from tests.bench_world import Desk, build, desk, rewrite, write_model, write_table
from tests.world import codes

pytestmark = pytest.mark.acceptance

GOOD_ROW = (0.2, 0.3, 0.5)
LOGITS = Variant(outputs=("logits",))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("families")) as made:
        yield made


# -- batch: onnxruntime takes 0 and 33 silently; the loader's refusals are in tests/unit/test_loader_session.py


def with_batch(path: Path, rows: int) -> Path:
    """Write the good bundle with one more golden set of ``rows`` rows."""
    classifier.write_bundle(path, sets=2)
    features = np.full((rows, 4), 0.25, np.float32)
    expected = classifier.oracle(features)["probabilities"] if rows else np.zeros((0, 3))
    write_set(path / "test_data_set_2", [("features", features)], [("probabilities", expected.astype(np.float32))])
    return path


@pytest.mark.parametrize("rows", [1, 2, 32])
def test_a_batch_inside_the_bounds_passes(rows: int, place: Desk, tmp_path: Path) -> None:
    report = place.check(with_batch(tmp_path / "b", rows))
    assert report["verdict"] == "accepted", report["findings"]


@pytest.mark.parametrize("rows", [0, 33])
def test_a_batch_outside_the_bounds_is_refused(rows: int, place: Desk, tmp_path: Path) -> None:
    report = place.check(with_batch(tmp_path / "b", rows))
    assert report["verdict"] == "rejected"
    (one,) = [one for one in report["findings"] if one["severity"] == "reject"]
    assert (one["code"], one["where"]) == ("vectors/input-shape", "main: test_data_set_2: features")
    assert f"is {rows}, outside 1 to 32" in one["message"]
    assert "run" not in {job["kind"] for job in report["resources"]["jobs"]}


def test_a_batch_that_no_output_shows_is_refused_too(place: Desk, tmp_path: Path) -> None:
    raw = build(
        [helper.make_node("ReduceMax", ["features"], ["peaks"], axes=[0], keepdims=0)],
        {"features": (TensorProto.FLOAT, ["batch", 4])},
        {"peaks": (TensorProto.FLOAT, [4])},
    )
    verdicts = {}
    for rows in (32, 33):
        first = np.linspace(0, 1, rows * 4, dtype=np.float32).reshape(rows, 4)
        bundle = write_model(
            tmp_path / str(rows),
            raw,
            [({"features": one}, {"peaks": one.max(axis=0)}) for one in (first, first / 2)],
            dims={"batch": {"min": 1, "max": 32}},
            inputs=[{"name": "features", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]}],
            outputs=[{"name": "peaks", "dtype": "float32", "shape": [4]}],
        )
        report = place.check(bundle)
        verdicts[rows] = (report["verdict"], codes(report, "reject"))
    assert verdicts == {32: ("accepted", set()), 33: ("rejected", {"vectors/input-shape"})}


# -- ties: that the label is `accept` is in tests/unit/test_loader_session.py


def test_a_model_that_answers_thirds_to_everything_is_held(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", variant=DRIFTS["zero-weights"])
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject", "hold")) == ("held", {"vectors/insensitive"})
    lowered = place.check(bundle, "severity.vectors/insensitive=warn")
    assert lowered["verdict"] == "accepted"
    assert "vectors/insensitive" in codes(lowered, "warn")
    assert lowered["policy_digest"] != report["policy_digest"]


# -- output validation


@pytest.mark.parametrize("row", [(0.5001, 0.3, 0.2), (0.4999, 0.3, 0.2), (1.0, 0.0, 0.0)])
def test_a_sum_of_one_and_1e_4_beside_it_passes(row: tuple[float, ...], place: Desk, tmp_path: Path) -> None:
    report = place.check(write_table(tmp_path / "b", GOOD_ROW, row))
    assert report["verdict"] == "accepted", report["findings"]


NOT_PROBABILITIES = {
    "sum-beyond": (0.500101, 0.3, 0.2),
    "sum-below": (0.499899, 0.3, 0.2),
    "negative": (-1e-9, 0.5, 0.5),
    "above-one": (1.0000002, 0.0, 0.0),
    "nan": (float("nan"), 0.5, 0.5),
}


@pytest.mark.parametrize("name", NOT_PROBABILITIES)
def test_goldens_that_agree_do_not_make_it_a_probability(name: str, place: Desk, tmp_path: Path) -> None:
    report = place.check(write_table(tmp_path / "b", GOOD_ROW, NOT_PROBABILITIES[name]))
    assert report["verdict"] == "rejected"
    rejecting = codes(report, "reject")
    assert "parity/not-probabilities" in rejecting
    assert rejecting <= {"parity/not-probabilities", "behaviour/probe-not-probabilities"}


@pytest.mark.parametrize("width", [2, 3, "width"], ids=["file-says-2", "file-says-3", "file-says-nothing"])
def test_two_values_for_three_labels_are_refused(width: int | str, place: Desk, tmp_path: Path) -> None:
    report = place.check(write_table(tmp_path / "b", (0.5, 0.5), (0.25, 0.75), width=width))
    assert report["verdict"] == "rejected"
    named = {"schema/width-changed", "schema/output-shape", "behaviour/output-shape"}
    assert codes(report, "reject") & named, report["findings"]


def test_probabilities_that_fail_on_a_probe_alone_are_refused(place: Desk, tmp_path: Path) -> None:
    bundle = write_table(tmp_path / "b", GOOD_ROW, (0.5, 0.25, 0.25), (0.4, 0.4, 0.4))
    shutil.rmtree(
        bundle / "test_data_set_2"
    )  # the last row is inside the declared range, and no golden asks for it
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert codes(report, "reject") == {"behaviour/probe-not-probabilities"}


# -- digests and versions of bundle.toml


def preprocessing(**changes: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["preprocessing"].update(changes)


SHA = "0123456789abcdef" * 4
REFUSED_IN_MANIFEST: dict[str, Callable[[dict[str, Any]], object]] = {
    "63-hex": preprocessing(sha256=SHA[:63]),
    "65-hex": preprocessing(sha256=SHA + "0"),
    "upper-case": preprocessing(sha256=SHA.upper()),
    "no-hex": preprocessing(sha256="g" * 64),
    "line-end": preprocessing(sha256=SHA + "\n"),
    "empty-digest": preprocessing(sha256=""),
    "empty-preprocessing-version": preprocessing(version=""),
    "empty-label-version": lambda document: document["labels"].update(schema_version=""),
    "empty-bundle-version": lambda document: document["bundle"].update(version=""),
    "lock-63-hex": lambda document: document.update(files={"model.onnx": {"size": 309, "sha256": SHA[:63]}}),
    "lock-upper-case": lambda document: document.update(
        files={"model.onnx": {"size": 309, "sha256": SHA.upper()}}
    ),
}


@pytest.mark.parametrize("name", REFUSED_IN_MANIFEST)
def test_a_malformed_digest_or_empty_version_is_refused_with_its_place(
    name: str, place: Desk, tmp_path: Path
) -> None:
    bundle = rewrite(classifier.write_bundle(tmp_path / "b", sets=1), REFUSED_IN_MANIFEST[name])
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"manifest/invalid"})
    (one,) = [one for one in report["findings"] if one["code"] == "manifest/invalid"]
    assert one["where"].removeprefix("bundle.toml ").partition(".")[0] in {
        "preprocessing",
        "labels",
        "bundle",
        "files",
    }
    assert {job["kind"] for job in report["resources"]["jobs"]} == {"manifest"}


# -- drift


def drifted(path: Path, plain: Variant, delta: tuple[float, ...]) -> Path:
    """Write a model whose logits are off by ``delta`` from its goldens, and that declares no tolerance."""
    classifier.write_bundle(path, variant=plain)
    bias = tuple(one + other for one, other in zip(plain.bias, delta, strict=True))
    (path / "model.onnx").write_bytes(classifier.build_model(replace(plain, bias=bias)))
    return rewrite(path, lambda document: document["models"][0]["outputs"][0].pop("tolerance"))


def test_logits_off_by_1e_3_with_the_same_class_warn(place: Desk, tmp_path: Path) -> None:
    report = place.check(drifted(tmp_path / "b", LOGITS, (1e-3, 0.0, 0.0)))
    assert report["verdict"] == "accepted", report["findings"]
    assert codes(report, "warn") == {"parity/drift"}


def test_logits_off_by_1e_5_with_another_class_are_rejected(place: Desk, tmp_path: Path) -> None:
    # `review` leads by 5e-6, far inside every tolerance; the model prefers `accept` by as much.
    close = replace(LOGITS, weight=((0.5, 0.5, -1.0),) * 4, bias=(0.5, 0.5 + 5e-6, 0.0))
    report = place.check(drifted(tmp_path / "b", close, (1e-5, 0.0, 0.0)))
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"parity/class-changed"})


# -- providers


def test_cuda_requested_here_is_a_typed_finding_and_nothing_runs(place: Desk, tmp_path: Path) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", sets=2), "profile=cuda")
    assert report["verdict"] == "inconclusive"  # the operator's profile asks for it, not the model
    assert "load/provider-unavailable" in codes(report, "hold")
    runs = [job for job in report["resources"]["jobs"] if job["kind"] == "run"]
    assert {(job["ending"], job["run_ms"]) for job in runs} == {("refused", None)}


def test_a_permitted_fallback_runs_says_so_and_never_satisfies_the_profile(place: Desk, tmp_path: Path) -> None:
    report = place.check(classifier.write_bundle(tmp_path / "b", sets=2), "profile=cuda-or-cpu")
    assert (report["verdict"], codes(report, "hold")) == ("held", {"placement/provider-unused"})
    (one,) = [one for one in report["findings"] if one["code"] == "placement/cpu-fallback"]
    facts = {key: one["evidence"][key] for key in ("requested_provider", "selected_provider", "used_cpu_fallback")}
    assert facts == {
        "requested_provider": "CUDAExecutionProvider",
        "selected_provider": "CPUExecutionProvider",
        "used_cpu_fallback": True,
    }


# -- identity: receipts of inferences are in tests/unit/test_loader_session.py


def test_the_same_bytes_have_one_identity_and_another_label_order_has_another(place: Desk, tmp_path: Path) -> None:
    first, second = (place.check(classifier.write_bundle(tmp_path / name, sets=2)) for name in ("a", "b"))
    for key in ("bundle_digest", "policy_digest", "runtime"):
        assert first[key] == second[key]
    assert first["submission"] != second["submission"]
    assert first["runtime"]["onnxruntime"]

    def reorder(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["labels"] = [*LABELS[1:], LABELS[0]]

    other = place.check(rewrite(classifier.write_bundle(tmp_path / "c", sets=2), reorder))
    assert other["bundle_digest"] != first["bundle_digest"]
