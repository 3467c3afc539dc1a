"""Follows a channel: gives each new release once, and an error where the current one may not be used any more."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from acceptd.errors import ExpiredError, LoaderError, ReleaseNotFoundError, StorageError
from acceptd.loader_events import Events
from acceptd.loader_opening import Opening
from acceptd.release import trust
from acceptd.release.opened import Verified
from acceptd.release.rotated import FILE as ROTATIONS

R = TypeVar("R", bound=Verified)
_LISTS: Final = ("revocations.json", ROTATIONS)
KEPT_ON: Final = (StorageError, ReleaseNotFoundError)
"""Errors that say nothing about the release: the file system is away (EIO, ESTALE, ENOENT, EACCES, ...)."""
_LEAST_SECONDS: Final = 0.01
_MOST_SECONDS: Final = 3600.0
_MOST_REST: Final = 300.0
"""Seconds at most between two looks at what was refused: one may hash the whole bundle."""


class Watch(Generic[R]):
    """An iterator over the current release of a channel and over each one after it; also a context manager.

    Iterating gives the current release first, then waits. It waits for events of the file system and looks
    at least every ``poll_seconds``; where nothing changed it reads no file. A look verifies the signed files; the
    bundle is hashed only where the release is another one.

    Errors come out of the iteration. ``RevokedError``: the current release was revoked. ``ExpiredError``: the
    channel was not refreshed in time, so it may be frozen by somebody; also while the file system is away, for
    then too nobody says that the release is still good. All others of ``open_release`` that are about security:
    SignatureError, RollbackError, MalformedError, DigestMismatchError, ProfileRefusedError. The watch stays
    usable: the next call waits for a change and looks again (a ``for`` loop ends at an error, so begin it
    anew), and raises the same error again only where something changed. Stop serving the old release where the
    error says so.

    What was refused is looked at again also where no signed file changed, ever less often: a copy that was under
    way, a clock that was put right, a disk that has room again. Where a look succeeds the release is given, also
    one that was given before the error: whoever stopped serving it may go on.

    Kept through, the old release goes on: StorageError and ReleaseNotFoundError, where nothing is there to read.
    :attr:`problem` has the error until a look succeeds.

    Safe for several threads: each new release, and each error, is given to one of those that iterate;
    :attr:`release` is there for all, and raises that error too until a look succeeds. :meth:`stop` (or leaving the
    context) ends every iteration at once.
    """

    def __init__(self, opening: Opening, make: Callable[[dict[str, Any]], R], poll_seconds: float) -> None:
        self._opening, self._make = opening, make
        self._poll = min(max(float(poll_seconds), _LEAST_SECONDS), _MOST_SECONDS)
        self._turn = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._problem: LoaderError | None = None
        self._refused: LoaderError | None = None
        self._given = ""
        self._late = False
        self._rest = self._rested = 0.0
        """Seconds until the next look at what was refused, and when (monotonic) that is."""
        base = Path(opening.base)
        folder = base / opening.folder
        self._files = (folder / "channel.json", *(base / name for name in _LISTS))
        self._events = Events({folder: {"channel.json"}, base: set(_LISTS)}, self._wake.set)
        try:
            self._seen = self._stamps()
            self._release = make(opening.opened())
        except BaseException:
            self._events.stop()
            raise
        self._expires = trust.epoch(self._release.expires_at)

    @property
    def release(self) -> R:
        """The newest release that was opened; raises the error that says it may not be used any more."""
        if (refused := self._refused) is not None:
            raise refused.with_traceback(None)
        return self._release

    @property
    def problem(self) -> LoaderError | None:
        """Why the last look could not tell, where it says nothing about the release; None: it could."""
        return self._problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        found = self.wait()
        if found is None:
            raise StopIteration
        return found

    def wait(self, timeout: float | None = None) -> R | None:
        """Return the next release, or None after ``timeout`` seconds without one, or once stopped.

        Raises as iterating does.
        """
        end = None if timeout is None else time.monotonic() + timeout
        if not self._turn.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return None
        try:
            while not self._stopped:
                if self._given != self._release.release_digest:
                    self._given = self._release.release_digest
                    return self._release
                left = self._poll if end is None else min(self._poll, end - time.monotonic())
                if left <= 0:
                    return None
                if not self._late:
                    left = min(left, max(_LEAST_SECONDS, self._expires - self._opening.now()))
                self._wake.wait(left)
                self._wake.clear()
                if not self._stopped:
                    self._look()
        finally:
            self._turn.release()
        return None

    def stop(self) -> None:
        """End every iteration and the observing threads. Idempotent."""
        self._stopped = True
        self._wake.set()
        self._events.stop()

    def _look(self) -> None:
        """Find out whether the release is still the current one; set it where it is another."""
        self._events.renew()
        seen = self._stamps()
        changed, refused = seen != self._seen, self._refused
        again = refused is not None and time.monotonic() >= self._rested
        if changed or again or self._problem is not None:
            self._seen = seen
            try:
                said = self._opening.announced().channel
                if said.release_digest != self._release.release_digest:
                    self._release = self._make(self._opening.opened())
                    self._expires = trust.epoch(self._release.expires_at)
                else:
                    self._expires = said.expires
                self._problem, self._refused, self._late = None, None, False
                if refused is not None:  # who stopped serving it waits for it
                    self._given = ""
            except KEPT_ON as error:
                self._problem = error
            except LoaderError as error:
                self._problem, self._refused = None, error
                self._late = self._late or isinstance(error, ExpiredError)
                longer = min(max(self._poll, 2 * self._rest), max(self._poll, _MOST_REST))
                self._rest = self._poll if changed or refused is None else longer
                self._rested = time.monotonic() + self._rest
                if changed or type(error) is not type(refused):
                    raise
        if not self._late and not self._opening.now() < self._expires:
            self._late = True
            why = f" ({self._problem})" if self._problem is not None else ""
            self._refused = ExpiredError(
                f"channel.json of {self._opening.model_id} {self._opening.channel} expired at "
                f"{self._release.expires_at} and no newer one can be read{why}: it may be withheld from refresh"
            )
            raise self._refused

    def _stamps(self) -> tuple[object, ...]:
        """Return what changes when one of the signed files is replaced, written, removed or out of reach."""
        found: list[object] = []
        for path in self._files:
            try:
                one = os.stat(path, follow_symlinks=False)
            except OSError as error:
                found.append(error.errno)
            else:
                found.append((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
        return tuple(found)
