"""Hostile and clumsy drops against the inbox: the watch goes on, every claim is handed over once."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.errors import StateError
from acceptd.intake.claims import Claim
from acceptd.intake.inbox import Inbox, InboxSettings, Notice
from acceptd.intake.watching import Batch, Change, Changes, Watcher
from tests.threads import foreign_die_at_once

pytestmark = pytest.mark.hostile
LONG = 3600.0
WAIT = 30.0


class Desk:
    """An inbox and what it handed over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.claims: queue.Queue[Claim] = queue.Queue()
        self.notices: queue.Queue[Notice] = queue.Queue()
        self.inbox: Inbox | None = None

    def open(self, **settings: float | bool | int) -> Inbox:
        chosen = InboxSettings(**{"settle_seconds": LONG, "rescan_seconds": LONG, **settings})  # type: ignore[arg-type]
        self.inbox = Inbox(self.root, chosen, self.claims.put, self.notices.put)
        self.inbox.start()
        return self.inbox

    def next(self) -> Claim:
        return self.claims.get(timeout=WAIT)

    def notice(self) -> Notice:
        return self.notices.get(timeout=WAIT)

    def settled(self) -> None:
        """Wait until everything that was dropped before has been looked at: a last drop tells."""
        probe = self.root.parent / "probe"
        probe.mkdir()
        probe.rename(self.root / "mosaic" / "probe")
        assert self.next().name == "probe"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "inbox" / "mosaic").mkdir(parents=True)
    made = Desk(tmp_path / "inbox")
    before = set(threading.enumerate())
    yield made
    if made.inbox is not None:
        made.inbox.stop()
    assert set(threading.enumerate()) == before
    assert made.claims.empty()


def stage(desk: Desk, name: str = "staged") -> Path:
    at = desk.root.parent / name
    at.mkdir()
    (at / "bundle.toml").touch()
    return at


def test_a_drop_that_arrives_by_rename_is_ready_at_once(desk: Desk) -> None:
    desk.open()
    stage(desk).rename(desk.root / "mosaic" / "v1")
    claim = desk.next()
    assert (claim.team, claim.name, claim.kind, claim.uid) == ("mosaic", "v1", "directory", os.geteuid())
    assert os.listdir(claim.path) == ["bundle.toml"]
    assert os.listdir(desk.root / "mosaic") == [claim.path.name]


def test_a_partial_name_waits_until_it_is_renamed(desk: Desk) -> None:
    desk.open(settle_seconds=0.01)
    for name in (".hidden", "v1.part", "v2.tmp", "v3.PARTIAL"):
        stage(desk, f"s{name}").rename(desk.root / "mosaic" / name)
        (desk.root / "mosaic" / f"{name}.ready").touch()
    desk.settled()
    (desk.root / "mosaic" / "v1.part").rename(desk.root / "mosaic" / "v1")
    assert desk.next().name == "v1"
    assert (desk.root / "mosaic" / "v2.tmp").is_dir()


def test_a_half_copied_drop_waits_for_its_marker(desk: Desk) -> None:
    desk.open()
    drop = desk.root / "mosaic" / "v1"
    drop.mkdir()
    (drop / "bundle.toml").touch()
    desk.settled()
    assert drop.is_dir()
    (desk.root / "mosaic" / "v1.ready").touch()
    claim = desk.next()
    assert claim.name == "v1"
    assert os.listdir(claim.path) == ["bundle.toml"]
    assert not (desk.root / "mosaic" / "v1").exists()
    assert not (desk.root / "mosaic" / "v1.ready").exists()


def test_a_marker_before_its_drop(desk: Desk) -> None:
    desk.open()
    (desk.root / "mosaic" / "v1.ready").touch()
    desk.settled()
    assert (desk.root / "mosaic" / "v1.ready").exists()
    (desk.root / "mosaic" / "v1").mkdir()
    assert desk.next().name == "v1"
    assert not (desk.root / "mosaic" / "v1.ready").exists()


def test_a_link_or_a_directory_of_a_markers_name_is_a_drop(desk: Desk) -> None:
    (desk.root / "mosaic" / "v1").mkdir()
    (desk.root / "mosaic" / "v1.ready").symlink_to("/etc/passwd")
    desk.open(settle_seconds=0.0)
    got = {desk.next().name: None, desk.next().name: None}
    assert set(got) == {"v1", "v1.ready"}


