"""A backup of a daemon at work is one moment of it: restored it verifies, starts, and a loader opens it."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.backup.document import read
from acceptd.errors import StateError
from acceptd.loader import open_release
from examples import evidence_classifier as classifier
from examples.evidence_classifier import MODEL_ID
from tests import commands
from tests.world import World

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("backup"))
    yield made
    made.kill()


@pytest.fixture(scope="module")
def backup(world: World) -> Path:
    """Take one in the middle of a flood of drops; others go on while and after it is taken."""
    world.start()
    world.drop(lambda path: classifier.write_bundle(path), "first")
    assert world.verdict("first")["verdict"] == "accepted"
    for number in range(3):
        world.drop(
            lambda path, number=number: classifier.write_bundle(path, version=f"2.0.{number}"), f"n{number}"
        )
    target = world.state.parent / "copy"
    done = world.acceptd("backup", str(target), "--with-keys")
    assert done.returncode == 0, done.stderr
    world.until_verdicts(4)
    world.stop()
    return target


def restored(backup: Path, place: Path) -> Any:
    return commands.run("restore", str(backup), "--state", str(place), "--json")


def test_a_backup_under_load_is_restored_verified_started_and_opened(
    world: World, backup: Path, tmp_path: Path
) -> None:
    place = tmp_path / "state"
    done = restored(backup, place)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verified"]
    assert 1 < document["entries"] <= len(world.entries())
    assert any("number that was used may be given out again" in " ".join(pair) for pair in [document["notes"]])
    again = copy.copy(world)
    again.state, again.log, again.daemon = place, tmp_path / "log", None
    try:
        again.start()
        opened = open_release(place, MODEL_ID, keys=place / "keyring.json")
        assert opened.number >= 1
        again.stop()
    finally:
        again.kill()
    assert again.acceptd("ledger", "verify").returncode == 0


def test_nobody_else_reads_it_and_nothing_half_is_left(world: World, backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o700
    assert not [name for name in os.listdir(backup.parent) if "partial" in name]
    again = world.acceptd("backup", str(backup))
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


@pytest.mark.parametrize("damage", ["a flipped byte", "a file that is gone", "the ledger", "a link for a file"])
def test_a_damaged_backup_is_refused_and_leaves_no_ledger(backup: Path, tmp_path: Path, damage: str) -> None:
    spoilt = tmp_path / "copy"
    shutil.copytree(backup, spoilt, symlinks=True)
    (bundle,) = list((spoilt / "state/store/sha256").iterdir())[:1]
    victim = bundle / "model.onnx"
    if damage == "the ledger":
        victim = spoilt / "state/ledger.sqlite3"
    if damage in {"a flipped byte", "the ledger"}:
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(data)
    else:
        victim.unlink()
        if damage == "a link for a file":
            victim.symlink_to("/etc/passwd")
    done = restored(spoilt, tmp_path / "state")
    assert done.returncode == 2
    assert "→" in done.stderr or "remedy" in done.stdout
    assert not (tmp_path / "state/ledger.sqlite3").exists()
    assert commands.run("daemon", "--state", str(tmp_path / "state")).returncode != 0


@pytest.mark.parametrize("path", ["../outside", "/etc/x", "a/../../b", "keys/../../c"])
def test_a_backup_that_names_a_place_outside_writes_nothing_there(backup: Path, tmp_path: Path, path: str) -> None:
    spoilt = tmp_path / "copy"
    shutil.copytree(backup, spoilt, symlinks=True)
    document = json.loads((spoilt / "backup.json").read_text())
    document["files"][0]["path"] = path
    (spoilt / "backup.json").write_text(json.dumps(document))
    with pytest.raises(StateError, match="which no state has"):
        read(spoilt)
    document["files"][0] |= {"path": "releases/x", "link": "/etc"}
    (spoilt / "backup.json").write_text(json.dumps(document))
    with pytest.raises(StateError, match="which no state has"):
        read(spoilt)


def test_a_state_that_holds_something_is_never_overwritten(world: World, backup: Path) -> None:
    done = restored(backup, world.state)
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)


def test_without_keys_none_is_in_it(world: World, tmp_path: Path) -> None:
    done = world.acceptd("backup", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    assert "not in it" in done.stdout
    assert not list((tmp_path / "b/state").glob("keys/*"))
    assert not [one for one in read(tmp_path / "b").files if one.path.startswith("keys")]
    inside = world.acceptd("backup", str(world.state / "tmp/b"))
    assert (inside.returncode, "lies in the state" in inside.stderr) == (2, True)
