"""The inbox: watches each team directory, decides what is ready, claims it and hands it over.

File system events only say where to look; what counts is what is found there. Since inotify loses
events (queue overflow, watches that cannot be made), everything is scanned at the start and again
every ``rescan_seconds``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from acceptd.errors import StateError
from acceptd.intake import claims, files
from acceptd.intake.claims import Claim
from acceptd.intake.paths import shown
from acceptd.intake.readiness import Candidate, marked_name, marker_name, waits
from acceptd.intake.snapshot import fingerprint
from acceptd.intake.watching import Change, Changes, Watcher
from acceptd.policy.names import valid_name
from acceptd.supervisor.turns import Turns
from acceptd.threads import Thread

_TEAMS: Final = 10_000
_AT_ONCE: Final = 16
"""Drops of one team that are looked at before those of all others have their turn: each claim waits for the disk,
so a flood of thousands would keep another team's drop from being seen for as long as they take."""
_RETRY_SECONDS: Final = 30.0
"""After a claim that failed (a mount, a foreign sticky directory) the drop is left alone for so long."""


@dataclass(frozen=True)
class InboxSettings:
    """How the inbox looks. ``polling`` is for network file systems, where inotify sees no remote writer."""

    settle_seconds: float = 2.0
    rescan_seconds: float = 30.0
    polling: bool = False
    poll_seconds: float = 1.0
    scan_cap: int = 1_000
    """Directory entries that one scan of one team directory looks at."""
    walk_cap: int = 10_000
    """Entries of one drop that are looked at to see whether it still changes."""


@dataclass(frozen=True)
class Notice:
    """Something that an operator should know; it is no finding, since no submission stands behind it."""

    code: str
    team: str
    name: str
    message: str


