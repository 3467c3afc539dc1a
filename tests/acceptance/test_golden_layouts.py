"""Golden layouts, archives, bundles of two models, inferred manifests and policy keys, through the real rooms."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import evidence_classifier as classifier
from examples.bundle_text import Array
from examples.evidence_classifier import DRIFTS, Variant, golden_inputs, oracle
from examples.hostile_bundles import BY_NAME
from tests import commands
from tests.acceptance.test_main_job import two_models
from tests.bench_world import Desk, desk, rewrite
from tests.world import codes

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("layouts")) as made:
        yield made


def expected(features: Array) -> Array:
    return oracle(features)["probabilities"].astype(np.float32)


def sets_of(bundle: Path, *patterns: str) -> Path:
    return rewrite(bundle, lambda document: document["models"][0]["vectors"][0].update(sets=list(patterns)))


def write_npz(bundle: Path, scale: float = 1.0) -> Path:
    """Write two set directories with ``inputs.npz`` and ``outputs.npz``; keys are tensor names."""
    classifier.write_bundle(bundle, sets=0)
    for index, features in enumerate(golden_inputs(Variant(), 2)):
        folder = bundle / f"test_data_set_{index}"
        folder.mkdir()
        np.savez(folder / "inputs.npz", features=features)
        np.savez_compressed(folder / "outputs.npz", probabilities=expected(features) * np.float32(scale))
    return bundle


def write_pair(bundle: Path) -> Path:
    """Write one ``inputs.npz`` and ``outputs.npz`` at the top."""
    classifier.write_bundle(bundle, sets=0)
    features = np.concatenate(golden_inputs(Variant(), 5))
    np.savez(bundle / "inputs.npz", features=features)
    np.savez(bundle / "outputs.npz", probabilities=expected(features))
    return sets_of(bundle, "inputs.npz")


def write_legacy(bundle: Path) -> Path:
    """Write the model zoo's old form: arrays ``inputs`` and ``outputs`` in one file."""
    classifier.write_bundle(bundle, sets=0)
    (features,) = golden_inputs(Variant(), 1)
    np.savez(bundle / "test_data_0.npz", inputs=np.stack([features]), outputs=np.stack([expected(features)]))
    return sets_of(bundle, "test_data_*.npz")


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "pb-named": lambda path: classifier.write_bundle(path, sets=2),
    "pb-unnamed": lambda path: classifier.write_bundle(path, sets=2, named=False),
    "npz-in-sets": write_npz,
    "npz-pair": write_pair,
    "npz-of-the-model-zoo": write_legacy,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_golden_layout_is_read_and_compared(name: str, place: Desk, tmp_path: Path) -> None:
    bundle = LAYOUTS[name](tmp_path / "b")
    report = place.check(bundle)
    assert report["verdict"] == "accepted", report["findings"]
    compared = [row for row in report["parity"] if row["against"] == "golden"]
    assert compared
    assert all(row["n"] and not row["exceeding"] for row in compared)
    apart = place.check(bundle, "vectors.separate=true")
    if name == "npz-of-the-model-zoo":
        assert codes(apart, "reject") == {"vectors/not-separable"}
        return
    assert apart["verdict"] == "accepted", apart["findings"]
    assert [row for row in apart["parity"] if row["against"] == "golden"] == compared


@pytest.mark.parametrize("name", ["pb-unnamed", "npz-in-sets"])
def test_positive_control_a_wrong_value_is_noticed_in_each_layout(name: str, place: Desk, tmp_path: Path) -> None:
    bundle = LAYOUTS[name](tmp_path / "b")
    (bundle / "model.onnx").write_bytes(classifier.build_model(DRIFTS["other-bias"]))
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"parity/mismatch"})


def test_a_gap_between_numbered_files_is_refused(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", variant=DRIFTS["extra-input"], sets=2)
    folder = bundle / "test_data_set_1"
    (folder / "input_1.pb").rename(folder / "input_2.pb")
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"vectors/gap"})


def test_a_set_without_expected_outputs_is_told_and_counts_as_no_golden(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=3)
    (bundle / "test_data_set_1" / "output_0.pb").unlink()
    report = place.check(bundle)
    assert report["verdict"] == "accepted", report["findings"]
    (one,) = [one for one in report["findings"] if one["code"] == "vectors/smoke-only"]
    assert one["where"] == "test_data_set_1"
    for index in (0, 2):
        (bundle / f"test_data_set_{index}" / "output_0.pb").unlink()
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert "vectors/missing" in codes(report, "reject")


def test_an_output_that_no_set_expects_is_held(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", variant=DRIFTS["two-outputs"], sets=2)
    (bundle / "test_data_set_0" / "output_1.pb").unlink()
    report = place.check(bundle)
    assert report["verdict"] == "accepted", "the other set still expects it"
    (bundle / "test_data_set_1" / "output_1.pb").unlink()
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "hold")) == ("held", {"vectors/output-unchecked"})
    assert place.check(bundle, "vectors.required=false")["verdict"] == "accepted"


def test_a_set_without_its_input_is_refused(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=2)
    (bundle / "test_data_set_1" / "input_0.pb").unlink()
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert "run/unfed-input" in codes(report, "reject")


