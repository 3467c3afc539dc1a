"""A daemon looks after thousands of channels: what needs nothing costs it little, and no lie passes by that."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import reconcile, settled
from acceptd.release.book import Book, read_book
from acceptd.release.settled import Settled
from tests.release_world import MODEL, World, payload_of

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(settled, "_QUIET_NS", -1)  # what has just been written is taken for quiet
    made = World(tmp_path)
    made.released("1.0.0")
    yield made
    made.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the model of each ``channel.json`` that is read."""
    found: list[str] = []
    ours = channels.read

    def noted(state: Path, keys: object, model_id: str, channel: str) -> object:
        found.append(model_id)
        return ours(state, keys, model_id, channel)  # type: ignore[arg-type]

    monkeypatch.setattr(channels, "read", noted)
    return found


def look(world: World, known: Settled, seconds: int = 3600, *, force: bool = False) -> channels.Refreshed:
    """Look once as the daemon does."""
    return channels.refresh(
        world.state, world.ledger, world.keys, valid_seconds=seconds, clock=lambda: world.now, settled=known,
        force=force,
    )  # fmt: skip


def at_rest(world: World, read: list[str], seconds: int = 86_400) -> Settled:
    """Look until nothing is signed any more and what there is was read once."""
    known = Settled()
    for _ in range(3):
        assert look(world, known, seconds).problems == ()
    read.clear()
    return known


def test_a_channel_that_needs_nothing_is_read_once_and_asks_the_ledger_nothing_more(
    world: World, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = at_rest(world, read)
    asked: list[int] = []
    ours = Ledger.tree
    monkeypatch.setattr(Ledger, "tree", lambda self: asked.append(1) or ours(self))  # type: ignore[func-returns-value]
    for _ in range(5):
        assert look(world, known, 86_400) == channels.Refreshed((), ())
    assert read == []
    assert len(asked) == 5, "once a round, however many channels there are"


def test_its_time_comes_though_nobody_reads_it(world: World, read: list[str]) -> None:
    known = at_rest(world, read, 3600)
    assert look(world, known).renewed == ()
    assert read == []
    world.now += 1900
    assert len(look(world, known).renewed) == 1
    assert look(world, known, 60).renewed != (), "a life that the policy has shortened since"
    assert look(world, known, 60, force=True).renewed != ()


def test_an_old_file_in_its_place_is_seen_though_its_size_and_its_time_are_those_of_the_right_one(
    world: World, tmp_path: Path
) -> None:
    """A replay: the signature holds, and whoever put it there set the time back."""
    known = Settled()
    old = tmp_path / "old"
    shutil.copy2(world.channel_file, old)
    world.released("2.0.0")
    look(world, known, 86_400)
    assert look(world, known, 86_400).renewed == ()
    right, there = world.channel_file.read_bytes(), world.channel_file.stat()
    assert len(old.read_bytes()) == len(right)
    with world.channel_file.open("r+b") as file:  # the same inode
        file.write(old.read_bytes())
    os.utime(world.channel_file, ns=(there.st_atime_ns, there.st_mtime_ns))
    assert len(look(world, known, 86_400).renewed) == 1
    assert payload_of(world.channel_file)["number"] == 2


def test_a_file_that_is_gone_is_written_again(world: World) -> None:
    known = Settled()
    look(world, known, 86_400)
    world.channel_file.unlink()
    assert len(look(world, known, 86_400).renewed) == 1
    assert world.open().number == 1


def test_a_promotion_and_another_revocation_list_are_seen_at_the_next_look(world: World, read: list[str]) -> None:
    known = at_rest(world, read)
    world.released("2.0.0")
    read.clear()
    look(world, known, 86_400)
    assert read != []
    known = at_rest(world, read)
    known.begin(settled.Ground(world.keys.keyring, 99))
    look(world, known, 86_400)
    assert read != [], "what stood on another list is looked at again"


def test_what_was_written_a_moment_ago_is_read_again(
    world: World, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writing within one tick of the clock would leave the same times."""
    monkeypatch.setattr(settled, "_QUIET_NS", 1 << 62)
    known = at_rest(world, read)
    for number in range(1, 4):
        look(world, known, 86_400)
        assert len(read) == number


@pytest.mark.parametrize("recent", ["mtime", "ctime"])
def test_one_of_its_times_is_enough_to_be_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch, recent: str
) -> None:
    monkeypatch.setattr(settled, "_QUIET_NS", 1 << 60)
    (row,) = read_book(world.ledger).rows(MODEL, "production")
    known = Settled()
    known.begin(settled.Ground(world.keys.keyring, 0))
    quiet = (1, 2, 3, 0, 0)
    written = (1, 2, 3, time.time_ns(), 0) if recent == "mtime" else (1, 2, 3, 0, time.time_ns())
    for seen, remembered in ((quiet, True), (written, False)):
        monkeypatch.setattr(settled, "fingerprint", lambda _state, _row, found=seen: found)
        known.note(row, seen, world.now + 3000)
        assert known.still(world.state, row, 3600, world.now) is remembered


def test_a_list_of_revocations_that_does_not_verify_is_told_of_each_channel_each_time(world: World) -> None:
    known = Settled()
    look(world, known, 86_400)
    (world.state / "revocations.json").write_text("{}")
    for _ in range(2):
        assert len(look(world, known, 86_400).problems) == 1


def test_to_look_for_what_was_cut_off_asks_the_log_once_however_many_channels_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    book = reconcile.read_book(world.ledger)
    rows = next(iter(book.channels.values()))
    for number in range(50):
        book.channels[f"mosaic/m{number}", "production"] = rows
    ours = Ledger.tree
    monkeypatch.setattr(Ledger, "tree", lambda self: asked.append(1) or ours(self))  # type: ignore[func-returns-value]
    seen: list[int] = []
    reconcile.catch_up(world.state, world.ledger, world.keys, terms=world.terms, between=lambda: seen.append(1))
    assert len(seen) == 51
    assert len(asked) <= 3


def said(seq: int, **more: object) -> Entry:
    """Return an intent as it comes out of a log: each of its texts a new one."""
    body = {"model": f"mosaic/m{seq}", "channel": "production", "number": 1, "digest": "d" * 64, "by": "daemon"}
    read = json.loads(json.dumps(body | more))
    return Entry(seq, "intent", "2026-11-30T00:00:00Z", None, read, b"", b"")


def test_what_all_releases_have_alike_is_kept_once() -> None:
    book = Book()
    for seq in range(100):
        book.add(said(seq, rule={"approvals": 2}))
    rows = [row for those in book.channels.values() for row in those.values()]
    for name in ("channel", "kind", "by", "rule"):
        assert len({id(getattr(row, name)) for row in rows}) == 1, name
    assert rows[0].rule.approvals == 2
    assert {id(channel) for _, channel in book.channels} == {id(rows[0].channel)}


def test_an_edited_log_whose_channel_is_no_text_is_read_as_it_was() -> None:
    book = Book()
    book.add(said(0, channel=7))
    assert list(book.channels) == [("mosaic/m0", 7)]
