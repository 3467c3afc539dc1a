"""File system events, from watchdog's threads to the inbox's one: which names to look at, and why."""

from __future__ import annotations

import enum
import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.inotify import InotifyObserver
from watchdog.observers.polling import PollingObserver

from acceptd.errors import NoThreadError, StateError
from acceptd.threads import abandon, started

T = TypeVar("T")

_PENDING: Final = 20_000
"""So many names may wait to be looked at; beyond that a scan replaces them."""
_EVENTS: Final[list[type[FileSystemEvent]]] = [
    DirCreatedEvent, DirDeletedEvent, DirMovedEvent,
    FileClosedEvent, FileCreatedEvent, FileDeletedEvent, FileMovedEvent,
]  # fmt: skip


class Change(enum.Enum):
    """Why a name is to be looked at."""

    RENAMED = "renamed"
    """It arrived by a rename: what stands there is complete."""
    CREATED = "created"
    TOUCHED = "touched"
    GONE = "gone"


@dataclass
class Batch:
    """What happened since the last look: names by team, and whether everything must be scanned."""

    places: dict[tuple[str, bytes], Change] = field(default_factory=dict)
    rescan: bool = False


class Changes:
    """A mailbox with one entry per name, so that a flood of events cannot fill the memory."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._batch = Batch()
        self._stopped = False

    def put(self, team: str, name: bytes, change: Change) -> None:
        """Note a change; of several the last counts, but a touch takes nothing back."""
        with self._condition:
            places = self._batch.places
            if len(places) >= _PENDING:
                self._batch = Batch(rescan=True)
            elif change is Change.TOUCHED:
                places.setdefault((team, name), change)
            else:
                places[team, name] = change
            self._condition.notify()

    def rescan(self) -> None:
        """Ask for a scan of everything."""
        with self._condition:
            self._batch.rescan = True
            self._condition.notify()

    def stop(self) -> None:
        """End the waiting, now and for ever."""
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def wait(self, seconds: float) -> Batch | None:
        """Return what happened, after at most ``seconds`` (then it may be empty); None after :meth:`stop`."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._stopped or self._batch.rescan or self._batch.places, max(seconds, 0.0)
            )
            batch, self._batch = self._batch, Batch()
            return None if self._stopped else batch


@dataclass(frozen=True)
class WatchProblem:
    """A team directory without a watch: its drops are found by the scans only."""

    team: str
    message: str


class _TeamHandler(FileSystemEventHandler):
    def __init__(self, team: str, changes: Changes) -> None:
        self._team = team
        self._changes = changes

    def on_any_event(self, event: FileSystemEvent) -> None:
        source, target = os.fsencode(event.src_path or b""), os.fsencode(event.dest_path or b"")
        if isinstance(event, (DirMovedEvent, FileMovedEvent)):
            # The full emitter leaves the other side empty when a rename crosses the directory's border.
            self._put(source, Change.GONE)
            self._put(target, Change.RENAMED)
        elif isinstance(event, (DirCreatedEvent, FileCreatedEvent)):
            self._put(source, Change.CREATED)
        elif isinstance(event, (DirDeletedEvent, FileDeletedEvent)):
            self._put(source, Change.GONE)
        elif isinstance(event, FileClosedEvent):
            self._put(source, Change.TOUCHED)

    def _put(self, path: bytes, change: Change) -> None:
        if name := os.path.basename(path):
            self._changes.put(self._team, name, change)


class _RootHandler(FileSystemEventHandler):
    def __init__(self, changes: Changes, replaced: Callable[[str], None]) -> None:
        self._changes = changes
        self._replaced = replaced

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, (DirCreatedEvent, DirMovedEvent, DirDeletedEvent)):
            for path in (event.src_path, event.dest_path):
                self._replaced(os.path.basename(os.fsdecode(path or b"")))
            self._changes.rescan()


