"""kill -9 during a removal: never bytes without an entry, and the next run brings it to its end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from acceptd.record import failpoint
from acceptd.release import audit as release_audit
from acceptd.retention import audit as retention_audit
from acceptd.retention.collect import GONE
from tests.retention_world import Kept

pytestmark = pytest.mark.crash


def killed(root: Path, place: str) -> None:
    child = os.fork()
    if child == 0:
        os.environ[failpoint.VARIABLE] = place
        try:
            Kept(root).collect(11)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), place
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize(
    ("place", "entries", "there"),
    [
        ("retention.bundle.entered", 1, True),
        ("retention.bundle.moved", 1, False),
        ("retention.bundle.entered@3", 3, True),
        ("retention.files.entered", 4, True),
    ],
)
def test_a_kill_loses_no_bytes_without_an_entry(tmp_path: Path, place: str, entries: int, there: bool) -> None:
    world = Kept(tmp_path)
    first, *_ = [world.released(f"1.{number}.0").bundle_digest for number in range(3)]
    world.held("s-1")
    world.held("s-2")
    output = world.output("a", 50)
    world.close()
    killed(tmp_path, place)
    world = Kept(tmp_path)
    recorded = {item["name"] for entry in world.ledger.entries(kind="removed") for item in entry.body["items"]}
    assert len(list(world.ledger.entries(kind="removed"))) == entries
    last = list(world.ledger.entries(kind="removed"))[-1].body["items"][0]["name"]
    places = {"s-1": "quarantine", "s-2": "quarantine", first: "store/sha256", output.name: "outputs"}
    assert (world.state / places[last] / last).exists() == there
    missing = {name for name, folder in places.items() if not (world.state / folder / name).exists()}
    assert missing <= recorded
    assert retention_audit.examine(world.state, world.ledger) == []
    assert release_audit.examine(world.state, world.ledger, world.keys) == []
    world.collect(11)
    for name, folder in places.items():
        assert not (world.state / folder / name).exists()
        assert not [one for one in os.listdir(world.state / folder) if one.startswith(GONE)]
    assert retention_audit.examine(world.state, world.ledger) == []
    assert release_audit.examine(world.state, world.ledger, world.keys) == []
    world.close()
