"""Writers of hostile bundles, one per kind of fault: model, golden files, manifest, files, archive."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from examples import hostile_models as models
from examples.bundle_text import Array, toml_text, write_set
from examples.evidence_classifier import (
    DRIFTS,
    MODEL_ID,
    WEIGHT,
    Variant,
    build_model,
    golden_inputs,
    manifest,
    oracle,
    write_bundle,
    write_goldens,
)

VERSION: Final = "1.5.0"
SETS: Final = 3
TRIAL_ID: Final = "mosaic/evidence-trial"
"""A model id without a contract, for models whose size or interface no contract of the published one allows."""
BOMB_BYTES: Final = 256 << 20  # of zeros: 1,000 times what they are packed to


def double_data(proto: Any) -> None:
    """Give the weight a second value field."""
    proto.graph.initializer[0].float_data.extend([0.0] * 12)


def undefined_dtype(proto: Any) -> None:
    """Give the weight no data type."""
    proto.graph.initializer[0].data_type = TensorProto.UNDEFINED


def plain(directory: Path, model: bytes | None = None, *, model_id: str = MODEL_ID, **document: Any) -> Path:
    """Write a good bundle, then put ``model`` in its place and ``document`` over the manifest."""
    write_bundle(directory, version=VERSION, sets=SETS, model_id=model_id)
    if model is not None:
        (directory / "model.onnx").write_bytes(model)
    if document:
        (directory / "bundle.toml").write_text(toml_text({**manifest(version=VERSION), **document}), "utf-8")
    return directory


def write_trap(
    directory: Path,
    trap: models.Trap,
    feeds: tuple[dict[str, Array], ...] = (),
    model_id: str = MODEL_ID,
) -> Path:
    """Write a bundle of the classifier with ``trap``; ``feeds`` are further inputs, a dict per golden set."""
    document = manifest(version=VERSION, model_id=model_id)
    document["models"][0]["opsets"] |= trap.opsets
    for name, (dtype, shape) in trap.inputs.items():
        document["models"][0]["inputs"].append({"name": name, "dtype": dtype, "shape": shape})
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(models.build(trap))
    (directory / "bundle.toml").write_text(toml_text(document), "utf-8")
    for index, features in enumerate(golden_inputs(Variant(), SETS)):
        further = list((feeds[index] if feeds else {}).items())
        expected = oracle(features)["probabilities"].astype(np.float32)
        write_set(
            directory / f"test_data_set_{index}",
            [("features", features), *further],
            [("probabilities", expected)],
        )
    return directory


def write_divides_at_run(directory: Path) -> Path:
    """Write a bundle whose last golden set feeds INT64_MIN / -1; the others divide harmlessly."""
    calm = {"dividend": np.array([6], np.int64), "divisor": np.array([3], np.int64)}
    trap = {"dividend": np.array([models.INT64_MIN], np.int64), "divisor": np.array([-1], np.int64)}
    return write_trap(directory, models.divides_at_run(), (calm, calm, trap), TRIAL_ID)


def write_external(directory: Path, location: str, payload: bytes = b"", **entries: str) -> Path:
    """Write a bundle whose weight lies at ``location``; ``payload`` becomes ``weights.bin`` of the bundle."""
    given = {"offset": "0", "length": "48", **entries}
    plain(directory, models.externalise(build_model(), location, **given))
    if payload:
        (directory / "weights.bin").write_bytes(payload)
    return directory


def write_uncovered(directory: Path) -> Path:
    """Write a bundle whose weight is followed by bytes of no tensor, in the same file."""
    weight = np.array(WEIGHT, np.float32).tobytes()
    return write_external(directory, "weights.bin", weight + b"something else")


def write_payload_in_weight(directory: Path) -> Path:
    """Write the good model with a weight that no node uses and that holds a pickle, which would run a command."""
    hidden = bytes(range(100, 200)) + b"cposix\nsystem\n(S'id'\ntR."

    def change(proto: Any) -> None:
        proto.graph.initializer.add(name="spare", data_type=TensorProto.UINT8, dims=[len(hidden)], raw_data=hidden)

    return plain(directory, models.rewrite(build_model(), change))


def write_payload_beside(directory: Path) -> Path:
    """Write a good bundle with an archive under the name of a text beside the model."""
    plain(directory)
    with zipfile.ZipFile(directory / "labels.txt", "w") as archive:
        archive.writestr("evil.py", "import os")
    return directory


def write_external_names_golden(directory: Path) -> Path:
    """Write a model that reads its answer out of its own golden file, and so agrees with it perfectly."""
    write_bundle(directory, version=VERSION, sets=1)
    golden = directory / "test_data_set_0" / "output_0.pb"
    answer = oracle(golden_inputs(Variant(), 1)[0])["probabilities"].astype(np.float32).tobytes()
    offset = golden.read_bytes().index(answer)
    (directory / "model.onnx").write_bytes(models.answers_from_file("test_data_set_0/output_0.pb", offset))
    return directory


def write_wrong_goldens(directory: Path) -> Path:
    """Write the good model with the expected values of another bias."""
    plain(directory)
    write_goldens(directory, DRIFTS["other-bias"], count=SETS)
    return directory


def write_insensitive(directory: Path) -> Path:
    """Write a model with zero weights: thirds for every input, so its goldens test nothing."""
    return write_bundle(directory, version=VERSION, sets=SETS, variant=DRIFTS["zero-weights"])


def write_weights_not_finite(directory: Path) -> Path:
    """Write a model with NaN in its bias; the goldens are those of the good one."""

    def change(proto: Any) -> None:
        bias = next(t for t in proto.graph.initializer if t.name == "bias")
        bias.raw_data = np.array([np.nan, 0.5, 0], np.float32).tobytes()

    return plain(directory, models.rewrite(build_model(), change))


def write_other_team(directory: Path) -> Path:
    """Write a bundle of the id ``rival/evidence-disposition``; drop it into another team's inbox."""
    return write_bundle(directory, version=VERSION, sets=SETS, model_id="rival/evidence-disposition")


