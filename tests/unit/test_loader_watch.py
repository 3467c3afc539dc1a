"""Following a channel: each new release once, errors at once, and the old one kept while files are away."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd import loader_watch
from acceptd.errors import (
    DigestMismatchError,
    ExpiredError,
    LoaderError,
    MalformedError,
    ReleaseNotFoundError,
    RevokedError,
    RollbackError,
    SignatureError,
    StorageError,
)
from acceptd.intake import files
from acceptd.loader import OpenRelease, watch
from acceptd.loader_events import Events
from acceptd.loader_watch import Watch
from acceptd.release import channel as channels
from acceptd.release import objects
from tests.release_world import MODEL, World, replace, repoint
from tests.threads import foreign_die_at_once

pytestmark = pytest.mark.unit

EVENTS_ALONE = 600.0
"""Seconds between two looks: what comes sooner was told by an event."""
SOON = 0.02


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.released("1.0.0")
    yield made
    made.close()


def watched(world: World, poll_seconds: float = SOON, **more: Any) -> Watch[OpenRelease]:
    return watch(
        world.state, MODEL, keys=world.state / "keyring.json", poll_seconds=poll_seconds,
        now=lambda: world.now, **more,
    )  # fmt: skip


def threads() -> int:
    return len([one for one in threading.enumerate() if one.is_alive()])


def test_each_promotion_is_given_once_by_events_alone(world: World) -> None:
    with watched(world, EVENTS_ALONE) as releases:
        numbers = [next(releases).number]
        world.released("2.0.0")
        numbers.append(next(releases).number)
        world.rollback()
        numbers.append(next(releases).number)
        assert numbers == [1, 2, 3]
        assert releases.release.number == 3
        assert releases.wait(0) is None


def test_a_directory_that_gets_the_inode_of_the_one_before_is_watched_again(tmp_path: Path) -> None:
    place, heard = tmp_path / "channel", threading.Event()
    place.mkdir()
    events = Events({place: {"channel.json"}}, heard.set)
    try:
        place.rmdir()
        place.mkdir()  # ext4 gives the inode that has just become free
        assert heard.wait(30)
        heard.clear()
        events.renew()
        (place / "channel.json").touch()
        assert heard.wait(30)
    finally:
        events.stop()


def test_a_thread_that_only_reads_the_release_gets_no_revoked_one(world: World) -> None:
    with watched(world) as releases:
        first = next(releases)
        world.revoke(first.bundle_digest)
        with pytest.raises(RevokedError):
            releases.wait(30)
        with pytest.raises(RevokedError):
            _ = releases.release
        second = world.released("2.0.0")
        assert next(releases).number == second.number == releases.release.number


def test_a_thread_that_only_reads_the_release_gets_no_expired_one(world: World) -> None:
    with watched(world) as releases:
        next(releases)
        world.now += 7200.0
        with pytest.raises(ExpiredError):
            releases.wait(30)
        with pytest.raises(ExpiredError):
            _ = releases.release


def test_each_promotion_is_given_once_by_looks_where_there_are_no_events(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acceptd.loader_events.Events.renew", lambda self: None)
    with watched(world) as releases:
        assert releases._events.watched == 0
        assert next(releases).number == 1
        world.released("2.0.0")
        assert next(releases).number == 2


def test_a_channel_that_is_refreshed_gives_nothing_and_lives_longer(world: World) -> None:
    with watched(world) as releases:
        next(releases)
        world.now += 3000
        channels.refresh(world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now)
        assert releases.wait(0.06) is None
        world.now += 3000
        assert releases.wait(0.06) is None
        world.now += 600
        with pytest.raises(ExpiredError, match="withheld"):
            releases.wait(60)


def test_a_revoked_release_is_an_error_at_once_and_its_successor_is_given(world: World) -> None:
    with watched(world, EVENTS_ALONE) as releases:
        first = next(releases)
        world.released("2.0.0")
        second = next(releases)
        world.revoke(second.bundle_digest)
        with pytest.raises(RevokedError, match="it bites"):
            next(releases)
        world.rollback()
        third = next(releases)
        assert (third.number, third.bundle_digest) == (3, first.bundle_digest)


def test_an_error_is_raised_once_and_not_in_a_loop(world: World) -> None:
    with watched(world) as releases:
        release = next(releases)
        world.revoke(release.bundle_digest)
        with pytest.raises(RevokedError):
            next(releases)
        assert releases.wait(0.06) is None


def test_a_watch_of_a_revoked_release_does_not_begin(world: World) -> None:
    world.revoke(world.open().bundle_digest)
    before = threads()
    with pytest.raises(RevokedError):
        watched(world)
    assert threads() == before


@pytest.mark.parametrize("attack", ["replay", "stripped", "swapped", "lower-number"])
def test_what_is_about_security_is_raised_and_not_kept_through(world: World, attack: str) -> None:
    old = world.channel_file.read_bytes()
    with watched(world) as releases:
        next(releases)
        if attack == "replay":
            world.released("2.0.0")
            next(releases)
            replace(world.channel_file, old)
            expected: type[Exception] = RollbackError
        elif attack == "stripped":
            replace(world.channel_file, old.replace(b'"sig":"', b'"sig":"AAAA'))
            expected = SignatureError
        elif attack == "swapped":
            made = world.accepted("2.0.0")
            (world.state / "store" / "sha256" / made.digest / "model.onnx").chmod(0o644)
            (world.state / "store" / "sha256" / made.digest / "model.onnx").write_bytes(b"model 6.6.6" * 50)
            world.promote(made)
            expected = DigestMismatchError
        else:
            world.released("2.0.0")
            next(releases)
            repoint(world, 1)
            expected = RollbackError
        with pytest.raises(expected):
            releases.wait(60)


@pytest.mark.parametrize("place", ["root", "file"])
def test_the_old_release_is_kept_while_the_files_are_away_and_it_is_said_why(world: World, place: str) -> None:
    path = {"root": world.state, "file": world.channel_file}[place]
    aside = world.root / "aside"
    with watched(world) as releases:
        release = next(releases)
        os.rename(path, aside)
        assert releases.wait(0.06) is None
        assert isinstance(releases.problem, ReleaseNotFoundError)
        assert releases.release is release
        os.rename(aside, path)
        world.released("2.0.0")
        assert next(releases).number == 2
        assert releases.problem is None


@pytest.mark.parametrize("number", [5, 116])  # EIO, ESTALE
def test_the_old_release_is_kept_while_the_file_system_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with watched(world) as releases:
        next(releases)
        with monkeypatch.context() as patched:

            def fails(*_: object) -> int:
                raise OSError(number, os.strerror(number))

            patched.setattr(objects, "open_beneath", fails)
            world.channel_file.touch()
            assert releases.wait(0.06) is None
            assert isinstance(releases.problem, StorageError)
            assert os.strerror(number) in str(releases.problem)
        world.released("2.0.0")
        assert next(releases).number == 2


def test_files_that_are_away_until_the_channel_expires_are_a_frozen_channel(world: World) -> None:
    with watched(world) as releases:
        next(releases)
        os.rename(world.channel_dir, world.root / "aside")
        assert releases.wait(0.06) is None
        world.now += 3600
        with pytest.raises(ExpiredError, match="does not exist"):
            releases.wait(60)
        assert releases.wait(0.06) is None  # said once


def test_waiting_reads_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    with watched(world, EVENTS_ALONE) as releases:
        next(releases)
        monkeypatch.setattr(loader_watch.Watch, "_look", lambda self: looks.append(1))
        assert releases.wait(0.06) is None
        (world.state / "unrelated.json").write_text("{}")
        assert releases.wait(0.06) is None
    assert len(looks) <= 2  # one at the end of each wait; not one for each turn of a loop


def test_stop_ends_every_iteration_and_every_thread(world: World) -> None:
    before = threads()
    releases = watched(world, EVENTS_ALONE)
    found: list[list[int]] = []
    waiting = [threading.Thread(target=lambda: found.append([one.number for one in releases])) for _ in range(3)]
    for one in waiting:
        one.start()
    while not releases._given:
        time.sleep(0.001)
    releases.stop()
    for one in waiting:
        one.join(60)
    assert sorted(found) == [[], [], [1]]
    assert threads() == before
    releases.stop()
    assert list(releases) == []


def test_threads_that_iterate_share_the_releases(world: World) -> None:
    got: list[int] = []
    lock = threading.Lock()
    with watched(world, 0.01) as releases:

        def follow() -> None:
            for release in releases:
                with lock:
                    got.append(release.number)

        followers = [threading.Thread(target=follow) for _ in range(3)]
        for one in followers:
            one.start()
        for version in ("2.0.0", "3.0.0", "4.0.0"):
            world.released(version)
        while 4 not in got:
            time.sleep(0.005)
        releases.stop()
        for one in followers:
            one.join(60)
    assert got == sorted(set(got))
    assert got[-1] == 4


def test_a_bundle_whose_copy_was_still_under_way_is_given_when_it_is_whole(world: World) -> None:
    with watched(world) as releases:
        next(releases)
        made = world.accepted("2.0.0")
        model = world.state / "store" / "sha256" / made.digest / "model.onnx"
        whole = model.read_bytes()
        announced = world.promote(made).number
        replace(model, whole[:10])
        with pytest.raises(DigestMismatchError, match="10 bytes"):
            releases.wait(30)
        assert releases.wait(0.06) is None  # said once
        replace(model, whole)  # no signed file changes with it
        found = releases.wait(60)
        assert found is not None
        assert found.number == announced == releases.release.number


def test_a_clock_that_was_wrong_for_a_moment_is_no_frozen_channel_for_hours(world: World) -> None:
    with watched(world) as releases:
        first = next(releases)
        right, world.now = world.now, world.now + 1e7
        with pytest.raises(ExpiredError):
            releases.wait(30)
        assert releases.wait(0.06) is None
        world.now = right
        again = releases.wait(60)
        assert again is not None
        assert again.number == first.number == releases.release.number


def test_who_stopped_serving_at_expiry_is_given_the_release_when_the_channel_is_refreshed(world: World) -> None:
    with watched(world, EVENTS_ALONE) as releases:
        first = next(releases)
        world.now += 3601
        with pytest.raises(ExpiredError):
            releases.wait(60)
        channels.refresh(world.state, world.ledger, world.keys, valid_seconds=3600, clock=lambda: world.now)
        assert next(releases).release_digest == first.release_digest
        assert releases.wait(0.06) is None  # once


def test_what_is_refused_is_looked_at_ever_less_often(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    with watched(world) as releases:
        next(releases)
        replace(world.channel_file, b"{}")
        with pytest.raises(MalformedError):
            releases.wait(30)
        monkeypatch.setattr(type(releases._opening), "announced", lambda self: looks.append(1) or _refuse())
        rests = []
        for _ in range(20):
            releases._rested = 0.0
            releases._look()
            rests.append(releases._rest)
    assert len(looks) == 20
    assert rests == sorted(rests)
    assert rests[0] > SOON
    assert rests[-1] == loader_watch._MOST_REST


def _refuse() -> None:
    raise MalformedError("it is as it was")


def test_a_state_file_that_could_not_be_written_holds_nothing_up_once_it_can(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(world, state_file=tmp_path / "seen.json") as releases:
        next(releases)
        with monkeypatch.context() as patch:
            written = files.replace_file

            def full(directory: Path, name: str, *given: Any) -> None:
                if name == "seen.json":
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written(directory, name, *given)

            patch.setattr(files, "replace_file", full)
            second = world.released("2.0.0")
            with pytest.raises(LoaderError, match="No space left"):
                releases.wait(30)
        assert next(releases).number == second.number
    assert json.loads((tmp_path / "seen.json").read_bytes())["channels"][f"{MODEL}:production"]["number"] == 2


def test_a_watch_that_changes_its_directory_begins_no_second_memory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "before")
    with watched(world, state_file="seen.json") as releases:
        next(releases)
        monkeypatch.chdir(tmp_path / "after")
        world.released("2.0.0")
        next(releases)
    assert not os.listdir(tmp_path / "after")
    assert b'"number": 2' in (tmp_path / "before" / "seen.json").read_bytes()


def test_a_fifo_or_a_device_in_place_of_the_state_file_is_an_error_and_no_wait(
    world: World, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("fifo", "device"):
        with pytest.raises(LoaderError, match="no regular file"):
            world.open(state_file=tmp_path / name)


def test_a_clock_that_gives_no_number_opens_nothing_and_keeps_nothing_open(world: World) -> None:
    with watched(world) as releases:
        next(releases)
        world.now = float("nan")
        with pytest.raises(ExpiredError):
            world.open()
        with pytest.raises(ExpiredError):
            releases.wait(30)


@pytest.mark.parametrize("thread", ["InotifyFD", "InotifyObserver", "InotifyFullEmitter"])
def test_where_no_thread_of_the_watch_begins_every_release_is_found_by_looks(
    world: World, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    """No memory at a thread's first instruction, in a library that would wait for it for ever."""
    foreign_die_at_once(monkeypatch, thread)
    with watched(world) as releases:
        assert releases._events.watched == 0
        assert next(releases).number == 1
        world.released("2.0.0")
        assert next(releases).number == 2
