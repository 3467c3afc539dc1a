"""The manifest job: TOML in, JSON data out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import manifest
from tests import static_world as world

pytestmark = pytest.mark.unit

TEXT = '''
schema = 1  # a comment with "quotes" and [brackets [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
[bundle]
id = "mosaic/evidence-disposition"
purpose = """routes evidence ... to "accept" . . . . . . . . . . . . . . . . . . . . . . . . . . . ."""
prohibited_uses = ['a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z', "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]
[dims.batch]
min = 1
max = 32
[[models]]
name = "main"
opsets = { "ai.onnx" = 13 }
[[models.inputs]]
range = [0.0, 1.0]
bounds = [-inf, nan]
[files]
"model.v1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.onnx" = { size = 309, sha256 = "00" }
'''


def read(root: Path, raw: bytes) -> world.Recorder:
    (root / "bundle.toml").write_bytes(raw)
    return world.recorded(manifest.body, {"root": str(root), "path": "bundle.toml"})


def test_a_manifest_becomes_json_data(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT.encode())
    assert found.refused is None, found.refused
    document = found.frames["manifest"]["document"]
    assert document["bundle"]["id"] == "mosaic/evidence-disposition"
    assert document["dims"] == {"batch": {"min": 1, "max": 32}}
    assert document["models"][0]["opsets"] == {"ai.onnx": 13}
    assert document["models"][0]["inputs"][0] == {"range": [0.0, 1.0], "bounds": ["-inf", "nan"]}
    assert list(document["files"].values()) == [{"size": 309, "sha256": "00"}]


def test_every_array_may_be_long(tmp_path: Path) -> None:
    raw = b"labels = [" + b"'x', " * 12_000 + b"]"
    assert len(read(tmp_path, raw).frames["manifest"]["document"]["labels"]) == 12_000


def test_the_place_of_a_mistake_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, b"schema = 1\nname = \n")
    assert found.refused is not None
    assert found.refused.code == "manifest/not-toml"
    assert "line 2" in found.refused.message


def test_missing_file_and_directory(tmp_path: Path) -> None:
    spec = {"root": str(tmp_path), "path": "bundle.toml"}
    assert world.recorded(manifest.body, spec).codes() == {"manifest/missing"}
    (tmp_path / "bundle.toml").mkdir()
    assert world.recorded(manifest.body, spec).codes() == {"manifest/missing"}


def test_preload_passes() -> None:
    manifest.preload()