def test_a_drop_that_nobody_touches_any_more_is_ready(desk: Desk) -> None:
    (desk.root / "mosaic" / "v1").mkdir()
    desk.open(settle_seconds=0.05)
    assert desk.next().name == "v1"


def test_a_drop_that_keeps_changing_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from acceptd.intake import inbox as module

    drop = desk.root / "mosaic" / "v1"
    drop.mkdir()
    looks = 0
    real = module.fingerprint

    def growing(fd: int, name: bytes, cap: int) -> bytes:
        nonlocal looks
        looks += 1
        if looks <= 4:
            (drop / f"file{looks}").touch()
        return real(fd, name, cap)

    monkeypatch.setattr(module, "fingerprint", growing)
    desk.open(settle_seconds=0.02)
    claim = desk.next()
    assert looks == 5  # four that saw a change, one that saw none
    assert len(os.listdir(claim.path)) == 4


def test_two_drops_of_one_name_are_two_submissions(desk: Desk) -> None:
    desk.open()
    first = stage(desk)
    (first / "one").touch()
    first.rename(desk.root / "mosaic" / "v1")
    one = desk.next()
    second = stage(desk)
    (second / "two").touch()
    second.rename(desk.root / "mosaic" / "v1")
    two = desk.next()
    assert one.name == two.name == "v1"
    assert one.id < two.id or one.id[:18] == two.id[:18]
    assert "one" in os.listdir(one.path)
    assert "two" in os.listdir(two.path)


def test_a_drop_that_is_removed_before_the_claim_is_forgotten(desk: Desk) -> None:
    drop = desk.root / "mosaic" / "v1"
    drop.mkdir()
    desk.open()
    drop.rmdir()
    desk.settled()
    assert desk.notices.empty()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda at: os.symlink("/etc", at + b"/link"), "seal/symlink"),
        (lambda at: os.mkfifo(at + b"/pipe"), "seal/not-a-bundle"),
        (lambda at: os.mkdir(at + b"/a\xffb"), "seal/drop-name"),
        (lambda at: os.mkdir(at + b"/a\x1b[2Jb\nc"), "seal/drop-name"),
        (lambda at: os.mkdir("/\u202egnp".encode().join([at, b""])), "seal/drop-name"),
        (lambda at: os.mkdir(at + b"/a\\b"), "seal/drop-name"),
        (lambda at: os.close(os.open(at + b"/model.onnx", os.O_CREAT | os.O_WRONLY)), "seal/not-a-bundle"),
    ],
    ids=["link", "fifo", "not-utf8", "control", "bidi", "backslash", "bare-model"],
)
def test_what_can_never_be_a_bundle_is_claimed_and_refused(
    desk: Desk, make: Callable[[bytes], None], code: str
) -> None:
    make(os.fsencode(desk.root / "mosaic"))
    desk.open(settle_seconds=0.0)
    claim = desk.next()
    assert claim.refusal is not None
    assert claim.refusal.code == code
    assert claim.name.isprintable()
    assert desk.inbox is not None
    assert desk.inbox.discard(claim) == []
    assert os.listdir(desk.root / "mosaic") == []


@pytest.mark.parametrize("name", ["Mosaic", "current", "a b", "a.b", "-a", "ärger", "x" * 65])
def test_a_directory_that_is_no_team_is_not_watched(desk: Desk, name: str) -> None:
    (desk.root / name / "v1").mkdir(parents=True)
    desk.open(settle_seconds=0.0)
    notice = desk.notice()
    assert (notice.code, notice.team) == ("inbox/no-team", name)
    desk.settled()
    assert (desk.root / name / "v1").is_dir()


def test_a_link_to_a_directory_is_no_team(desk: Desk) -> None:
    outside = desk.root.parent / "outside"
    (outside / "v1").mkdir(parents=True)
    (desk.root / "evil").symlink_to(outside)
    desk.open(settle_seconds=0.0)
    notice = desk.notice()  # or an operator who moved a team to another disk would wait for its drops in vain
    assert (notice.code, notice.team) == ("inbox/no-team", "evil")
    assert notice.message == "cannot be opened as a directory: a link, which is not followed"
    desk.settled()
    assert (outside / "v1").is_dir()


def test_a_new_team_is_noticed(desk: Desk) -> None:
    desk.open()
    (desk.root / "fresh").mkdir()
    drop = desk.root / "fresh" / "v1"
    drop.mkdir()
    (desk.root / "fresh" / "v1.ready").touch()
    claim = desk.next()
    assert (claim.team, claim.name) == ("fresh", "v1")