class Inbox:
    """Watches ``root/<team>/``; calls ``on_ready(claim)`` from its own thread for each drop that it claims.

    ``on_ready`` must be quick and should not raise; a claim whose callback failed (a full disk) stays in
    place, is handed over again at the next scan, and is returned by :meth:`leftovers` at the next start.
    ``on_notice`` is told once per place.
    """

    def __init__(
        self,
        root: Path,
        settings: InboxSettings,
        on_ready: Callable[[Claim], None],
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self._root = root
        self._settings = settings
        self._on_ready = on_ready
        self._on_notice = on_notice
        self._changes = Changes()
        self._watcher = Watcher(root, self._changes, settings.poll_seconds if settings.polling else None)
        self.turns = Turns()
        self.thread = Thread(self._run, name="inbox")
        self._candidates: dict[tuple[str, bytes], Candidate] = {}
        self._due: dict[tuple[str, bytes], float] = {}
        self._not_taken: list[Claim] = []
        self._told: set[tuple[str, str, str]] = set()
        self._paused = threading.Event()
        self._log = structlog.get_logger("acceptd.inbox")

    def start(self) -> None:
        """Watch, then scan. Raises StateError when ``root`` is no directory, or cannot be watched."""
        try:
            os.close(files.open_directory(self._root))
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            raise StateError(f"the inbox {self._root}: {reason}", remedy="run acceptd init") from error
        self._watcher.start()
        self._watch(self._teams())  # from now on no rename is missed
        self.thread.start()

    def stop(self) -> None:
        """End all threads and wait for them; what was claimed was handed over, all else stays where it is."""
        self._changes.stop()
        if self.thread.is_alive():
            self.thread.join()
        self._watcher.stop()

    def rescan(self) -> None:
        """Scan everything soon, as after a lost event."""
        self._changes.rescan()

    def pause(self) -> None:
        """Claim nothing more (the disk is nearly full) until :meth:`resume`."""
        self._paused.set()

    def resume(self) -> None:
        """Claim again."""
        self._paused.clear()
        self._changes.rescan()

    def leftovers(self) -> list[Claim]:
        """Return what an earlier run claimed and did not remove, oldest first. Call before :meth:`start`."""
        found: list[Claim] = []
        for team in self._teams():
            with self._team(team) as fd:
                if fd is not None:
                    found += claims.leftovers(fd, self._root / team, self._settings.scan_cap)
        return sorted(found, key=lambda claim: claim.id)

    def discard(self, claim: Claim) -> list[str]:
        """Remove a claimed drop; what cannot be removed is left, noticed and returned."""
        left = claims.discard(claim)
        if left:
            self._notice("inbox/left-behind", claim.team, claim.path.name, f"cannot be removed: {left[0]}")
        return left

    def _run(self) -> None:
        scanned = -1.0
        while True:
            now = time.monotonic()
            if scanned < 0 or now >= scanned + self._settings.rescan_seconds:
                with self.turns.turn():
                    self._scan_all()
                scanned = time.monotonic()
            soonest = min([scanned + self._settings.rescan_seconds, *self._due.values()])
            changes = self._changes.wait(soonest - time.monotonic())
            if changes is None:
                return
            if changes.rescan:
                scanned = -1.0
            with self.turns.turn():
                for (team, name), change in changes.places.items():
                    self._changed(team, name, change)
                self._look_at_due()

    def _scan_all(self) -> None:
        again, self._not_taken = self._not_taken, []
        for claim in again:
            self._hand_over(claim)
        try:
            teams = self._teams()
        except OSError as error:
            self._notice("inbox/unreadable", "", "", f"cannot be read: {os.strerror(error.errno or errno.EIO)}")
            return
        self._watch(teams)
        for key in [key for key in self._candidates if key[0] not in teams]:
            self._forget(key)
        for team in teams:
            with self._team(team) as fd:
                if fd is not None:
                    try:
                        self._scan_team(team, fd)
                    except OSError as error:
                        reason = os.strerror(error.errno or errno.EIO)
                        self._notice("inbox/unreadable", team, "", f"cannot be read: {reason}")

    def _watch(self, teams: list[str]) -> None:
        for problem in self._watcher.watch(teams):
            self._notice("inbox/not-watched", problem.team, "", problem.message)

    def _scan_team(self, team: str, fd: int) -> None:
        names, capped = files.scan(fd, self._settings.scan_cap)
        if capped:
            message = f"holds more than {self._settings.scan_cap} entries; the rest waits for a later scan"
            self._notice("inbox/scan-capped", team, "", message)
        present = set(names)
        for key in [key for key in self._candidates if key[0] == team and key[1] not in present and not capped]:
            self._forget(key)
        for name in names:
            if (team, name) not in self._candidates:
                self._changed(team, name, Change.TOUCHED)

    def _changed(self, team: str, name: bytes, change: Change) -> None:
        """Take note of an event or of a name that a scan found."""
        key = (team, name)
        if change is Change.GONE:
            self._forget(key)
            return
        of = marked_name(name)
        if of is not None:
            with self._team(team) as fd:
                if fd is not None and _is_marker(fd, name):
                    if not waits(of):
                        self._note((team, of), marked=True)
                    return
        if not waits(name):
            if change is Change.CREATED:
                self._forget(key)  # another drop than the one of this name that was seen before
            self._note(key, arrived_by_rename=change is Change.RENAMED)

    def _note(self, key: tuple[str, bytes], *, arrived_by_rename: bool = False, marked: bool = False) -> None:
        now = time.monotonic()
        seen = self._candidates.get(key) or Candidate(since=now)
        self._candidates[key] = replace(
            seen, arrived_by_rename=seen.arrived_by_rename or arrived_by_rename, marked=seen.marked or marked
        )
        self._due[key] = now

    def _forget(self, key: tuple[str, bytes]) -> None:
        self._candidates.pop(key, None)
        self._due.pop(key, None)

    def _look_at_due(self) -> None:
        if self._paused.is_set():
            self._due.clear()  # the scan after resume() finds them again
            self._candidates.clear()
            return
        now = time.monotonic()
        looked: Counter[str] = Counter()
        for key in [key for key, due in self._due.items() if due <= now]:
            if looked[key[0]] == _AT_ONCE:  # the next round goes on, with what came meanwhile of other teams
                continue
            looked[key[0]] += 1
            with self._team(key[0]) as fd:
                if fd is None:
                    self._forget(key)
                else:
                    self._look(fd, key)

    def _look(self, fd: int, key: tuple[str, bytes]) -> None:
        team, name = key
        try:
            seen = self._candidates[key]
            if not seen.marked and _is_marker(fd, marker_name(name)):
                seen = replace(seen, marked=True)
            now = time.monotonic()
            if not (seen.arrived_by_rename or seen.marked):
                seen = seen.looked_at(fingerprint(fd, name, self._settings.walk_cap), now)
            wait = seen.wait(now, self._settings.settle_seconds)
            if wait > 0:
                self._candidates[key] = seen
                self._due[key] = now + wait
                return
            claim = claims.claim(fd, self._root / team, name)
        except FileNotFoundError:
            self._forget(key)
            return
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            self._notice("inbox/cannot-claim", team, shown(name), f"cannot be renamed: {reason}")
            self._due[key] = time.monotonic() + _RETRY_SECONDS
            return
        self._forget(key)
        with contextlib.suppress(OSError):
            if _is_marker(fd, marker_name(name)):
                os.unlink(marker_name(name), dir_fd=fd)
        self._hand_over(claim)

    def _hand_over(self, claim: Claim) -> None:
        try:
            self._on_ready(claim)
        except Exception as error:  # noqa: BLE001 - the watch must go on; the claim is handed over again
            self._not_taken.append(claim)
            message = f"the claim cannot be recorded, and is tried again: {type(error).__name__}: {error}"
            self._notice("inbox/not-taken", claim.team, claim.path.name, message)

    def _teams(self) -> list[str]:
        """Return the team directories; only the operator makes them, and only valid names count."""
        with files.opened(self._root) as fd:
            names, _ = files.scan(fd, _TEAMS)
        teams = []
        for raw in names:
            try:
                teams.append(valid_name(raw.decode("ascii")))
            except ValueError:
                if not raw.startswith(b"."):
                    self._notice("inbox/no-team", shown(raw), "", "no valid team name; drops in it are not seen")
        return teams

    @contextlib.contextmanager
    def _team(self, team: str) -> Iterator[int | None]:
        """Give a descriptor of the team directory, or None when there is none (any more)."""
        try:
            fd = files.open_directory(self._root / team)
        except OSError as error:
            # ENOTDIR: what open(2) says of a link too, where a directory is wanted and no link.
            if error.errno in {errno.ENOTDIR, errno.EACCES}:
                link = os.path.islink(self._root / team)
                reason = "a link, which is not followed" if link else os.strerror(error.errno)
                self._notice("inbox/no-team", team, "", f"cannot be opened as a directory: {reason}")
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def _notice(self, code: str, team: str, name: str, message: str) -> None:
        key = (code, team, name)
        if key in self._told:
            return
        if len(self._told) >= 10_000:
            self._told.clear()
        self._told.add(key)
        self._log.warning(message, code=code, team=team, name=name)
        if self._on_notice is not None:
            self._on_notice(Notice(code, team, name, message))


def _is_marker(team_fd: int, name: bytes) -> bool:
    """Say whether ``name`` is a regular file; a directory or a link of a marker's name is a drop."""
    try:
        return stat.S_ISREG(files.stat_beneath(team_fd, name).st_mode)
    except OSError:
        return False
