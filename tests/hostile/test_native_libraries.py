"""A native library in a bundle is rejected wherever it hides: through the real rooms, with a control."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from examples import evidence_classifier as classifier
from tests.bench_world import Desk, desk
from tests.unit.test_intake_native import LIBRARIES, pe
from tests.world import codes

pytestmark = pytest.mark.hostile
CODE = "seal/native-library"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("native")) as made:
        yield made


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The good bundle with assets of every harmless kind."""
    path = classifier.write_bundle(tmp_path / "b")
    (path / "labels.txt").write_text("accept\nreview\nreject\n", encoding="utf-8")
    (path / "assets").mkdir()
    np.savez(path / "assets/table.npz", a=np.zeros(3))
    np.savez_compressed(path / "assets/small.npz", a=np.zeros(3))
    (path / "assets/old.exe.txt").write_bytes(b"MZ" + bytes(100))
    (path / "assets/weights.bin").write_bytes(np.linspace(-1, 1, 5000, dtype=np.float32).tobytes())
    return path


def test_positive_control_the_same_bundle_without_a_library(place: Desk, bundle: Path) -> None:
    report = place.check(bundle)
    assert CODE not in codes(report)
    assert not codes(report, "reject")  # whether an archive among the assets holds is the content scan's to say


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.txt", LIBRARIES["elf"][2]),
        ("assets/tokenizer.json", LIBRARIES["elf"][0]),
        ("assets/weights.bin", pe(70_000)),
        ("assets/far.bin", pe((1 << 20) + 7)),
        ("assets/icon.png", LIBRARIES["mach-o"][0]),
        ("test_data_set_0/notes.md", LIBRARIES["mach-o"][4]),
        ("libcustom.so", b"int main() {}"),
        ("assets/Custom.SO.1.2", b""),
        ("onnxruntime_extensions.DLL", b"nothing"),
    ],
)
def test_it_is_rejected_by_name_and_by_content(name: str, content: bytes, place: Desk, bundle: Path) -> None:
    (bundle / name).write_bytes(content)
    report = place.check(bundle, "severity.seal/not-a-file=hold")
    assert report["verdict"] == "rejected"
    (found,) = [one for one in report["findings"] if one["code"] == CODE]
    assert (found["severity"], found["where"]) == ("reject", name)


def test_a_model_that_is_a_library_is_rejected_for_that(place: Desk, bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes(LIBRARIES["elf"][2])
    report = place.check(bundle)
    assert report["verdict"] == "rejected"
    assert CODE in codes(report, "reject")


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_it_is_told_in_an_archive_too(kind: str, place: Desk, bundle: Path, tmp_path: Path) -> None:
    (bundle / "labels.txt").write_bytes(LIBRARIES["elf"][2])
    archive = tmp_path / f"drop.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(bundle.rglob("*")):
                if path.is_file():
                    file.write(path, path.relative_to(bundle).as_posix())
    else:
        with tarfile.open(archive, "w:gz") as file:
            for path in sorted(bundle.rglob("*")):
                if path.is_file():
                    file.add(path, path.relative_to(bundle).as_posix())
    report = place.check(archive)
    assert report["verdict"] == "rejected"
    assert [one["where"] for one in report["findings"] if one["code"] == CODE] == ["labels.txt"]


def test_no_manifest_does_not_hide_it(place: Desk, bundle: Path) -> None:
    (bundle / "bundle.toml").unlink()
    shutil.copyfile(bundle / "model.onnx", bundle / "model.pyd")
    report = place.check(bundle, "manifest.inferred=accept")
    assert report["verdict"] == "rejected"
    assert CODE in codes(report, "reject")
