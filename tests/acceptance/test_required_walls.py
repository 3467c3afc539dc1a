"""A wall that the policy requires and the host lacks: the daemon does not start, a check is inconclusive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from acceptd.cell.client import Cell
from acceptd.config import CHECKOUT
from examples import evidence_classifier as classifier
from tests.world import World

pytestmark = pytest.mark.acceptance


@pytest.fixture
def harsh(tmp_path: Path) -> Path:
    """Return a policy that requires a wall which this host does not have."""
    sealed = tmp_path / "probe"
    sealed.mkdir()
    with Cell(sealed) as cell:
        lacking = [name for name, state in cell.outer_states.items() if state != "enforced"]
    if not lacking:
        pytest.skip("this host has every wall")
    policies = tmp_path / "policies"
    shutil.copytree(CHECKOUT / "policies", policies)
    policy = policies / "harsh.toml"
    policy.write_text(f'schema = 1\nname = "harsh"\nrequired_walls = ["seccomp", "{lacking[0]}"]\n')
    return policy


def test_the_daemon_refuses_to_start_and_names_the_wall_and_the_remedy(harsh: Path, tmp_path: Path) -> None:
    made = World(tmp_path)
    done = made.acceptd("daemon", "--policy", str(harsh))
    assert done.returncode == 2
    first, remedy, *more = done.stderr.strip().splitlines()
    assert "requires walls that do not hold here" in first
    assert remedy.strip().startswith("→")
    assert not more
    assert not list((made.state / "sealed").iterdir())


def test_a_check_without_the_wall_is_inconclusive_however_good_the_bundle(harsh: Path, tmp_path: Path) -> None:
    made = World(tmp_path)
    bundle = classifier.write_bundle(tmp_path / "b")
    done = made.acceptd("check", str(bundle), "--json", "--policy", str(harsh))
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (4, "inconclusive")
    assert "cell/wall-missing" in {one["code"] for one in report["findings"]}
