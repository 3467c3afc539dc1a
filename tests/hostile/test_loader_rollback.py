"""Attacks on the loader by what was true once: an older channel, number, list of revocations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import (
    ExpiredError,
    MalformedError,
    RevokedError,
    RollbackError,
)
from acceptd.release import memory, trust
from tests.release_world import MODEL, World, replace, repoint, resign

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def released(world: World) -> World:
    world.released("1.0.0")
    assert world.open().number == 1
    return world


# Freshness: rollback, replay, freeze, hidden revocation


def test_replay_of_an_older_channel(released: World) -> None:
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    assert released.open().number == 2
    replace(released.channel_file, old)
    with pytest.raises(RollbackError, match="sequence"):
        released.open()


def test_rollback_of_the_number_by_a_newly_signed_channel(released: World) -> None:
    released.released("2.0.0")
    assert released.open().number == 2
    repoint(released, 1)
    with pytest.raises(RollbackError, match="number 1"):
        released.open()


def test_rollback_in_a_fresh_process_is_noticed_by_the_state_file(released: World, tmp_path: Path) -> None:
    state_file = tmp_path / "loader.json"
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    assert released.open(state_file=state_file).number == 2
    replace(released.channel_file, old)
    memory.forget()
    assert released.open().number == 1  # the control: without a memory it cannot be noticed
    memory.forget()
    with pytest.raises(RollbackError):
        released.open(state_file=state_file)


def test_damaged_state_file_is_not_a_fresh_start(released: World, tmp_path: Path) -> None:
    state_file = tmp_path / "loader.json"
    released.open(state_file=state_file)
    damaged = {"schema": 1, "revocations": 0, "channels": {f"{MODEL}:production": {}}}
    for text in ("", "{}", json.dumps(damaged), "[" * 9999):
        state_file.write_text(text)
        with pytest.raises(MalformedError):
            released.open(state_file=state_file)


def test_two_releases_under_one_number(released: World) -> None:
    def change(payload: dict[str, Any]) -> None:
        payload["reason"] = "another"

    resign(released, released.release_file(1), change, trust.RELEASE_TYPE)
    repoint(released, 1)
    with pytest.raises(RollbackError, match="another release"):
        released.open()


def test_freeze_past_expiry(released: World) -> None:
    released.now += 3599
    assert released.open().number == 1
    released.now += 1
    with pytest.raises(ExpiredError):
        released.open()


def test_hidden_revocation_by_removing_the_list(released: World) -> None:
    released.revoke("0" * 64)
    assert released.open().revocations == 1
    memory.forget()
    released.revocations_file.unlink()
    with pytest.raises(RollbackError, match="hidden"):
        released.open()


def test_hidden_revocation_by_an_older_list(released: World) -> None:
    released.revoke("0" * 64)
    old = released.revocations_file.read_bytes()
    released.revoke("1" * 64)
    assert released.open().revocations == 2
    memory.forget()
    replace(released.revocations_file, old)
    with pytest.raises(RollbackError, match="hidden"):
        released.open()


def test_hidden_revocation_with_the_channel_of_that_time(released: World) -> None:
    released.revoke("0" * 64)
    old = released.revocations_file.read_bytes(), released.channel_file.read_bytes()
    released.revoke("1" * 64)
    assert released.open().revocations == 2
    replace(released.revocations_file, old[0])
    replace(released.channel_file, old[1])
    with pytest.raises(RollbackError):
        released.open()


def test_hidden_revocation_across_models_of_one_root(released: World) -> None:
    other = "mosaic/other"
    released.promote(released.accepted("9.0.0", model_id=other), model_id=other)
    released.revoke("0" * 64)
    assert released.open().revocations == 1
    fresh = released.state / "releases" / other / "production" / "channel.json"

    def change(payload: dict[str, Any]) -> None:
        payload["least_revocations"] = 0

    resign(released, fresh, change, trust.CHANNEL_TYPE)
    released.revocations_file.unlink()
    with pytest.raises(RollbackError, match="hidden"):
        released.open(other)


def test_revoked_digest(released: World) -> None:
    release = released.open()
    released.revoke(release.bundle_digest)
    with pytest.raises(RevokedError, match="it bites"):
        released.open()


def test_revoked_digest_that_is_also_demanded(released: World) -> None:
    digest = released.open().bundle_digest
    assert released.open(digest=digest).number == 1
    released.revoke(digest)
    with pytest.raises(RevokedError):
        released.open(digest=digest)
