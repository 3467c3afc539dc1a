"""Rollback and revocation: a higher number on an older digest; what is revoked never comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.errors import ReleaseError, RevokedError
from acceptd.record.entry import Entry
from acceptd.release.revoke import revoke
from acceptd.release.signers import ReleaseKeys
from tests.release_world import MODEL, World, payload_of, types_of

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_rollback_is_a_higher_number_on_the_prior_digest(world: World) -> None:
    one, two = world.released("1.0.0"), world.released("2.0.0")
    assert world.open().bundle_digest == two.bundle_digest
    back = world.rollback()
    assert (back.number, back.kind, back.bundle_digest) == (3, "rollback", one.bundle_digest)
    opened = world.open()
    assert (opened.number, opened.bundle_digest) == (3, one.bundle_digest)
    assert opened.manifest["bundle"]["version"] == "1.0.0"
    assert world.rollback().bundle_digest == two.bundle_digest  # what was current before is prior now


def test_rollback_to_a_named_digest(world: World) -> None:
    one = world.released("1.0.0")
    world.released("2.0.0")
    three = world.released("3.0.0")
    assert world.rollback(one.bundle_digest).bundle_digest == one.bundle_digest
    assert world.rollback(three.bundle_digest).number == 5
    assert world.rollback(three.bundle_digest).new is False
    with pytest.raises(ReleaseError, match="never a release"):
        world.rollback("0" * 64)


def test_rollback_without_anything_to_go_back_to(world: World) -> None:
    with pytest.raises(ReleaseError, match="no release"):
        world.rollback()
    world.released("1.0.0")
    with pytest.raises(ReleaseError, match="no older release"):
        world.rollback()


@pytest.mark.parametrize("named", [False, True])
def test_rollback_to_what_people_have_rejected_since_is_refused_and_changes_nothing(
    world: World, named: bool
) -> None:
    older = world.accepted("1.0.0")
    world.promote(older)
    world.released("2.0.0")
    before, asked = types_of(world), []

    def rejected(entry: Entry) -> str:
        asked.append(entry.seq)
        return "rejected by ann"

    with pytest.raises(ReleaseError) as told:
        world.rollback(older.digest if named else None, rejected=rejected)
    assert str(told.value) == f"{older.digest} (number 1) is rejected by ann since; name another release with --to"
    assert asked == [older.verdict_seq], "the verdict that the older release rests on, not the current one's"
    assert (types_of(world), world.open().number) == (before, 2)
    assert world.rollback(older.digest if named else None, rejected=lambda _entry: "").number == 3


def test_rollback_hashes_the_older_bundle_again(world: World) -> None:
    one = world.released("1.0.0")
    world.released("2.0.0")
    target = one.bundle / "model.onnx"
    data = target.read_bytes()
    target.unlink()
    target.write_bytes(data[::-1])
    with pytest.raises(ReleaseError, match="not the file"):
        world.rollback()
    assert world.open().number == 2


def test_revoked_digest_can_never_be_promoted(world: World) -> None:
    one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
    world.promote(one)
    world.promote(two)
    world.revoke(one.digest)
    world.revoke(world.accepted("3.0.0").digest)
    with pytest.raises(ReleaseError, match="revoked"):
        world.promote(one)
    with pytest.raises(ReleaseError, match="revoked"):
        world.rollback(one.digest)
    with pytest.raises(ReleaseError, match="revoked"):
        world.rollback()
    assert world.open().number == 2


def test_revocation_lists_rise_and_channels_ask_for_them(world: World) -> None:
    world.released("1.0.0")
    assert [world.revoke(c * 64).number for c in "012"] == [1, 2, 3]
    assert payload_of(world.channel_file)["least_revocations"] == 3
    assert world.revoke("2" * 64).number == 3  # again: nothing new
    assert types_of(world).count("revoked") == 3
    assert world.open().revocations == 3


def test_revoke_with_rollback(world: World) -> None:
    one, two = world.released("1.0.0"), world.released("2.0.0")
    done = world.revoke(two.bundle_digest, rollback=True)
    assert [release.bundle_digest for release in done.rollbacks] == [one.bundle_digest]
    assert done.stranded == ()
    opened = world.open()
    assert (opened.number, opened.bundle_digest, opened.revocations) == (3, one.bundle_digest, 1)


def test_revoke_with_rollback_passes_over_revoked_ones(world: World) -> None:
    one = world.released("1.0.0")
    two = world.released("2.0.0")
    three = world.released("3.0.0")
    world.revoke(two.bundle_digest)
    world.revoke(three.bundle_digest, rollback=True)
    assert world.open().bundle_digest == one.bundle_digest


def test_a_revocation_does_not_roll_back_to_what_somebody_rolled_back_from(world: World) -> None:
    one, two, _bad = world.released("1.0.0"), world.released("2.0.0"), world.released("3.0.0")
    assert world.rollback().bundle_digest == two.bundle_digest
    world.revoke(two.bundle_digest, rollback=True)
    assert world.open().bundle_digest == one.bundle_digest


def test_what_was_promoted_again_since_counts_as_any_other(world: World) -> None:
    world.released("1.0.0")
    two = world.accepted("2.0.0")
    world.promote(two)
    world.rollback()
    assert world.promote(two).number == 4
    three = world.released("3.0.0")
    world.revoke(three.bundle_digest, rollback=True)
    assert world.open().bundle_digest == two.digest


def test_a_revocation_rather_goes_there_than_leaves_nothing_to_open(world: World) -> None:
    one, two = world.released("1.0.0"), world.released("2.0.0")
    world.rollback()
    world.revoke(one.bundle_digest, rollback=True)
    assert world.open().bundle_digest == two.bundle_digest


def test_revoke_of_the_only_release_strands_the_channel(world: World) -> None:
    one = world.released("1.0.0")
    done = world.revoke(one.bundle_digest, rollback=True)
    assert done.stranded == ((MODEL, "production"),)
    with pytest.raises(RevokedError):
        world.open()
    world.released("2.0.0")
    assert world.open().number == 2


def test_rollback_added_to_an_earlier_revocation(world: World) -> None:
    world.released("1.0.0")
    two = world.released("2.0.0")
    world.revoke(two.bundle_digest)
    with pytest.raises(RevokedError):
        world.open()
    world.revoke(two.bundle_digest, rollback=True)
    assert world.open().number == 3


def test_revoke_reaches_every_channel_and_model(world: World) -> None:
    accepted = world.accepted("1.0.0")
    world.promote(accepted)
    world.promote(accepted, channel="canary")
    world.promote(world.accepted("1.0.0", model_id="mosaic/other"), model_id="mosaic/other")
    world.revoke(accepted.digest)
    for channel in ("production", "canary"):
        with pytest.raises(RevokedError):
            world.open(channel=channel)


@pytest.mark.parametrize(
    ("digest", "reason"), [("x", "y"), ("A" * 64, "y"), ("0" * 64, " "), ("0" * 64, "y" * 2001)]
)
def test_revocation_that_cannot_be_meant(world: World, digest: str, reason: str) -> None:
    with pytest.raises(ReleaseError):
        revoke(world.state, world.ledger, world.keys, digest=digest, reason=reason)
    assert types_of(world) == []


def test_offline_revocation_key(world: World) -> None:
    world.released("1.0.0")
    (world.state / "keys" / "revocation.pem").unlink()
    world.keys = ReleaseKeys.load(world.state)
    assert world.released("2.0.0").number == 2
    with pytest.raises(ReleaseError, match="revocation key is not here"):
        world.revoke("0" * 64)
    assert "revoked" not in types_of(world)


def test_one_damaged_model_does_not_protect_the_others_from_a_revocation(world: World) -> None:
    one = world.released("1.0.0")
    other = world.promote(world.accepted("1.0.0", model_id="mosaic/alpha"), model_id="mosaic/alpha")
    (world.state / "releases/mosaic/alpha/production/channel.json").unlink()
    (other.path / "release.json").unlink()
    done = world.revoke(one.bundle_digest)
    assert "mosaic/alpha" in done.problems[0]
    with pytest.raises(RevokedError):
        world.open()
