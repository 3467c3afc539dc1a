"""A few of what ``make chaos`` does: a daemon is killed, and one runs out of descriptors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.world import ROOT

pytestmark = pytest.mark.crash

KINDS = ("kill -9 at a random moment", "no descriptors")


def test_a_daemon_that_is_killed_or_starved_keeps_every_promise(tmp_path: Path) -> None:
    """In a process of its own: it becomes the parent of whatever a dead daemon leaves."""
    words = ["--each", "--only", *KINDS, "--seed", "7", "--json", str(tmp_path / "chaos.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.chaos", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    came = json.loads((tmp_path / "chaos.json").read_bytes())
    assert {name: kind["broken"] for name, kind in came["kinds"].items()} == dict.fromkeys(KINDS, 0)
    assert came["kills"] == 1
    assert came["versions"]["python"]
    assert done.stdout.splitlines()[-1].endswith("0 broken; seed 7")
