"""The console over a real instance: a daemon judged a real bundle in the cell, and another policy looks at it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from examples.evidence_classifier import MODEL_ID, write_bundle
from tests.web_world import ROOT, visit

pytestmark = pytest.mark.acceptance

OWN = str(ROOT / ".venv" / "bin" / "python")
"""Of acceptd itself, as in production: the cell binds its interpreter's environment."""


class Instance:
    """What :func:`visit` asks of a world."""

    def __init__(self, state: Path) -> None:
        self.state = state


def acceptd(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OWN, "-m", "acceptd", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_real_verdict_is_read_and_another_policy_judges_it_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    at = ("--state", str(state))
    assert acceptd("init", "--team", MODEL_ID.split("/")[0], *at).returncode == 0
    (state / "acceptd.toml").write_text('policy = "demo"\n[inbox]\nsettle_seconds = 0.2\n')
    bundle = write_bundle(tmp_path / "bundle")
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [OWN, "-m", "acceptd", "daemon", *at], cwd=ROOT, stdout=log, stderr=log, env=dict(os.environ)
        )
        try:
            submitted = acceptd("submit", str(bundle), "--wait", *at)
            assert submitted.returncode == 0, submitted.stderr + (tmp_path / "log").read_text()
            with visit(Instance(state)) as one:  # type: ignore[arg-type]
                one.enter()
                queue = one.get("/").text
                assert "is running" in queue
                assert MODEL_ID in queue
                assert (
                    "Verified" in one.get("/ledger/0").text or "no signed checkpoint" in one.get("/ledger/0").text
                )
                assert "a loader opens it" in one.get("/releases").text
                same = one.get("/replay?policy=demo").text
                assert "1 unchanged" in same, same
                other = one.get("/replay?policy=strict").text
                assert "1 changed" in other or "1 needs-rerun" in other, other
                for address in (
                    f"/models/{MODEL_ID}",
                    "/portfolio",
                    "/observe",
                    f"/releases/{MODEL_ID}/production",
                ):
                    assert one.get(address).status_code == 200, address
        finally:
            daemon.terminate()
            daemon.wait(120)
