"""Refresh, restored backups and pointers moved by hand: numbers only rise, and reconcile mends what it can."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ExpiredError, LedgerError, ReleaseError, StorageError
from acceptd.release import channel as channels
from acceptd.release import objects, trust
from acceptd.release.book import read_book
from acceptd.release.layout import model_lock, revocation_lock
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms, settle
from tests.release_world import MODEL, World, payload_of, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_refresh_renews_what_has_used_half_its_life(world: World) -> None:
    world.released("1.0.0")
    before = payload_of(world.channel_file)

    def refresh() -> int:
        done = channels.refresh(world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now)
        assert done.problems == ()
        return len(done.renewed)

    world.now += 1700
    assert refresh() == 0
    world.now += 200
    assert refresh() == 1
    after = payload_of(world.channel_file)
    assert after["sequence"] > before["sequence"]
    assert after["number"] == before["number"]
    world.now += 3500
    assert world.open().number == 1
    world.now += 100
    with pytest.raises(ExpiredError):
        world.open()


@pytest.mark.parametrize("why", ["a clock that was years ahead", "a life that the policy shortened"])
def test_a_channel_that_is_valid_for_longer_than_it_should_is_signed_anew(world: World, why: str) -> None:
    right = world.now
    if why.startswith("a clock"):
        world.now += 1e8
    else:
        world.terms = Terms(valid_seconds=30 * 86_400, clock=lambda: world.now)
    world.released("1.0.0")
    world.now = right
    assert world.open().expires_at > channels.stamp(right + 3600)
    for renewed in (1, 0):  # once
        done = channels.refresh(world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now)
        assert (len(done.renewed), done.problems) == (renewed, ())
    assert world.open().expires_at == channels.stamp(right + 3600)


def test_sequence_rises_though_the_clock_was_set_back(world: World) -> None:
    world.released("1.0.0")
    assert world.open().number == 1
    world.now -= 86_400
    world.released("2.0.0")
    assert world.open().number == 2


def restored(world: World, tmp_path: Path) -> World:
    """Return a state whose ledger is a backup of one release, and whose release tree says three."""
    world.released("1.0.0")
    world.ledger.close()
    shutil.copy(world.state / "ledger.sqlite3", tmp_path / "backup")
    world = World(tmp_path)
    world.released("2.0.0")
    world.released("3.0.0")
    assert world.open().number == 3
    world.ledger.close()
    shutil.copy(tmp_path / "backup", world.state / "ledger.sqlite3")
    for name in ("ledger.sqlite3-wal", "ledger.sqlite3-shm"):
        (world.state / name).unlink(missing_ok=True)
    return World(tmp_path)


def test_a_revocation_over_a_restored_ledger_is_listed_and_signs_no_lower_number(
    world: World, tmp_path: Path
) -> None:
    """What has to be stopped is stopped; the channel that the backup does not know is told and left as it is."""
    world = restored(world, tmp_path)
    announced = world.channel_file.read_bytes()
    done = world.revoke("0" * 64)
    (problem,) = done.problems
    assert "channel.json announced number 3, the ledger knows 1: was it restored from a backup?" in problem
    assert world.channel_file.read_bytes() == announced
    assert [row["digest"] for row in payload_of(world.revocations_file)["revoked"]] == ["0" * 64]
    assert world.open().number == 3
    world.close()


def test_state_restored_from_a_backup_never_repeats_a_number(world: World, tmp_path: Path) -> None:
    """The ledger is the backup's, the release tree is not: the next number is above both."""
    world = restored(world, tmp_path)
    announced = world.channel_file.read_bytes()
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert "number 3, the ledger knows 1" in done.problems[0]
    assert channels.refresh(world.state, world.ledger, world.keys, force=True).problems
    assert world.channel_file.read_bytes() == announced  # nothing is signed with a lower number
    with pytest.raises(LedgerError, match="older backup; nothing is signed"):
        world.released("4.0.0")  # the log is shorter than a checkpoint that a release carries
    assert world.channel_file.read_bytes() == announced
    shutil.rmtree(world.state / "checkpoints")  # a backup of checkpoints too, and no anchor: nobody can tell
    assert world.released("4.0.0").number == 5  # the number that was taken for nothing is gone
    assert world.open().number == 5
    world.close()


def test_restored_ledger_un_revokes_nothing(world: World) -> None:
    world.released("1.0.0")
    two = world.accepted("2.0.0")

    def change(payload: dict[str, Any]) -> None:
        payload["revoked"] = [{"digest": two.digest, "reason": "forgotten", "at": "2026-11-29T11:57:00Z"}]
        payload["number"] = 7

    world.revoke("0" * 64)
    resign(world, world.revocations_file, change, trust.REVOCATIONS_TYPE, role="revocation")
    with pytest.raises(ReleaseError, match="revoked"):
        world.promote(two)
    assert world.revoke("1" * 64).number == 8
    listed = {row["digest"] for row in payload_of(world.revocations_file)["revoked"]}
    assert listed == {two.digest, "0" * 64, "1" * 64}


