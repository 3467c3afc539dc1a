"""Events of the file system for a loader that waits: a wake-up where a named file may have changed.

By inotify, through watchdog, which is imported only here and may be missing. Whoever waits looks for himself
from time to time as well: a network file system has no events, a directory may not be readable, and the
kernel's watches may be used up.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from acceptd.errors import NoThreadError
from acceptd.threads import abandon, started


class Events:
    """Calls ``changed`` when one of the named files in one of the directories comes, goes or is written."""

    def __init__(self, places: Mapping[Path, Collection[str]], changed: Callable[[], object]) -> None:
        self._places, self._changed = dict(places), changed
        self._lock = threading.Lock()
        self._watched: dict[Path, tuple[object, Any]] = {}
        self._gone: set[Path] = set()
        """Directories whose watch ended with them: another one may have the same inode."""
        self._observer: Any = None
        try:
            from watchdog.observers.inotify import InotifyObserver

            def begin() -> Any:
                # Full events tell a rename from outside, which is how every signed file comes.
                observer = InotifyObserver(generate_full_events=True)
                observer.start()
                return observer

            self._observer = started(begin, "the watch")
        except (ImportError, OSError, RuntimeError, MemoryError):
            self._observer = None  # whoever waits looks for himself
        self.renew()

    @property
    def watched(self) -> int:
        """How many directories are watched; 0: there are no events, only looks."""
        return len(self._watched)

    def renew(self) -> None:
        """Watch every directory that is there, anew where it is another one than before."""
        with self._lock:
            for place, names in self._places.items() if self._observer is not None else ():
                found = _identity(place)
                known = self._watched.get(place)
                ended = place in self._gone
                self._gone.discard(place)
                if known is not None and known[0] == found and not ended:
                    continue
                if known is not None:
                    del self._watched[place]
                    with contextlib.suppress(KeyError, OSError):
                        self._observer.unschedule(known[1])
                if found is not None and self._observer is not None:
                    # No read permission, no watches left, gone since: the next look tries again.
                    with contextlib.suppress(OSError):
                        try:
                            self._watched[place] = (found, self._schedule(place, names))
                        except NoThreadError:  # it may hold the observer's lock for ever: nobody asks it again
                            abandon(self._observer)
                            self._observer = None
                            self._watched.clear()

    def stop(self) -> None:
        """Stop and join the observing threads. Idempotent."""
        with self._lock:
            observer, self._observer = self._observer, None
            self._watched.clear()
        if observer is not None:
            observer.stop()
            observer.join()

    def _schedule(self, place: Path, names: Collection[str]) -> Any:
        from watchdog import events

        changed, gone = self._changed, self._gone

        class Handler(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path))
                if isinstance(event, events.DirDeletedEvent | events.DirMovedEvent) and os.fspath(place) in paths:
                    gone.add(place)
                if any(os.path.basename(path) in names or path == os.fspath(place) for path in paths if path):
                    changed()

        kinds: list[type[events.FileSystemEvent]] = [
            events.FileCreatedEvent, events.FileDeletedEvent, events.FileMovedEvent, events.FileClosedEvent,
            events.DirDeletedEvent, events.DirMovedEvent,
        ]  # fmt: skip
        schedule = partial(self._observer.schedule, Handler(), os.fspath(place), event_filter=kinds)
        return started(schedule, "the watch")


def _identity(place: Path) -> object:
    try:
        found = os.stat(place, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
