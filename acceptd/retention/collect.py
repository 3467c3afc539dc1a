"""Removes what has had its time: first the entry, durably, then a name that nobody looks for, then the bytes.

A bundle is looked at again under the locks that keep promotions, rollbacks and decisions away, so that nobody is
about to name what goes. A kill after the entry leaves the bytes, or a part of them under a temporary name: the
next run removes the rest, and what still has its name is decided anew, with another entry.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptd.config import RetentionTable
from acceptd.errors import ObjectStoreError, StateError
from acceptd.intake.files import opened, remove_tree, temporary_name
from acceptd.lockfile import open_lock
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.record.removals import KIND
from acceptd.release.layout import make_directories, model_lock, revocation_lock, store_lock
from acceptd.retention.look import FOLDERS, Look, since
from acceptd.retention.objects import Shelves
from acceptd.retention.rules import Decided, decide

GONE: Final = ".tmp-gone-"
"""What is being removed bears such a name from the moment it goes."""
_BATCH: Final = 256
"""Files whose removal is one entry."""


@dataclass(slots=True)
class Collected:
    """What one run did: what went, what stays and why, and what could not be removed, a line each."""

    gone: list[Decided] = field(default_factory=list)
    kept: list[Decided] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes that went."""
        return sum(one.thing.size for one in self.gone)


def plan(look: Look, table: RetentionTable) -> list[Decided]:
    """Return everything that may go some day with what would become of it now; change nothing."""
    return [decide(thing, table, look.now) for thing in look.everything()]


def collect(
    look: Look,
    table: RetentionTable,
    stopped: Callable[[], bool] = lambda: False,
    shelves: Shelves | None = None,
) -> Collected:
    """Remove everything that is due, and return what was done. ``stopped`` is asked between two things.

    ``shelves`` are the objects of a fleet, if there are any.

    Raises StateError where another run is at work, and LedgerError where an entry cannot be written: then its
    bytes stay.
    """
    done = Collected()
    with _alone(look.state):
        done.problems += sweep(look.state)
        files: list[Decided] = []
        for one in plan(look, table):
            if stopped():
                return done
            if not one.goes:
                done.kept.append(one)
            elif one.thing.what in {"outputs", "backup"}:
                files.append(one)
            else:
                _bundle(look, table, one, done)
        for what in ("outputs", "backup"):
            mine = [one for one in files if one.thing.what == what]
            for first in range(0, len(mine), _BATCH):
                if stopped():
                    return done
                _files(look, mine[first : first + _BATCH], done)
        if shelves is not None:
            try:
                for one in shelves.collect(table, lambda due: _enter(look.ledger, due), stopped):
                    (done.gone if one.goes else done.kept).append(one)
            except ObjectStoreError as error:
                done.problems.append(str(error))
    return done


def sweep(state: Path) -> list[str]:
    """Remove what a killed run had begun to remove; return what could not be."""
    left: list[str] = []
    for folder in FOLDERS:
        with contextlib.suppress(OSError), opened(state / folder) as fd:
            for name in os.listdir(fd):
                if name.startswith(GONE):
                    left += remove_tree(fd, name)
    return left


def _bundle(look: Look, table: RetentionTable, planned: Decided, done: Collected) -> None:
    thing = planned.thing
    with contextlib.ExitStack() as stack:
        stack.enter_context(store_lock(look.state, shared=False))
        stack.enter_context(revocation_lock(look.state, shared=True))
        if thing.model:
            stack.enter_context(model_lock(look.state, thing.model))
        again = look.thing(thing.folder, thing.name)
        if again is None:
            return  # gone, or in use again
        one = decide(again, table, look.now)
        if not one.goes or again.model != thing.model:  # of another model the lock is not held
            done.kept.append(one)
            return
        _enter(look.ledger, [one])
        failpoint("retention.bundle.entered")
        moved = _moved(look.state / thing.folder, thing.name)
        failpoint("retention.bundle.moved")
    # Nobody finds it any more: the bytes may take their time, beside promotions.
    done.gone.append(one)
    done.problems += remove_tree(look.state / thing.folder, moved)


def _files(look: Look, due: Sequence[Decided], done: Collected) -> None:
    _enter(look.ledger, due)
    failpoint("retention.files.entered")
    for one in due:
        thing = one.thing
        folder = look.state / thing.folder
        try:
            with opened(folder) as fd:
                moved = _moved(folder, thing.name)
                failpoint("retention.file.moved")
                if since(os.stat(moved, dir_fd=fd, follow_symlinks=False)) != thing.since:
                    # Kept again by another submission in between: under its name it is the same bytes.
                    os.rename(moved, thing.name, src_dir_fd=fd, dst_dir_fd=fd)
                    continue
                os.unlink(moved, dir_fd=fd)
                failpoint("retention.file.removed")
        except FileNotFoundError:
            continue
        except OSError as error:
            done.problems.append(f"{thing.place}: {error.strerror}")
            continue
        done.gone.append(one)


def _enter(ledger: Ledger, due: Sequence[Decided]) -> None:
    """Put on record that these go; durable on return."""
    first = due[0].thing
    body = {
        "what": first.what,
        "reason": due[0].reason,
        "items": [{"name": one.thing.name, "size": one.thing.size} for one in due],
    }
    named = {"team": first.team, "model": first.model, "bundle_digest": first.digest}
    submission = first.name if first.folder in {"quarantine", "sealed"} else None
    ledger.append(KIND, body | {key: value for key, value in named.items() if value}, submission=submission)


def _moved(folder: Path, name: str) -> str:
    """Take away its name; return the one that it bears until it is gone."""
    gone = GONE + temporary_name().removeprefix(".tmp-")
    with opened(folder) as fd:
        os.rename(name, gone, src_dir_fd=fd, dst_dir_fd=fd)
    return gone


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    path = make_directories(state, "locks", 0o700) / "gc.lock"
    fd = open_lock(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"{state}: another run removes things now", remedy="wait until it has ended"
            ) from None
        yield
    finally:
        os.close(fd)
