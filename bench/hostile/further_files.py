"""Members of the written catalogue whose fault lies in the files, the archive or the manifest."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper

from examples import hostile_models as models
from examples import hostile_writers as w
from examples.evidence_classifier import build_model
from examples.hostile_models import node

SHARERS: Final = 10_000
SHARED_BYTES: Final = 1 << 20
TERABYTE: Final = 1 << 40
MANY_FILES: Final = 20_000


class _RunsACommand:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("id",)


def shared_range(path: Path) -> Path:
    """Write a model of 10,000 weights of 1 MiB, all of them the same MiB of one file: 10 GiB once read."""

    def change(proto: Any) -> None:
        names = []
        for i in range(SHARERS):
            tensor = proto.graph.initializer.add(
                name=f"s{i}",
                data_type=TensorProto.FLOAT,
                dims=[SHARED_BYTES // 4],
                data_location=TensorProto.EXTERNAL,
            )
            for key, value in {"location": "weights.bin", "offset": "0", "length": str(SHARED_BYTES)}.items():
                tensor.external_data.add(key=key, value=value)
            names.append(tensor.name)
        proto.graph.node.append(node("Sum", names, ["summed"]))
        proto.graph.output.append(helper.make_tensor_value_info("summed", TensorProto.FLOAT, [SHARED_BYTES // 4]))

    w.plain(path, models.rewrite(build_model(), change))
    (path / "weights.bin").write_bytes(np.zeros(SHARED_BYTES // 4, np.float32).tobytes())
    return path


def pickle_beside(path: Path) -> Path:
    """Write a good bundle with a pickle beside the model that runs a command when it is loaded."""
    w.plain(path)
    (path / "scaler.pkl").write_bytes(pickle.dumps(_RunsACommand()))
    return path


def second_model(path: Path) -> Path:
    """Write a good bundle with a second model that no manifest names."""
    w.plain(path)
    (path / "other.onnx").write_bytes(models.build(models.divides_at_load()))
    return path


def terabyte(path: Path) -> Path:
    """Write a good bundle with a sparse file of 1 TiB."""
    w.plain(path)
    with (path / "embeddings.bin").open("wb") as file:
        file.truncate(TERABYTE)
    return path


def many_files(path: Path) -> Path:
    """Write a good bundle with 20,000 small files."""
    w.plain(path)
    (path / "shards").mkdir()
    for i in range(MANY_FILES):
        (path / "shards" / f"{i}.bin").write_bytes(b"x")
    return path


def colliding_names(path: Path) -> Path:
    """Write a good bundle with ``Model.onnx`` beside ``model.onnx``: one file, on some systems."""
    w.plain(path)
    (path / "Model.onnx").write_bytes(build_model() + bytes(16))
    return path


def control_name(path: Path) -> Path:
    """Write a good bundle with a file whose name clears a terminal."""
    w.plain(path)
    (path / "notes\x1b[2J.txt").write_text("x")
    return path


def linked_directory(path: Path) -> Path:
    """Write a good bundle with a link to ``/etc``."""
    w.plain(path)
    (path / "assets").symlink_to("/etc")
    return path


def no_manifest(path: Path) -> Path:
    """Write a good bundle without a manifest."""
    w.plain(path)
    (path / "bundle.toml").unlink()
    return path


def truncated_zip(path: Path) -> Path:
    """Write half of a .zip."""
    made = w.write_zip(path)
    made.write_bytes(made.read_bytes()[: made.stat().st_size // 2])
    return made


def duplicate_zip(path: Path) -> Path:
    """Write a .zip in which ``model.onnx`` stands twice; which one counts depends on the reader."""
    return w.write_zip(path, ("model.onnx", models.build(models.divides_at_load())))


def encrypted_zip(path: Path) -> Path:
    """Write a .zip that says of one member that it is encrypted."""
    made = w.write_zip(path)
    data = bytearray(made.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    made.write_bytes(bytes(data))
    return made


def lying_zip(path: Path) -> Path:
    """Write a .zip whose directory says that a member of 8 MiB has one byte."""
    made = w.write_zip(path, ("padding.bin", os.urandom(64) * (8 << 14)))
    data = bytearray(made.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1).to_bytes(4, "little")
    made.write_bytes(bytes(data))
    return made


def nested_zip(path: Path) -> Path:
    """Write a .zip in a .zip in a .zip, five deep, the innermost of zeros a thousandfold."""
    made = w.write_zip(path)
    inner = path.with_name("inner.zip")
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.bin", bytes(64 << 20))
    for _ in range(4):
        held = inner.read_bytes()
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
            for copy in range(4):
                archive.writestr(f"{copy}.zip", held)
    with zipfile.ZipFile(made, "a") as archive:
        archive.write(inner, "assets.zip")
    inner.unlink()
    return made


MODEL, FILES, ARCHIVE, MANIFEST = "model", "files", "archive", "manifest"

WRITERS: Final[dict[str, tuple[str, str, Callable[[Path], Path]]]] = {
    "external-shared-range": ("external data", MODEL, shared_range),
    "pickle-beside": ("payload", FILES, pickle_beside),
    "second-model": ("files", FILES, second_model),
    "terabyte": ("files", FILES, terabyte),
    "files-20000": ("files", FILES, many_files),
    "names-collide": ("files", FILES, colliding_names),
    "name-control": ("files", FILES, control_name),
    "link-to-directory": ("files", FILES, linked_directory),
    "manifest-none": ("manifest", MANIFEST, no_manifest),
    "zip-truncated": ("archive", ARCHIVE, truncated_zip),
    "zip-duplicate": ("archive", ARCHIVE, duplicate_zip),
    "zip-encrypted": ("archive", ARCHIVE, encrypted_zip),
    "zip-lies": ("archive", ARCHIVE, lying_zip),
    "zip-nested": ("archive", ARCHIVE, nested_zip),
}
"""Name to family, where the fault is, and what writes it."""
