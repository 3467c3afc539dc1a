"""The onnx package's CVEs about external data, by number: each attack, and what acceptd's real rooms answer.

Every bundle comes with a control: the same files without the attack are accepted, so that it is the
attack that is refused. The secret never enters the sealed copy.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import evidence_classifier as classifier
from examples import hostile_models as models
from examples import hostile_writers as writers
from tests.bench_world import Desk, desk
from tests.world import codes

pytestmark = pytest.mark.hostile

WEIGHT = np.array(classifier.WEIGHT, np.float32).tobytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("cves")) as made:
        yield made


def bundle(path: Path, location: str = "weights.bin", *entries: tuple[str, str]) -> Path:
    """Write the good bundle with its weight in ``weights.bin``, and ``location`` and further entries as given."""

    def change(proto: Any) -> None:
        tensor = next(one for one in proto.graph.initializer if one.name == "weight")
        for key, value in entries:
            tensor.external_data.add(key=key, value=value)

    raw = models.externalise(classifier.build_model(), location, offset="0", length="48")
    writers.plain(path, models.rewrite(raw, change))
    (path / "weights.bin").write_bytes(WEIGHT)
    return path


def refused(report: dict[str, Any], code: str, where: str) -> None:
    """The bundle is rejected for exactly this, at this place."""
    assert report["verdict"] == "rejected"
    rejecting = [one for one in report["findings"] if one["severity"] == "reject"]
    assert {one["code"] for one in rejecting} == {code}, rejecting
    assert all(where in one["where"] for one in rejecting), rejecting


def secret(root: Path) -> Path:
    """Return a file beside the bundle that it must not reach."""
    target = root / "secret"
    target.write_bytes(WEIGHT)
    return target


def test_positive_control(place: Desk, tmp_path: Path) -> None:
    assert place.check(bundle(tmp_path / "b"))["verdict"] == "accepted"
    assert place.check(bundle(tmp_path / "c", "./weights.bin"))["verdict"] == "accepted"


@pytest.mark.parametrize("location", ["../secret", "../../../../../../etc/passwd", "/etc/passwd", "..\\secret"])
def test_cve_2022_25882_a_location_above_the_models_directory(location: str, place: Desk, tmp_path: Path) -> None:
    secret(tmp_path)
    refused(place.check(bundle(tmp_path / "b", location)), "external-data/path-escape", "weight")


@pytest.mark.parametrize(
    "location", ["sub/../../secret", "./../secret", "a/b/../../../secret", "weights.bin/../../secret"]
)
def test_cve_2024_27318_dots_that_a_check_of_the_beginning_misses(
    location: str, place: Desk, tmp_path: Path
) -> None:
    secret(tmp_path)
    made = bundle(tmp_path / "b", location)
    (made / "sub").mkdir()
    (made / "sub" / "note.txt").write_text("a directory that exists")
    refused(place.check(made), "external-data/path-escape", "weight")


@pytest.mark.parametrize("location", ["../overwritten", "deep/../../overwritten", "C:\\overwritten"])
def test_cve_2025_51480_a_location_that_a_writer_would_overwrite(
    location: str, place: Desk, tmp_path: Path
) -> None:
    """The target need not exist: whoever loads and saves the model writes there. acceptd never writes one."""
    target = tmp_path / "overwritten"
    for existing in (False, True):
        if existing:
            target.write_bytes(b"mine")
        code = "external-data/remote-location" if ":" in location else "external-data/path-escape"
        refused(place.check(bundle(tmp_path / f"b{existing}", location)), code, "weight")
    assert target.read_bytes() == b"mine"


def link_to_file(made: Path, target: Path) -> None:
    (made / "weights.bin").unlink()
    (made / "weights.bin").symlink_to(target)


def link_inside(made: Path, _target: Path) -> None:
    (made / "weights.bin").rename(made / "real.bin")
    (made / "weights.bin").symlink_to("real.bin")


def link_to_directory(made: Path, target: Path) -> None:
    (made / "data").symlink_to(target.parent, target_is_directory=True)


@pytest.mark.parametrize("plant", [link_to_file, link_inside])
def test_cve_2026_34447_external_data_through_a_symbolic_link(
    plant: Callable[[Path, Path], None], place: Desk, tmp_path: Path
) -> None:
    made = bundle(tmp_path / "b")
    plant(made, secret(tmp_path))
    refused(place.check(made), "seal/symlink", "weights.bin")


def test_cve_2026_27489_a_symbolic_link_in_a_parent_directory(place: Desk, tmp_path: Path) -> None:
    made = bundle(tmp_path / "b", "data/secret")
    link_to_directory(made, secret(tmp_path))
    refused(place.check(made), "seal/symlink", "data")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("weights.bin", tarfile.SYMTYPE), ("data", tarfile.SYMTYPE), ("weights.bin", tarfile.LNKTYPE)],
)
def test_cve_2026_27489_34446_34447_links_in_an_archive(
    name: str, kind: bytes, place: Desk, tmp_path: Path
) -> None:
    made = bundle(tmp_path / "b", "data/secret" if name == "data" else name)
    packed = tmp_path / "b.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for path in sorted(made.rglob("*")):
            if path.is_file() and path.name != name:
                info = tarfile.TarInfo(path.relative_to(made).as_posix())
                info.size = path.stat().st_size
                archive.addfile(info, io.BytesIO(path.read_bytes()))
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, str(secret(tmp_path) if name != "data" else tmp_path)
        archive.addfile(info)
    refused(place.check(packed), "archive/link", name)


@pytest.mark.parametrize("inside", [False, True])
def test_cve_2026_34446_external_data_that_is_a_hard_link(inside: bool, place: Desk, tmp_path: Path) -> None:
    made = bundle(tmp_path / "b")
    (made / "weights.bin").unlink()
    target = made / "other.bin" if inside else secret(tmp_path)
    target.write_bytes(WEIGHT)
    (made / "weights.bin").hardlink_to(target)
    report = place.check(made)
    assert report["verdict"] == "rejected"
    assert codes(report, "reject") == {"seal/hard-link"}


@pytest.mark.parametrize(
    "entry",
    [("basepath", "/etc"), ("__class__", "x"), ("__dict__", "{}"), ("Offset", "4"), ("tensor", "w"), ("", "x")],
    ids=lambda entry: entry[0],
)
def test_cve_2026_34445_keys_that_overwrite_attributes_of_a_reader(
    entry: tuple[str, str], place: Desk, tmp_path: Path
) -> None:
    report = place.check(bundle(tmp_path / "b", "weights.bin", entry))
    assert report["verdict"] != "accepted"
    (one,) = [one for one in report["findings"] if one["code"] == "external-data/unknown-key"]
    assert "weight" in one["where"]


@pytest.mark.parametrize("length", ["9000000000000000", "-1", "48_0", "1e9"])
def test_cve_2026_34445_a_length_that_makes_a_reader_allocate_petabytes(
    length: str, place: Desk, tmp_path: Path
) -> None:
    made = writers.write_external(tmp_path / "b", "weights.bin", WEIGHT, length=length)
    report = place.check(made)
    assert report["verdict"] == "rejected"
    wanted = {"external-data/out-of-range", "external-data/length-mismatch", "external-data/bad-number"}
    assert codes(report, "reject") <= wanted
    assert codes(report, "reject")
