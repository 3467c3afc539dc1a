"""A rotation that was cut off is finished or taken back at the next start, and holds up every other one before.

The same with processes that are killed: tests/crash/test_key_kill.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from acceptd import key_rotation, opening
from acceptd.config import Paths
from acceptd.errors import ReleaseError, StateError
from acceptd.policy.policy import Policy
from acceptd.promotions import Promotions
from acceptd.record import keystore
from acceptd.record.keys import load_keyring
from acceptd.release import memory
from acceptd.release.book import read_book
from acceptd.release.signers import ReleaseKeys
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit


class CutError(Exception):
    """The process ended here."""


@pytest.fixture
def world() -> Iterator[World]:
    memory.forget()
    made = World(memory_directory())
    yield made
    made.close()
    shutil.rmtree(made.root)


def cut(world: World, monkeypatch: pytest.MonkeyPatch, role: str, place: str, **more: Any) -> str:
    """Rotate until ``place``; return the id of the key that was in use."""

    def ended(name: str) -> None:
        if name == place:
            raise CutError

    before = load_keyring(world.state).for_role(role)[0].key_id
    with monkeypatch.context() as patched:
        patched.setattr(key_rotation, "failpoint", ended)
        with pytest.raises(CutError):
            key_rotation.rotate(world.state, world.ledger, role, reason="age", terms=world.terms, **more)
    return before


def resumed(world: World) -> list[str]:
    found = key_rotation.resume(world.state, world.ledger, world.terms)
    assert key_rotation.resume(world.state, world.ledger, world.terms) == []
    world.keys = ReleaseKeys.load(world.state, world.ledger)
    return found


@pytest.mark.parametrize("role", ["ledger", "release", "revocation"])
def test_a_key_that_was_staged_and_never_recorded_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    made = world.released()
    before = cut(world, monkeypatch, role, "key.rotate.staged")
    other = "release" if role == "ledger" else "ledger"
    size = world.ledger.tree().size
    with pytest.raises(StateError, match=f"the rotation of the {role} key was interrupted") as caught:
        key_rotation.rotate(world.state, world.ledger, other, reason="age", terms=world.terms)
    assert caught.value.remedy == f"acceptd key rotate {role} --resume"
    assert resumed(world) == [f"the rotation of the {role} key was never recorded: the old key stays"]
    assert load_keyring(world.state).for_role(role)[0].key_id == before
    assert world.ledger.tree().size == size
    assert world.open().bundle_digest == made.bundle_digest


PLACES = ("recorded", "cosigned", "published", "keyring")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", ["ledger", "release", "revocation"])
def test_a_rotation_on_record_is_finished_wherever_it_was_cut(
    world: World, monkeypatch: pytest.MonkeyPatch, role: str, place: str
) -> None:
    made = world.released()
    world.revoke("ab" * 32)
    before = cut(world, monkeypatch, role, f"key.rotate.{place}")
    (entry,) = [body for _, body in keystore.rotations(world.ledger)]
    assert resumed(world) == [f"the rotation of the {role} key to {entry['new']} was finished"]
    (key,) = load_keyring(world.state).for_role(role)
    assert (key.key_id, key.key_id != before) == (entry["new"], True)
    assert world.open().bundle_digest == made.bundle_digest
    assert len(list(world.ledger.entries(kind="intent"))) <= 2, "no number is burnt by doing it again"


def test_a_list_by_a_compromised_key_is_signed_anew_by_the_new_one_alone(world: World) -> None:
    bad, good = world.released("1.0.0"), world.released("2.0.0")
    world.revoke(bad.bundle_digest)
    key_rotation.rotate(
        world.state, world.ledger, "revocation", reason="stolen", compromised_from=1, terms=world.terms
    )
    world.keys = ReleaseKeys.load(world.state, world.ledger)
    memory.forget()
    assert world.open().bundle_digest == good.bundle_digest
    assert bad.bundle_digest in read_book(world.ledger).revoked


def test_without_a_list_of_revocations_a_compromised_key_leaves_nothing_to_sign(world: World) -> None:
    world.revocations_file.unlink(missing_ok=True)
    key_rotation.rotate(
        world.state, world.ledger, "revocation", reason="stolen", compromised_from=1, terms=world.terms
    )
    assert not world.revocations_file.exists(), "the next promotion makes one"
    assert world.released().number == 1


def test_what_is_revoked_gets_no_new_signature_by_a_new_release_key(world: World) -> None:
    world.released()
    digest = world.released("2.0.0").bundle_digest
    world.revoke(digest)
    before = (world.channel_file.read_bytes(), len(list(world.ledger.entries(kind="intent"))))
    key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
    assert (world.channel_file.read_bytes(), len(list(world.ledger.entries(kind="intent")))) == before


def test_a_channel_that_is_damaged_keeps_no_key_from_being_exchanged(world: World) -> None:
    world.released()
    world.channel_dir.rename(world.channel_dir.with_name("aside"))
    done = key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
    assert any(f"{MODEL} production" in one for one in done.problems), done
    assert load_keyring(world.state).for_role("release")[0].key_id == done.rotation.new.key_id


def test_what_the_disk_refuses_leaves_the_rotation_half_done_and_not_half_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released()

    def full(*_: Any) -> None:
        raise ReleaseError("channel.json: No space left on device") from OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(key_rotation, "rekey_locked", full)
        with pytest.raises(ReleaseError):
            key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
    assert keystore.pending(world.state, "release")
    (line,) = resumed(world)
    assert line.endswith("was finished")


def test_a_daemon_that_starts_finishes_it_before_it_signs_anything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released()
    before = cut(world, monkeypatch, "ledger", "key.rotate.recorded")
    helm: Any = SimpleNamespace(paths=Paths(world.state))
    with capture_logs() as logs:
        keys, signer = opening.keys(helm, world.ledger)
    assert [one["event"] for one in logs] == ["a rotation of a key was interrupted"]
    assert logs[0]["what"] == f"the rotation of the ledger key to {signer.key_id} was finished"
    assert signer.key_id != before
    assert keys.release.public_key() == load_keyring(world.state).for_role("release")[0]


def test_a_channel_that_cannot_be_signed_anew_is_told_and_holds_up_no_other(world: World) -> None:
    world.released()
    other = world.accepted("1", model_id="mosaic/other")
    world.promote(other, model_id="mosaic/other")
    world.channel_dir.rename(world.channel_dir.with_name("aside"))
    rules: Any = SimpleNamespace(policy=Policy())
    place = world.state / "releases" / "mosaic" / "other" / "production" / "channel.json"
    before = place.read_bytes()
    with capture_logs() as logs:
        Promotions(world.state, world.ledger, world.keys, lambda: rules).keep()
    (told,) = [one for one in logs if one["event"] == "channel not refreshed"]
    assert f"{MODEL} production" in told["what"]
    assert place.read_bytes() != before
