"""Numbers come to an end, documents grow too large, and who did it may have no name: each is told."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import MalformedError, ReleaseError
from acceptd.record import key_status
from acceptd.record.keys import create_keys, load_keyring
from acceptd.release import advance
from acceptd.release import document as documents
from acceptd.release.heads import kept_runtimes
from acceptd.release.identity import agreed
from acceptd.release.reconcile import reconcile
from acceptd.release.rests import LEAST, MOST, Rests
from acceptd.release.who import operator
from tests.release_world import World, types_of

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_channel_whose_numbers_are_used_up_takes_no_other_and_keeps_its_release(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance.trust, "MAX_NUMBER", 2)
    world.released("1.0.0")
    world.released("2.0.0")
    before = types_of(world)
    with pytest.raises(ReleaseError, match=r"production has used up its 2 numbers$"):
        world.released("3.0.0")
    assert types_of(world) == before
    assert world.open().number == 2


def test_a_number_that_only_a_directory_bears_is_named_where_it_uses_up_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has made it by hand, or the ledger is an older backup: a person has to look at it."""
    monkeypatch.setattr(advance.trust, "MAX_NUMBER", 5)
    world.released("1.0.0")
    (world.channel_dir / "000005").mkdir()
    with pytest.raises(ReleaseError, match="production/000005, which the ledger does not know") as caught:
        world.released("2.0.0")
    assert "restore a newer ledger; or remove it" in caught.value.remedy
    (world.channel_dir / "000005").rmdir()
    assert world.released("2.0.1").number == 2


def test_a_release_that_would_be_larger_than_a_loader_reads_is_not_made_and_its_number_is_burnt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released("1.0.0")
    with monkeypatch.context() as small:
        small.setattr(documents.trust, "MAX_RELEASE_BYTES", 100)
        with pytest.raises(ReleaseError, match=r"release\.json would have \d+ bytes; 100 are allowed"):
            world.released("2.0.0")
    assert world.open().number == 1
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert types_of(world)[-1] == "abandoned"
    assert world.released("3.0.0").number == 3


def test_a_user_without_a_name_is_told_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> Any:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert operator().startswith("uid ")


def test_what_fails_again_and_again_is_tried_ever_later_and_forgotten_when_nobody_asks_any_more() -> None:
    clock = [0.0]
    rests = Rests(now=lambda: clock[0])
    waits = []
    for _ in range(40):
        rests.failed("a channel")
        began = clock[0]
        while not rests.due("a channel"):
            clock[0] += LEAST
        waits.append(clock[0] - began)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (LEAST, MOST)
    clock[0] += 2 * MOST + LEAST
    rests.failed("another")
    rests.failed("a channel")
    clock[0] += LEAST
    assert rests.due("a channel"), "after so long it is as new"


@pytest.mark.parametrize("key", ["preprocessing", "labels"])
def test_a_release_names_the_identity_that_its_manifest_declares_or_none(key: str) -> None:
    manifest = {"preprocessing": {"version": "3", "sha256": "a" * 64}, "models": []}
    agreed({}, manifest)
    with pytest.raises(MalformedError, match=f"{key} is not what its manifest declares"):
        agreed({key: {"version": "4", "sha256": "b" * 64}}, manifest)


def test_what_is_no_runtime_of_the_released_profiles_is_left_out() -> None:
    profile: Any = type("Profile", (), {"profile": "cpu", "runtime_identity": "a" * 64})()
    assert kept_runtimes(["text", {}, {"profile": "cpu", "record": {}}, 7], [profile]) == []


def test_two_keys_of_one_role_in_use_are_told_by_doctor(world: World, tmp_path: Path) -> None:
    """Nobody could say which of them the next signature is by."""
    (tmp_path / "other").mkdir()
    more = create_keys(tmp_path / "other").for_role("ledger")
    both = type(load_keyring(world.state)).of([*load_keyring(world.state).keys, *more])
    (world.state / "keyring.json").write_bytes(both.to_json())
    told = key_status.examine(world.state, world.ledger, 2_000_000_000.0)
    assert told["keys"] == "2 ledger keys are in use; one is meant"
