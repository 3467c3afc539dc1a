"""The network between nodes is cut while drops are judged: once it is whole again each has its one verdict."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.fleet import network
from tests.fleet.processes import ROOT

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not network.able(), reason="no right to make namespaces")]

CUTS = ("cable pulled", "interface down", "database lost", "objects lost")


@pytest.mark.parametrize("seed", [2])
def test_a_cut_between_any_role_and_what_it_stands_on_ends_with_one_verdict_of_each_drop(seed: int) -> None:
    """In a process of its own, whose network nobody else sees; `make chaos-fleet` has more of everything."""
    words = ["--seed", str(seed), "--count", "10", "--acts", "6", "--only", *CUTS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fleet.chaos", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["broken"] == []
    assert sum(found["acts"].values()) == 6
    assert sum(found["verdicts"].values()) == 10