def test_a_team_that_is_removed_and_made_again_is_watched_again(desk: Desk) -> None:
    inbox = desk.open()
    (desk.root / "mosaic").rmdir()
    (desk.root / "mosaic").mkdir()
    inbox.rescan()
    stage(desk).rename(desk.root / "mosaic" / "v1")
    (desk.root / "mosaic" / "v1.ready").touch()
    assert desk.next().name == "v1"


def test_a_team_that_gets_the_inode_of_the_one_before_has_a_watch_of_its_own(desk: Desk) -> None:
    changes = Changes()
    watcher = Watcher(desk.root, changes, None)
    watcher.start()
    try:
        assert watcher.watch(["mosaic"]) == []
        for name in (b"one", b"two", b"three"):
            (desk.root / "mosaic").rmdir()
            (desk.root / "mosaic").mkdir()  # ext4 gives the inode that has just become free
            assert watcher.watch(["mosaic"]) == []  # before its events are heard
            heard: set[bytes] = set()
            while name not in heard:
                batch = changes.wait(WAIT) or Batch()
                assert batch != Batch(), "neither the inbox nor the team tells anything"
                assert watcher.watch(["mosaic"]) == []
                heard = {one for _, one in batch.places}
                (desk.root / "mosaic" / os.fsdecode(name)).write_bytes(b"")  # a touch of what is there is no event
            (desk.root / "mosaic" / os.fsdecode(name)).unlink()
    finally:
        watcher.stop()


def test_a_flood_of_names_is_scanned_in_part_and_reported(desk: Desk) -> None:
    for number in range(30):
        (desk.root / "mosaic" / f".noise{number}").touch()
    (desk.root / "other").mkdir()
    (desk.root / "other" / "v1").mkdir()
    desk.open(settle_seconds=0.0, scan_cap=10)
    assert desk.next().team == "other"
    notice = desk.notice()
    assert (notice.code, notice.team) == ("inbox/scan-capped", "mosaic")


def flood(desk: Desk, count: int = 100) -> None:
    """Lay so many drops of one team, and the directory of a team that sorts after it."""
    (desk.root / "quiet").mkdir()
    for number in range(count):
        (desk.root / "mosaic" / f"f{number:03}").mkdir()


def test_a_flood_that_lies_there_at_the_start_keeps_no_other_team_from_being_claimed(desk: Desk) -> None:
    flood(desk)
    (desk.root / "quiet" / "one").mkdir()
    desk.open(settle_seconds=0.0)
    order = [desk.next().name for _ in range(101)]
    assert order.index("one") <= 16, "after as many of the flood as one turn has"
    assert [name for name in order if name != "one"] == [f"f{number:03}" for number in range(100)]


def test_a_drop_that_comes_while_a_flood_is_claimed_waits_for_a_turn_of_it_and_no_more(desk: Desk) -> None:
    flood(desk)
    order: list[str] = []
    done = threading.Event()

    def take(claim: Claim) -> None:
        if not order:
            (desk.root / "quiet" / "one").mkdir()
            inbox._changes.put("quiet", b"one", Change.RENAMED)  # the event, whenever the kernel tells it
        order.append(claim.name)
        if len(order) == 101:
            done.set()

    inbox = desk.inbox = Inbox(desk.root, InboxSettings(settle_seconds=0.0, rescan_seconds=LONG), take)
    inbox.start()
    assert done.wait(WAIT)
    assert order.index("one") <= 32, "the turn that it came in, and one more at most"


def test_a_drop_that_cannot_be_renamed_is_reported_once_and_holds_nothing_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def rename(source: bytes, *rest: object, **names: object) -> None:
        if source == b"stuck":
            raise PermissionError(1, "Operation not permitted")
        real(source, *rest, **names)  # type: ignore[arg-type]

    monkeypatch.setattr("acceptd.intake.claims.os.rename", rename)
    (desk.root / "mosaic" / "stuck").mkdir()
    inbox = desk.open(settle_seconds=0.0)
    notice = desk.notice()
    assert (notice.code, notice.name) == ("inbox/cannot-claim", "stuck")
    inbox.rescan()
    (desk.root / "mosaic" / "v1").mkdir()
    assert desk.next().name == "v1"
    assert desk.notices.empty()