# -- archives and two models


def pack(bundle: Path, kind: str, top: str) -> Path:
    """Pack a bundle as it is, or below a top directory."""
    target = bundle.with_name(f"{bundle.name}.{kind}")
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    if kind == "zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(path, f"{top}{path.relative_to(bundle)}")
        return target
    with tarfile.open(target, "w:gz" if kind == "tar.gz" else "w") as archive:
        for path in files:
            archive.add(path, f"{top}{path.relative_to(bundle)}")
    return target


@pytest.mark.parametrize("top", ["", "evidence-1.4.0/"], ids=["flat", "below-a-directory"])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_an_archive_has_the_digest_and_the_verdict_of_its_directory(
    kind: str, top: str, place: Desk, tmp_path: Path
) -> None:
    bundle = two_models(tmp_path / "pair")
    report = place.check(pack(bundle, kind, top))
    assert report["verdict"] == "accepted", report["findings"]
    assert {row["model"] for row in report["parity"] if row["against"] == "golden"} == {"main", "second"}
    if (kind, top) == ("zip", ""):
        assert report["bundle_digest"] == place.check(bundle)["bundle_digest"]


def test_two_models_share_one_digest_and_a_fault_in_either_names_its_model(place: Desk, tmp_path: Path) -> None:
    bundle = two_models(tmp_path / "pair", broken=True)
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"parity/mismatch"})
    wheres = [one["where"] for one in report["findings"] if one["severity"] == "reject"]
    assert all(where.startswith("second: ") for where in wheres)


def test_two_models_with_one_name_or_one_file_are_refused(place: Desk, tmp_path: Path) -> None:
    for key, value in (("name", "main"), ("file", "model.onnx")):

        def same(document: dict[str, Any], key: str = key, value: str = value) -> None:
            document["models"][1][key] = value

        report = place.check(rewrite(two_models(tmp_path / key), same))
        assert (report["verdict"], codes(report, "reject")) == ("rejected", {"manifest/invalid"})


# -- policy keys


INFERRED = {"refuse": ("rejected", "manifest/missing"), "hold": ("held", "manifest/inferred")}


@pytest.mark.parametrize("word", ["refuse", "hold", "accept"])
def test_a_bundle_without_manifest_is_judged_as_the_policy_says(word: str, place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=2)
    (bundle / "bundle.toml").unlink()
    report = place.check(bundle, f"manifest.inferred={word}")
    if word == "accept":
        assert report["verdict"] == "accepted", report["findings"]
        assert report["inferred"]
        return
    verdict, code = INFERRED[word]
    assert (report["verdict"], codes(report, "reject", "hold")) == (verdict, {code})


def test_goldens_are_required_unless_the_policy_says_otherwise(place: Desk, tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", sets=0)
    rewrite(bundle, lambda document: document["models"][0].pop("vectors"))
    report = place.check(bundle)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"vectors/missing"})
    report = place.check(bundle, "vectors.required=false")
    assert (report["verdict"], codes(report, "warn")) == ("accepted", {"vectors/none"})
    assert "run" in {job["kind"] for job in report["resources"]["jobs"]}


def test_operators_are_listed_or_whatever_loads(place: Desk, tmp_path: Path) -> None:
    good = classifier.write_bundle(tmp_path / "good", sets=2)
    report = place.check(good, 'operators.domains=["com.microsoft"]')
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"operator/not-listed"})
    narrowed = 'operators.domains=["com.microsoft"]'
    assert place.check(good, narrowed, "operators.mode=any")["verdict"] == "accepted"
    denied = place.check(good, "operators.mode=any", 'operators.denied=["ai.onnx::Softmax"]')
    assert (denied["verdict"], codes(denied, "reject")) == ("rejected", {"operator/denied"})
    strange = BY_NAME["unknown-operator"].write(tmp_path / "strange")
    assert codes(place.check(strange), "reject") == {"operator/not-listed"}
    loads = place.check(strange, "operators.mode=any")
    assert (loads["verdict"], codes(loads, "reject")) == ("rejected", {"load/unsupported-operator"})


def test_set_and_severity_work_from_the_command_line_and_show_in_the_exit_code(tmp_path: Path) -> None:
    bundle = classifier.write_bundle(tmp_path / "b", variant=DRIFTS["zero-weights"], sets=2)
    state = tmp_path / "no-state"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        words = ("check", str(bundle), "--json", "--policy", "default", *words)
        return commands.run(*words, ACCEPTD_STATE=str(state))

    for words, code, verdict in (
        ((), 3, "held"),
        (("--set", "severity.vectors/insensitive=info"), 0, "accepted"),
    ):
        done = run(*words)
        assert (done.returncode, json.loads(done.stdout)["verdict"]) == (code, verdict), done.stderr
    for wrong in ("vectors.requird=false", "vectors.required", "severity.external-data/path-escape=info"):
        done = run("--set", wrong)
        assert done.returncode == 2, (wrong, done.stdout, done.stderr)
        assert json.loads(done.stdout)["exit_code"] == 2
        assert "Traceback" not in done.stderr
    shutil.rmtree(state, ignore_errors=True)
