"""``acceptd reaccept`` runs the store's bytes through real cells, under another policy, and touches nothing."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.advisories import register as advisories
from acceptd.advisories.document import read, sign
from acceptd.config import CHECKOUT, Paths
from acceptd.policy.load import load_reviewers
from examples import evidence_classifier as classifier
from tests import commands
from tests.contract_world import ADA
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
    # The runtime is warned of: what would pass otherwise is held for that alone.
    policies = Path(shutil.copytree(CHECKOUT / "policies", tmp_path / "policies"))
    (world.state / "acceptd.toml").write_text(f"policies = {json.dumps(str(policies))}\n")
    line = f'name = "ada"\nteam = "security"\nkey = "{ADA[1].key}"\n'
    (policies / "reviewers.toml").write_text(f"schema = 1\n[[reviewers]]\n{line}")
    listed: dict[str, Any] = {"schema": 1, "number": 1, "issued_at": "2026-01-01T00:00:00Z"}
    listed |= {"expires_at": "2099-01-01T00:00:00Z"}
    listed["advisories"] = [{"id": "CVE-1", "summary": "s", "versions": ">=1"}]
    advisories.install(world.ledger, sign(read(listed), ADA[0]), load_reviewers(policies))
    size, before = world.ledger.tree().size, tree(world.state / "releases")
    policy = tmp_path / "next.toml"
    policy.write_text((CHECKOUT / "policies/demo.toml").read_text().replace('name = "demo"', 'name = "next"'))
    words = ("reaccept", "--profile", "cpu", "--policy", str(policy), "--state", str(world.state))
    done = commands.run(*words, "--json")
    report = json.loads(done.stdout)
    found = {one["model_id"]: one for one in report["releases"]}
    assert {name: one["status"] for name, one in found.items()} == {
        "mosaic/good": "held", "mosaic/wrong": "rejected", "mosaic/damaged": "inconclusive"
    }, done.stdout  # fmt: skip
    assert (done.returncode, report["policy"], report["profiles"]) == (1, "next", ["cpu"])
    assert found["mosaic/good"]["codes"] == ["runtime/advisory"]
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