def test_a_callback_that_fails_does_not_end_the_watch(tmp_path: Path) -> None:
    root = tmp_path / "inbox"
    (root / "mosaic" / "v1").mkdir(parents=True)
    seen: queue.Queue[str] = queue.Queue()

    def fail(claim: Claim) -> None:
        seen.put(claim.name)
        raise RuntimeError("the queue is broken")

    inbox = Inbox(root, InboxSettings(settle_seconds=0.0), fail)
    inbox.start()
    try:
        assert seen.get(timeout=WAIT) == "v1"
        (root / "mosaic" / "v2").mkdir()
        assert seen.get(timeout=WAIT) == "v2"
    finally:
        inbox.stop()
    again = Inbox(root, InboxSettings(), fail)
    assert [claim.kind for claim in again.leftovers()] == ["directory", "directory"]


def test_a_claim_that_nobody_took_is_handed_over_again(tmp_path: Path) -> None:
    root = tmp_path / "inbox"
    (root / "mosaic" / "v1").mkdir(parents=True)
    seen: queue.Queue[Claim] = queue.Queue()
    full = [True]

    def take(claim: Claim) -> None:
        seen.put(claim)
        if full:
            full.clear()
            raise OSError("the disk is full")

    inbox = Inbox(root, InboxSettings(settle_seconds=0.0, rescan_seconds=LONG), take)
    inbox.start()
    try:
        first = seen.get(timeout=WAIT)
        inbox.rescan()
        assert seen.get(timeout=WAIT) == first
        inbox.rescan()
        (root / "mosaic" / "v2").mkdir()
        assert seen.get(timeout=WAIT).name == "v2"
    finally:
        inbox.stop()


def test_while_paused_nothing_is_claimed_and_nothing_is_lost(desk: Desk) -> None:
    (desk.root / "mosaic" / "v1").mkdir()
    inbox = Inbox(desk.root, InboxSettings(settle_seconds=0.0), desk.claims.put, desk.notices.put)
    inbox.pause()
    inbox.start()
    desk.inbox = inbox
    (desk.root / "mosaic" / "v2").mkdir()
    assert (desk.root / "mosaic" / "v1").is_dir()
    inbox.resume()
    assert {desk.next().name, desk.next().name} == {"v1", "v2"}


def test_polling_finds_drops_too(desk: Desk) -> None:
    desk.open(polling=True, poll_seconds=0.02, settle_seconds=0.02)
    stage(desk).rename(desk.root / "mosaic" / "v1")
    assert desk.next().name == "v1"


def test_lost_events_are_made_good_by_a_rescan(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from acceptd.intake import watching

    monkeypatch.setattr(watching._TeamHandler, "on_any_event", lambda self, event: None)
    desk.open(rescan_seconds=0.05, settle_seconds=0.0)
    stage(desk).rename(desk.root / "mosaic" / "v1")
    assert desk.next().name == "v1"


def test_a_missing_inbox_is_one_clear_line(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "absent", InboxSettings(), lambda claim: None)
    with pytest.raises(StateError, match="acceptd init"):
        inbox.start()
    inbox.stop()


@pytest.mark.parametrize("thread", ["InotifyFD", "InotifyObserver", "InotifyFullEmitter"])
def test_an_inbox_whose_watch_finds_no_memory_for_a_thread_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    (tmp_path / "mosaic").mkdir()
    foreign_die_at_once(monkeypatch, thread)
    with pytest.raises(StateError, match="the watch of the inbox cannot be started"):
        Desk(tmp_path).open()


def test_a_new_team_whose_watch_finds_no_memory_is_told_and_watched_once_there_is_some(tmp_path: Path) -> None:
    for team in ("fresh", "mosaic"):
        (tmp_path / team).mkdir()
    changes = Changes()
    watcher = Watcher(tmp_path, changes, None)
    watcher.start()
    try:
        assert not watcher.watch(["mosaic"])
        with pytest.MonkeyPatch.context() as patch:
            foreign_die_at_once(patch, "InotifyFullEmitter")
            for _ in range(2):  # also the one that is begun anew
                problems = watcher.watch(["mosaic", "fresh"])
                assert [one.team for one in problems] == ["fresh", "mosaic"], "their drops are found by scans"
        assert not watcher.watch(["mosaic", "fresh"])
        (tmp_path / "fresh" / "v2").mkdir()
        batch = changes.wait(WAIT)
        assert batch is not None
        assert batch.rescan or ("fresh", b"v2") in batch.places
    finally:
        watcher.stop()
