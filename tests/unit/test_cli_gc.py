"""`acceptd gc`: what goes is on record first and told by name; what could not be removed is no success."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cli import gc as module
from acceptd.retention.collect import Collected
from tests.command_world import Commands, alone, ready
from tests.retention_world import Kept

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    ready(made.state)
    yield made
    made.close()


@pytest.fixture
def gc(world: Kept, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The command, four hundred days from now."""
    monkeypatch.setattr(module, "look_at", lambda *_what: world.look(400))
    return Commands(alone(module.gc), world.state)


def test_what_would_go_is_what_goes_and_each_is_an_entry_of_the_record(world: Kept, gc: Commands) -> None:
    place = world.held("s-1", verdict="rejected")
    before = world.ledger.tree()
    plan = json.loads(gc("--dry-run", "--json"))
    assert ([one["name"] for one in plan["gone"]], plan["dry_run"], plan["problems"]) == (["s-1"], True, [])
    shown = gc("--dry-run")
    assert "would go" in shown.splitlines()[0]
    assert "1 would go, " in shown.splitlines()[-1]
    assert (world.ledger.tree(), place.exists()) == (before, True)
    shown = gc()
    assert shown.splitlines()[0] == "gone"
    assert "s-1" in shown
    assert (place.exists(), world.ledger.tree().size > before.size) == (False, True)
    assert json.loads(gc("--json"))["gone"] == []


def test_a_long_table_says_how_much_more_there_is(
    world: Kept, gc: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHOWN", 2)
    for number in range(5):
        world.held(f"s-{number}", verdict="rejected")
    shown = gc("--dry-run")
    assert "  and 3 more: --json has them all" in shown
    assert len(json.loads(gc("--dry-run", "--json"))["gone"]) == 5


def test_what_could_not_be_removed_ends_it_with_seventy(gc: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Collected(problems=["quarantine/s-1: Read-only file system"])
    monkeypatch.setattr(module, "collect", lambda *_what, **_more: trouble)
    said = gc.run()
    assert (said.code, "not removed: quarantine/s-1: Read-only file system" in said.out) == (70, True)
    told = gc.run("--json")
    assert (told.code, told.json["problems"]) == (70, trouble.problems)
