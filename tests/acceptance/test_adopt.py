"""Adoption through the real cell: proposals, goldens, a check; run twice; what is no model ends nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from examples.evidence_classifier import Variant, build_model, write_bundle
from tests import commands

pytestmark = pytest.mark.acceptance
HOSTILE, CONTROL = "a<script>&'.onnx", "c\x1b[31m\u202e.onnx"


def adopted(source: Path, out: Path, *words: str) -> tuple[dict[str, Any], int]:
    done = commands.run(
        "adopt", str(source), "--into", str(out), "--team", "mosaic", "--policy", "demo", "--json", *words
    )
    assert done.stdout, done.stderr
    rows = {row["path"]: row for row in json.loads(done.stdout)["models"]}
    return rows, done.returncode


def digests(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_models_are_proposed_judged_and_kept_as_a_person_left_them_and_no_file_of_theirs_changes(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "models", tmp_path / "out"
    (source / "plain").mkdir(parents=True)
    (source / "plain" / "model.onnx").write_bytes(build_model())
    (source / HOSTILE).write_bytes(build_model())
    (source / CONTROL).write_bytes(build_model())
    (source / "noise.onnx").write_bytes(b"\x7fELF this is no model" * 50)
    write_bundle(source / "ready")
    before = digests(source)

    rows, code = adopted(source, out, "--observe")
    assert code == 0
    assert digests(source) == before
    assert {path: row["state"] for path, row in rows.items()} == {
        "plain/model.onnx": "made", HOSTILE: "made", CONTROL: "failed", "noise.onnx": "failed",
        "ready": "made",
    }  # fmt: skip
    assert "cannot be inspected" in rows["noise.onnx"]["reason"]
    assert "rename the file" in rows[CONTROL]["reason"]
    for path, name in (("plain/model.onnx", "plain"), (HOSTILE, "a-script"), ("ready", "ready")):
        assert (rows[path]["name"], rows[path]["verdict"]) == (name, "accepted"), rows[path]
        assert (out / "bundles" / name / "bundle.toml").is_file()
        assert {file.stat().st_nlink for file in (out / "bundles" / name).iterdir() if file.is_file()} == {1}
    plain = rows["plain/model.onnx"]
    assert plain["goldens"]["parity"] == 4
    assert "onnx's own evaluator" in plain["said"]
    assert any(text.startswith("no licence") for text in plain["needs"])
    assert (out / "contracts" / "mosaic" / "plain.toml").is_file()
    page = (out / "adopt.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "plain" in page

    # A person completes one; another model is exported anew; a third one appears.
    manifest = out / "bundles" / "plain" / "bundle.toml"
    text = manifest.read_text().replace('# license = "Apache-2.0"', 'license = "MIT"')
    assert text != manifest.read_text()
    manifest.write_text(text)
    (source / HOSTILE).write_bytes(build_model(Variant(bias=(-0.75, 0.5, 0.0))))
    shutil.copytree(source / "plain", source / "later")
    untouched = digests(out / "bundles" / "ready")
    again, code = adopted(source, out)
    assert code == 1  # the file that is no model, without --observe
    assert {path: row["state"] for path, row in again.items()} == {
        "plain/model.onnx": "unchanged", HOSTILE: "refreshed", CONTROL: "failed", "noise.onnx": "failed",
        "ready": "unchanged",
        "later/model.onnx": "made",
    }  # fmt: skip
    assert manifest.read_text() == text
    assert again["plain/model.onnx"]["edited"] == ["bundle.toml"]
    assert again["plain/model.onnx"]["verdict"] == "accepted"
    assert not any(text.startswith("no licence") for text in again["plain/model.onnx"]["needs"])
    assert again[HOSTILE]["verdict"] == "accepted"
    assert digests(out / "bundles" / "ready") == untouched
