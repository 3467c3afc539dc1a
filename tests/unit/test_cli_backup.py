"""`acceptd backup` and `restore` in words: what is in it, what is not, and that what differs is no success."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.cli import backup as module
from acceptd.errors import ConfigError
from acceptd.loader import open_release
from acceptd.record.log import Ledger
from tests.command_world import Commands, alone, ready
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    umask = os.umask(0o022)  # each of these commands sets one of its own
    made = World(tmp_path)
    ready(made.state)
    made.released()
    yield made
    made.close()
    os.umask(umask)


def taken(world: World, *words: str) -> Path:
    target = world.root / "copy"
    Commands(alone(module.backup), world.state)(target, *words)
    return target


def restore(world: World) -> Commands:
    return Commands(alone(module.restore), world.root / "again")


def test_a_backup_says_what_it_holds_and_that_the_keys_are_not_in_it(world: World) -> None:
    target = world.root / "copy"
    said = Commands(alone(module.backup), world.state)(target).splitlines()
    head = world.ledger.tree()
    assert head.size > 1
    assert said[0] == f"place   {target}"
    assert said[1].startswith(f"ledger  {head.size} entries, root {head.root.hex()[:16]}…, as of ")
    assert said[2].startswith("files   ")
    assert said[3] == "keys    not in it: keep them elsewhere, or nothing can be signed after a restore"
    told = json.loads(Commands(alone(module.backup), world.state)(world.root / "other", "--with-keys", "--json"))
    assert (told["entries"], told["root"], told["with_keys"]) == (head.size, head.root.hex(), True)
    assert (world.root / "other" / "state" / "keys" / "ledger.pem").is_file()


def test_the_backup_of_a_state_that_was_just_made_holds_one_entry(tmp_path: Path, world: World) -> None:
    state = ready(tmp_path / "fresh")
    Ledger.open(state).close()
    said = Commands(alone(module.backup), state)(tmp_path / "its-copy").splitlines()
    assert said[1].startswith("ledger  1 entry, root ")


def test_a_restore_says_what_is_lost_and_where_the_keys_have_to_go(world: World) -> None:
    said = restore(world).run(taken(world))
    assert said.code == 0, said
    for text in module.OLDER:
        assert text in said.out.splitlines()
    assert said.out.splitlines()[-1].startswith("The private keys are not in it: put them into keys/ (0700")
    assert "anchor" not in said.out
    assert "verified" in said.err
    assert (
        open_release(world.root / "again", MODEL, keys=world.state / "keyring.json", now=lambda: world.now).number
        == 1
    )


def test_with_keys_none_is_asked_for(world: World) -> None:
    said = restore(world).run(taken(world, "--with-keys"))
    assert (said.code, "The private keys" in said.out) == (0, False)


def test_what_was_damaged_before_the_backup_is_no_success_after_it(world: World) -> None:
    victim = next((world.state / "store" / "sha256").glob("*/model.onnx"))
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:-1] + b"!")
    target = taken(world)
    said = restore(world).run(target)
    assert said.code == 5
    assert "differs: " in said.err
    shutil.rmtree(world.root / "again")
    told = restore(world).run(target, "--json")
    assert (told.code, told.json["verified"]) == (5, False)
    assert told.json["notes"] == list(module.OLDER)


def test_an_anchor_that_may_know_more_is_said_before_the_first_start(world: World) -> None:
    place = world.root / "anchor"
    place.mkdir(mode=0o700)
    ready(world.state, settings=f'[checkpoint]\nanchor = "{place}"\n')
    said = restore(world).run(taken(world))
    assert (said.code, "The anchor knows of more than this ledger, perhaps" in said.out) == (0, True)
    shutil.rmtree(place)
    shutil.rmtree(world.root / "again")
    said = restore(world).run(world.root / "copy")
    assert said.code == 5, "it cannot be asked, so nothing says that the log was not cut"
    assert "differs: anchor" in said.err


def test_what_cannot_be_verified_at_all_is_no_success(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_what: object) -> None:
        raise ConfigError("acceptd.toml: no table [[x]]", remedy="mend it")

    monkeypatch.setattr("acceptd.cli.ledger.verify", broken)
    said = restore(world).run(taken(world))
    assert said.code == 5
    assert "not verified: acceptd.toml: no table [[x]]" in said.err
