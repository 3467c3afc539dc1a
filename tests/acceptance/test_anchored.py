"""A daemon with a place outside its state: verdicts say so, and a restored backup does not start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from examples.evidence_classifier import write_bundle
from tests.world import world

pytestmark = pytest.mark.acceptance


def test_the_state_restored_from_a_backup_does_not_start_and_says_why(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    with world(tmp_path) as made:
        settings = made.state / "acceptd.toml"
        settings.write_text(f'{settings.read_text()}\n[checkpoint]\nanchor = "{volume}"\n')
        subprocess.run(["cp", "-a", str(made.state), str(tmp_path / "backup")], check=True)
        made.start()
        report = made.verdict(made.drop(write_bundle, "first"))
        assert report["ledger"] == "anchored"
        made.stop()
        assert made.entries("verdict")[-1]["body"]["ledger"] == "anchored"
        notes = sorted(volume.glob("acceptd-*.note"))
        whole = made.acceptd("ledger", "verify", "--checkpoint", str(notes[-1]))
        assert whole.returncode == 0, whole.stdout
        shutil.rmtree(made.state)
        (tmp_path / "backup").rename(made.state)
        daemon = made.start(ready=False)
        assert daemon.wait(60) == 5
        assert "an older backup; nothing is signed" in made.log.read_text()
        differs = made.acceptd("ledger", "verify")
        assert differs.returncode == 5
        assert "cut, or an older backup" in " ".join(differs.stdout.split())
        # The auditor's own copy of a note does it without the place.
        settings.write_text(settings.read_text().replace(str(volume), ""))
        assert made.acceptd("ledger", "verify").returncode == 0
        assert made.acceptd("ledger", "verify", "--checkpoint", str(notes[-1])).returncode == 5