class Watcher:
    """One watch on the inbox, for new teams, and one on each team directory; none is recursive.

    ``poll_seconds`` None means inotify.
    """

    def __init__(self, root: Path, changes: Changes, poll_seconds: float | None) -> None:
        self._root = root
        self._changes = changes
        self._poll_seconds = poll_seconds
        self._observer: BaseObserver | None = None
        self._began = False
        self._watches: dict[str, tuple[tuple[int, int], ObservedWatch]] = {}
        self._replaced: Counter[str] = Counter()
        """How often a team's directory came or went. Written by the observer's thread alone."""

    def start(self) -> None:
        """Start the observer and watch the inbox itself; raise StateError where the kernel refuses."""
        try:
            self._observer = started(self._make, "the watch of the inbox")
            self._schedule(_RootHandler(self._changes, self._count), self._root)
            self._began = True
        except OSError as error:
            self.stop()
            reason = os.strerror(error.errno or errno.EIO)
            remedy = "raise fs.inotify.max_user_instances and max_user_watches, or choose polling"
            raise StateError(f"the inbox cannot be watched: {reason}", remedy=remedy) from error

    def _make(self) -> BaseObserver:
        # Full events tell a rename from outside from a creation; the plain emitter does not.
        observer: BaseObserver = (
            InotifyObserver(generate_full_events=True)
            if self._poll_seconds is None
            else PollingObserver(timeout=self._poll_seconds)
        )
        observer.start()
        return observer

    def stop(self) -> None:
        """Stop and join every thread of the observer."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None

    def watch(self, teams: Iterable[str]) -> list[WatchProblem]:
        """Watch exactly these team directories; return those that cannot be watched, with the reason."""
        if not self._began:
            raise ValueError("the watcher is not started")
        wanted = sorted(teams)
        try:
            if self._observer is None:  # one that could not be asked any more
                self.start()
            return self._watch(wanted)
        except StateError as error:
            return [WatchProblem(team, f"cannot be watched: {error.message}") for team in wanted]

    def _watch(self, teams: Iterable[str]) -> list[WatchProblem]:
        wanted = {team: self._identity(team) for team in teams}
        for team, (identity, watch) in list(self._watches.items()):
            if wanted.get(team) != identity:
                self._asked(partial(self._there.unschedule, watch))
                del self._watches[team]
        problems = []
        for team, identity in wanted.items():
            if identity[0] and team not in self._watches:
                try:
                    watch = self._schedule(_TeamHandler(team, self._changes), self._root / team)
                except OSError as error:
                    remedy = "raise fs.inotify.max_user_watches, or choose polling"
                    problems.append(WatchProblem(team, f"cannot be watched: {error.strerror}; {remedy}"))
                    continue
                self._watches[team] = (identity, watch)
        return problems

    def _schedule(self, handler: FileSystemEventHandler, place: Path) -> ObservedWatch:
        return self._asked(partial(self._there.schedule, handler, os.fspath(place), event_filter=_EVENTS))

    @property
    def _there(self) -> BaseObserver:
        assert self._observer is not None
        return self._observer

    def _asked(self, call: Callable[[], T]) -> T:
        """Return what ``call`` does, for which the library may start a thread.

        NoThreadError: it did not begin, and the observer may hold its lock for ever; the next look makes another.
        """
        try:
            return started(call, "the watch of the inbox")
        except NoThreadError:
            abandon(self._there)
            self._observer, self._watches = None, {}
            raise

    def _count(self, team: str) -> None:
        if team in self._watches or team in self._replaced:  # other names in the inbox are no teams
            self._replaced[team] += 1

    def _identity(self, team: str) -> tuple[int, int]:
        """Return the directory's inode and how often one came or went; 0 first where there is none.

        One that was removed and made again needs a new watch, and often gets the inode of the old one.
        """
        times = self._replaced[team]  # before the look: what comes after it asks for another
        try:
            return os.stat(self._root / team, follow_symlinks=False).st_ino, times
        except OSError:
            return 0, times
