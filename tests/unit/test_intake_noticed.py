"""What the inbox cannot read, watch or remove is noticed once, and the watch of all else goes on."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.errors import StateError
from acceptd.intake import claims, files
from acceptd.intake.inbox import Candidate, Inbox, InboxSettings, Notice
from acceptd.intake.watching import Batch, Change, Changes, Watcher, WatchProblem
from tests.unit.test_intake_failing import failing

pytestmark = pytest.mark.unit


def noticing(tmp_path: Path, problems: list[WatchProblem] | None = None) -> tuple[Inbox, list[Notice]]:
    """Return an inbox whose watch is a table, and what it notices; its thread is not started."""
    (tmp_path / "inbox" / "mosaic").mkdir(parents=True)
    notices: list[Notice] = []
    made = Inbox(tmp_path / "inbox", InboxSettings(settle_seconds=9.0), lambda _: None, notices.append)
    made._watcher = SimpleNamespace(watch=lambda _: problems or [])  # type: ignore[assignment]
    return made, notices


def test_an_inbox_that_cannot_be_read_is_noticed_once_and_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, notices = noticing(tmp_path, [WatchProblem("mosaic", "cannot be watched: no space")])
    with monkeypatch.context() as patch:
        patch.setattr(files, "scan", failing(errno.EIO))
        made._scan_all()
        made._scan_all()
    assert [(one.code, one.message) for one in notices] == [
        ("inbox/unreadable", "cannot be read: Input/output error")
    ]
    scan, times = files.scan, []

    def second_fails(fd: int, cap: int) -> Any:
        times.append(fd)
        if len(times) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return scan(fd, cap)

    with monkeypatch.context() as patch:
        patch.setattr(files, "scan", second_fails)
        made._scan_all()
    assert [(one.code, one.team) for one in notices[1:]] == [
        ("inbox/not-watched", "mosaic"),
        ("inbox/unreadable", "mosaic"),
    ]


def test_drops_and_teams_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    made, notices = noticing(tmp_path)
    keys = [("mosaic", b"gone"), ("nobody", b"v1")]
    for key in keys:
        made._candidates[key], made._due[key] = Candidate(since=0.0), 0.0
    made._look_at_due()
    assert not made._candidates
    assert not made._due
    for key in keys:
        made._candidates[key] = Candidate(since=0.0)
    made._scan_all()
    assert not made._candidates
    assert notices == []


@pytest.mark.parametrize(
    ("kind", "reason"), [("link", "a link, which is not followed"), ("file", "Not a directory")]
)
def test_a_team_that_is_no_directory_any_more_is_noticed_once_and_never_followed(
    tmp_path: Path, kind: str, reason: str
) -> None:
    """Of a link to a directory the kernel says what it says of a file: it was passed over without a word."""
    made, notices = noticing(tmp_path)
    (tmp_path / "inbox" / "mosaic").rmdir()
    (tmp_path / "elsewhere" / "v1").mkdir(parents=True)
    if kind == "link":
        (tmp_path / "inbox" / "mosaic").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "inbox" / "mosaic").write_bytes(b"")
    for _ in range(2):
        made._scan_all()
    assert made.leftovers() == []
    assert not made._candidates
    assert [(one.code, one.team, one.message) for one in notices] == [
        ("inbox/no-team", "mosaic", f"cannot be opened as a directory: {reason}")
    ]
    (tmp_path / "inbox" / "mosaic").unlink()
    made._scan_all()  # one that is gone is nothing to tell
    assert len(notices) == 1


def test_a_drop_that_cannot_be_removed_is_noticed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, notices = noticing(tmp_path)
    monkeypatch.setattr(claims, "discard", lambda _: ["v1/x: Operation not permitted"])
    claim = claims.Claim("mosaic", "v1", tmp_path / "inbox/mosaic/.claimed-v1", "id", "directory", None, None)
    assert made.discard(claim) == ["v1/x: Operation not permitted"]
    assert (notices[0].code, notices[0].message) == (
        "inbox/left-behind",
        "cannot be removed: v1/x: Operation not permitted",
    )
    made._told = {("c", "t", str(number)) for number in range(10_000)}
    made.discard(claim)
    assert len(made._told) == 1  # a flood of places fills no memory
    assert len(notices) == 2


def test_a_flood_of_events_is_one_scan_and_no_memory() -> None:
    changes = Changes()
    for number in range(20_001):
        changes.put("mosaic", str(number).encode(), Change.CREATED)
    batch = changes.wait(0.0)
    assert isinstance(batch, Batch)
    assert batch.rescan
    assert len(batch.places) < 20_001
    changes.put("mosaic", b"a", Change.GONE)
    changes.put("mosaic", b"a", Change.TOUCHED)
    assert changes.wait(0.0) == Batch(places={("mosaic", b"a"): Change.GONE})
    changes.stop()
    assert changes.wait(9.0) is None


def test_a_watch_that_the_kernel_refuses_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mosaic").mkdir()
    before = threading.active_count()
    with pytest.raises(ValueError, match="not started"):
        Watcher(tmp_path, Changes(), None).watch(["mosaic"])
    refused_watch = Watcher(tmp_path, Changes(), None)
    with monkeypatch.context() as patch:
        patch.setattr(Watcher, "_schedule", failing(errno.ENOSPC))
        with pytest.raises(StateError, match="the inbox cannot be watched: No space left") as raised:
            refused_watch.start()
    assert "max_user_watches, or choose polling" in (raised.value.remedy or "")
    watcher = Watcher(tmp_path, Changes(), None)
    watcher.start()
    with monkeypatch.context() as patch:
        patch.setattr(Watcher, "_schedule", failing(errno.ENOSPC))
        (problem,) = watcher.watch(["mosaic", "not-there"])
    assert problem.team == "mosaic"
    assert "raise fs.inotify.max_user_watches, or choose polling" in problem.message
    assert watcher.watch(["mosaic"]) == []
    watcher.stop()
    assert threading.active_count() == before