def test_damaged_revocation_list_stops_promotion_until_it_is_rebuilt(world: World) -> None:
    world.released("1.0.0")
    world.revoke("0" * 64)
    world.revocations_file.write_bytes(b"{}")
    with pytest.raises(ReleaseError, match="rebuilds the list"):
        world.released("2.0.0")
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.problems == ()
    assert world.open().revocations == 2
    world.released("3.0.0")


def test_removed_revocation_list_is_rebuilt_above_what_was_announced(world: World) -> None:
    world.released("1.0.0")
    world.revoke("0" * 64)
    world.revoke("1" * 64)
    assert world.open().revocations == 2
    world.revocations_file.unlink()
    done = channels.refresh(world.state, world.ledger, world.keys, clock=lambda: world.now, force=True)
    assert "revocation list" in done.problems[0]
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert world.open().revocations == 3


@pytest.mark.parametrize("what", ["current", "channel.json"])
def test_reconcile_mends_a_pointer_that_was_moved_by_hand(world: World, what: str) -> None:
    world.released("1.0.0")
    old = world.channel_file.read_bytes()
    world.released("2.0.0")
    (world.channel_dir / what).unlink()
    if what == "current":
        os.symlink("000001", world.channel_dir / what)
    else:
        world.channel_file.write_bytes(old)
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.problems == ()
    assert len(done.done) == 1
    assert os.readlink(world.channel_dir / "current") == "000002"
    assert world.open().number == 2
    assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).done == ()


def test_reconcile_reports_a_release_that_does_not_verify(world: World) -> None:
    world.released("1.0.0")
    world.release_file(1).unlink()
    (world.channel_dir / "current").unlink()
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert "release.json is missing" in done.problems[0]
    assert not os.path.lexists(world.channel_dir / "current")


def test_a_release_of_another_bundle_is_not_that_of_its_ledger_entry(world: World) -> None:
    """Signed by us, at its place, with its number: and still not what the log says was promoted."""
    world.released("1.0.0")
    (row,) = read_book(world.ledger).rows(MODEL, "production")
    assert channels.verified_release(world.state, world.keys, row, None).bundle_digest == row.digest
    with pytest.raises(ReleaseError) as told:
        channels.verified_release(world.state, world.keys, replace(row, digest="0" * 64), None)
    assert str(told.value) == (
        f"release 1 of {MODEL} production: release.json names another bundle than its ledger entry"
    )


def test_what_a_kill_left_half_written_beside_a_release_is_swept_away(world: World) -> None:
    world.released("1.0.0")
    world.released("2.0.0")
    current = world.release_file(2).parent
    before = sorted(path.name for path in current.iterdir())
    for folder in (world.channel_dir, current):
        (folder / ".tmp-1234").write_bytes(b"half")
    with revocation_lock(world.state, shared=True), model_lock(world.state, MODEL):
        settle(world.state, world.ledger, world.keys, MODEL, "production", world.terms)
    assert sorted(path.name for path in current.iterdir()) == before
    assert not list(world.channel_dir.rglob(".tmp-*"))
    assert world.open().number == 2


@pytest.mark.parametrize("lost", [("channel.json",), ("current",), ("channel.json", "current")])
def test_a_pointer_that_is_gone_is_put_right_and_told_once(world: World, lost: tuple[str, ...]) -> None:
    made = world.released("1.0.0")
    for name in lost:
        (world.channel_dir / name).unlink()
    words = {"channel.json": "channel.json was put right", "current": "the link `current` was put right"}
    for expected in ([words[name] for name in ("current", "channel.json") if name in lost], []):
        with revocation_lock(world.state, shared=True), model_lock(world.state, MODEL):
            done = settle(world.state, world.ledger, world.keys, MODEL, "production", world.terms)
        assert done == [f"{MODEL} production number 1: {one}" for one in expected]
    assert os.readlink(world.channel_dir / "current") == "000001"
    opened = world.open()
    assert (opened.number, opened.bundle_digest) == (1, made.bundle_digest)


def test_a_release_that_the_disk_does_not_give_is_the_disks_fault_and_no_damage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released("1.0.0")
    (row,) = read_book(world.ledger).rows(MODEL, "production")

    def failing(_root: int, _place: str, _limit: int) -> bytes:
        raise StorageError("stale") from OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(objects, "read_if_there", failing)
    with pytest.raises(OSError, match="cannot be read: Stale file handle") as told:
        channels.read_release(world.state, world.keys, row, row.release_digest)
    assert (told.value.errno, told.value.filename) == (errno.ESTALE, str(world.release_file(1)))