def write_drift(directory: Path, drift: str) -> Path:
    """Write the model of a drifted interface with the manifest of the published one."""
    return write_bundle(directory, version=VERSION, sets=SETS, variant=DRIFTS[drift], declared=Variant())


def write_manifest(directory: Path, text: str) -> Path:
    """Write a good bundle with ``text`` as its ``bundle.toml``; ``{}`` in it stands for the good text."""
    plain(directory)
    good = (directory / "bundle.toml").read_text("utf-8")
    (directory / "bundle.toml").write_text(text.replace("{}", good), "utf-8")
    return directory


def write_lock_lies(directory: Path) -> Path:
    """Write a bundle whose lock states another SHA-256 for the model."""
    files = {"model.onnx": {"size": 309, "sha256": "0" * 64}}
    return plain(directory, files=files)


def write_symlink(directory: Path) -> Path:
    """Write a bundle in which one file is a link to another file of the same bundle."""
    plain(directory)
    (directory / "labels.txt").write_text("accept\nreview\nreject\n")
    (directory / "names.txt").symlink_to("labels.txt")
    return directory


def write_symlink_outside(directory: Path) -> Path:
    """Write a bundle in which the model is a link out of the bundle."""
    plain(directory)
    (directory / "model.onnx").unlink()
    (directory / "model.onnx").symlink_to("/etc/passwd")
    return directory


def write_hard_link(directory: Path) -> Path:
    """Write a bundle in which one file has two names."""
    plain(directory)
    (directory / "copy.onnx").hardlink_to(directory / "model.onnx")
    return directory


def write_fifo(directory: Path) -> Path:
    """Write a bundle that holds a FIFO, which would hang a reader."""
    plain(directory)
    os.mkfifo(directory / "stream.bin")
    return directory


def _members(directory: Path) -> list[tuple[str, bytes]]:
    """Return the files of a good bundle; nothing stays at ``directory``."""
    plain(directory)
    members = []
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_file():
            members.append((path.relative_to(directory).as_posix(), path.read_bytes()))
            path.unlink()
        else:
            path.rmdir()
    directory.rmdir()
    return members


def write_zip(directory: Path, *further: tuple[str, bytes]) -> Path:
    """Write ``<directory>.zip`` with a good bundle and ``further`` members, whose names are not checked."""
    target = directory.with_name(directory.name + ".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (*_members(directory), *further):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return target


def write_zip_bomb(directory: Path) -> Path:
    """Write a .zip that grows a thousandfold."""
    target = write_zip(directory)
    chunk = bytes(1 << 20)
    with (
        zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("padding.bin", "w", force_zip64=True) as member,
    ):
        for _ in range(BOMB_BYTES // len(chunk)):
            member.write(chunk)
    return target


def write_zip_symlink(directory: Path) -> Path:
    """Write a .zip in which a member is a symbolic link (Unix mode in the external attributes)."""
    target = write_zip(directory)
    link = zipfile.ZipInfo("names.txt")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    return target


def write_tar(directory: Path, name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    """Write ``<directory>.tar.gz`` with a good bundle and one more member of the given name and kind."""
    target = directory.with_name(directory.name + ".tar.gz")
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in _members(directory):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        info.size = 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(b"evil") if info.size else None)
    return target
