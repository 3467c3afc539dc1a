"""A held bundle becomes a release by people's decisions alone, and the loader opens it."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acceptd.loader import open_release
from examples.evidence_classifier import MODEL_ID, write_bundle
from tests import commands
from tests.world import ROOT, world

pytestmark = pytest.mark.acceptance


def away(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one command where there is no state: on a reviewer's own machine."""
    return commands.run(*words)


def test_two_people_approve_what_was_held_and_one_does_not_suffice(tmp_path: Path) -> None:
    policies = shutil.copytree(ROOT / "policies", tmp_path / "policies")
    text = (policies / "demo.toml").read_text()
    (policies / "demo.toml").write_text(f'{text}\n[contracts]\nmissing = "hold"\n[approvals]\nrequired = 2\n')
    with world(tmp_path) as made:
        lines = ""
        for name in ("ada", "ben"):
            path = str(tmp_path / f"{name}.pem")
            key = away("review", "keygen", path, "--name", name, "--team", "safety")
            assert key.returncode == 0, key.stderr
            lines += key.stdout
        (policies / "reviewers.toml").write_text(lines)
        settings = made.state / "acceptd.toml"
        settings.write_text(f"policies = {json.dumps(str(policies))}\n{settings.read_text()}")
        listed: dict[str, Any] = {"schema": 1, "number": 7, "issued_at": "2026-01-01T00:00:00Z"}
        listed |= {"expires_at": "2099-01-01T00:00:00Z"}
        listed["advisories"] = [{"id": "CVE-2026-0001", "summary": "of every version", "versions": ">=1"}]
        (tmp_path / "list.json").write_text(json.dumps(listed))
        signing = ("--key", str(tmp_path / "ada.pem"), "--output", str(tmp_path / "list.signed"))
        assert away("advisory", "sign", str(tmp_path / "list.json"), *signing).returncode == 0
        installed = made.acceptd("advisory", "install", str(tmp_path / "list.signed"))
        assert installed.returncode == 0, installed.stderr
        made.start()
        report = made.verdict(made.drop(write_bundle, "first"))
        made.until(lambda: made.entries("verdict") != [] and not list((made.state / "sealed").iterdir()), "kept")
        made.stop()
        assert report["verdict"] == "held"
        seen = {one["severity"] for one in report["findings"]}
        assert seen <= {"info"}, "what holds is for reviewers alone"
        waiting = json.loads(made.acceptd("review", "list", "--json").stdout)
        assert [(one["submission"], one["holds"]) for one in waiting] == [
            (report["submission"], "contract/missing, runtime/advisory")
        ]
        assert "runtime/advisory" in made.acceptd("report", report["submission"]).stdout
        early = made.acceptd("review", "promote", report["submission"])
        assert early.returncode == 2, early.stdout
        assert "2 more of 2 approvals" in early.stderr

        # The first one signs here; the second prepares, signs on another machine, and has it recorded.
        words = ("review", "approve", report["submission"], "--reason", "read the model card")
        first = made.acceptd(*words, "--key", str(tmp_path / "ada.pem"))
        assert first.returncode == 0, first.stderr
        assert "1 more of 2 approvals needed" in first.stdout
        assert made.acceptd(*words, "--output", str(tmp_path / "payload")).returncode == 0
        sign = ("review", "sign", str(tmp_path / "payload"), "--key", str(tmp_path / "ben.pem"))
        signed = away(*sign, "--output", str(tmp_path / "signed"))
        assert signed.returncode == 0, signed.stderr
        done = made.acceptd("review", "record", str(tmp_path / "signed"))
        assert done.returncode == 0, done.stderr
        assert f"{MODEL_ID} production is now 1" in done.stdout

        opened = open_release(made.state, MODEL_ID, keys=made.state / "keyring.json")
        assert opened.number == 1
        decisions = [entry["seq"] for entry in made.entries("decision")]
        assert len(decisions) == 2
        release = made.acceptd("release", "history", MODEL_ID, "--json")
        assert "approved by ada, ben" in release.stdout
        assert json.loads(made.acceptd("review", "list", "--json").stdout) == []
        affected = made.acceptd("advisory", "affected", "--json")
        assert affected.returncode == 3, affected.stderr
        (row,) = json.loads(affected.stdout)["releases"]
        assert [hit["id"] for hit in row["advisories"]] == ["CVE-2026-0001"]
        assert row["places"] == [{"channel": "production", "number": 1}]
        assert "affected" in made.acceptd("advisory", "affected").stdout
        assert "CVE-2026-0001" in made.acceptd("advisory", "list").stdout
        verified = made.acceptd("ledger", "verify")
        assert verified.returncode == 0, verified.stdout

        # What people approved is what the next version is compared with, as after a verdict of the machine.
        made.start()
        other = made.verdict(made.drop(partial(write_bundle, version="1.5.0", bias=(0.3, 0.0, -0.3)), "second"))
        made.stop()
        assert other["difference"]["status"] == "found", other["difference"]
        assert other["difference"]["release"]["number"] == 1
