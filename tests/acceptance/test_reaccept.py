"""``acceptd reaccept`` runs the store's bytes through real cells, under another policy, and touches nothing."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.config import CHECKOUT, Paths
from examples import evidence_classifier as classifier
from tests import commands
from tests.export_world import tree
from tests.release_world import MODEL, World

pytestmark = pytest.mark.acceptance


def bundle(home: Path, name: str, **changes: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Write a bundle of the team mosaic, and return its files and its manifest."""
    path = classifier.write_bundle(home / name, **changes)
    text = (path / "bundle.toml").read_text().replace(MODEL, f"mosaic/{name}")
    (path / "bundle.toml").write_text(text)
    return tree(path), tomllib.loads(text)


def test_what_is_promoted_is_run_again_and_what_would_not_pass_is_listed(tmp_path: Path) -> None:
    world = World(tmp_path)
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    for name in ("good", "wrong", "damaged"):
        files, manifest = bundle(tmp_path, name)
        if name == "wrong":  # accepted once, by a runtime that gave other values
            files |= {path: files[path][:-1] + b"?" for path in files if "output" in path}
        release = world.promote(
            world.accepted(files=files, manifest=manifest, model_id=f"mosaic/{name}"), model_id=f"mosaic/{name}"
        )
        if name == "damaged":
            (release.bundle / "model.onnx").chmod(0o644)
            (release.bundle / "model.onnx").write_bytes(b"another model")
    size, before = world.ledger.tree().size, tree(world.state / "releases")
    policy = tmp_path / "next.toml"
    policy.write_text((CHECKOUT / "policies/demo.toml").read_text().replace('name = "demo"', 'name = "next"'))
    words = ("reaccept", "--profile", "cpu", "--policy", str(policy), "--state", str(world.state))
    done = commands.run(*words, "--json")
    report = json.loads(done.stdout)
    found = {one["model_id"]: one for one in report["releases"]}
    assert {name: one["status"] for name, one in found.items()} == {
        "mosaic/good": "passes", "mosaic/wrong": "rejected", "mosaic/damaged": "inconclusive"
    }, done.stdout  # fmt: skip
    assert (done.returncode, report["policy"], report["profiles"]) == (1, "next", ["cpu"])
    assert "parity/mismatch" in found["mosaic/wrong"]["new_codes"], found
    assert "does not hold the bundle" in found["mosaic/damaged"]["reason"]
    assert len(found["mosaic/good"]["runtimes"]) == 1
    assert (world.ledger.tree().size, tree(world.state / "releases")) == (size, before)
    world.close()
    for wrong, said in (("nobody", "profiles/nobody.toml"), ("../x", "is no name")):
        done = commands.run("reaccept", "--profile", wrong, "--state", str(world.state))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    done = commands.run("reaccept", "--model", "mosaic/none", "--state", str(world.state))
    assert (done.returncode, "nothing is promoted" in done.stdout) == (0, True), done.stderr
