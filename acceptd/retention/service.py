"""Retention beside a running daemon: a thread of its own, now and then, that ends soon after it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from acceptd.config import RetentionTable
from acceptd.errors import AcceptdError, ConfigError, NoThreadError
from acceptd.objectstore.objects import FOLDER, Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.load import load_reviewers
from acceptd.record.entry import utc_now
from acceptd.record.log import Ledger
from acceptd.retention.collect import Collected, collect
from acceptd.retention.look import Look
from acceptd.retention.objects import Shelves
from acceptd.retention.usage import gib
from acceptd.review.desk import Desk
from acceptd.rules import Rules
from acceptd.threads import Thread

_DAY: Final = 86_400.0
log = structlog.get_logger("acceptd.retention")


def look_at(state: Path, ledger: Ledger, rules: Rules, now: str = "") -> Look:
    """Return a look at ``state`` now; where the reviewers are refused, one that lets held bundles stay."""
    try:
        desk = Desk(state, ledger, rules.policy, load_reviewers(rules.directory))
    except ConfigError as error:
        return Look(state, ledger, None, now or utc_now(), f"the reviewers are refused: {error.message}")
    return Look(state, ledger, desk, now or utc_now())


def shelves_of(look: Look, table: ObjectsTable) -> Shelves | None:
    """Return a look at the object store that the settings name or the state holds; None where there is none."""
    objects = objects_of(table, look.state)
    return None if objects is None else Shelves(look, objects, table.unused_days)


def objects_of(table: ObjectsTable, state: Path) -> Objects | None:
    """Return the objects that the settings name or the state holds; None where there are none."""
    return open_objects(table, state) if table.url or (state / FOLDER).is_dir() else None


class Retention:
    """Collects when ``interval_seconds`` have passed since it last began; the first time at once.

    The object store, if there is one, is looked at once a day: every inventory there is read for that.
    """

    def __init__(
        self,
        state: Path,
        ledger: Ledger,
        rules: Callable[[], Rules],
        table: RetentionTable,
        objects: ObjectsTable | None = None,
    ) -> None:
        self._state, self._ledger, self._rules, self._table = state, ledger, rules, table
        self._objects = objects
        self._due = self._objects_due = 0.0
        self._stop = threading.Event()
        self._thread: Thread | None = None

    def nudge(self) -> None:
        """Begin a run where one is due and none is at work; return at once."""
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        thread = Thread(self._run, name="retention")
        try:
            thread.start()
        except NoThreadError as error:  # the next nudge tries again
            log.error("retention", error=str(error))  # noqa: TRY400 - it says all
            return
        self._thread = thread
        self._due = time.monotonic() + self._table.interval_seconds

    def stop(self) -> None:
        """End after the thing that is being removed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            look, shelves = look_at(self._state, self._ledger, self._rules()), None
            if self._objects is not None and time.monotonic() >= self._objects_due:
                self._objects_due = time.monotonic() + _DAY
                shelves = shelves_of(look, self._objects)
            done = collect(look, self._table, self._stop.is_set, shelves)
        except (AcceptdError, OSError) as error:
            log.error("retention", error=str(error))  # noqa: TRY400 - it says all
        except Exception:
            log.exception("retention")
        else:
            _tell(done)


def _tell(done: Collected) -> None:
    for one in done.gone:
        if one.thing.what not in {
            "outputs",
            "backup",
            "object",
        }:  # of files there may be very many: their entries name them
            log.info("removed", place=one.thing.place, bytes=one.thing.size, reason=one.reason)
    for problem in done.problems[:16]:
        log.warning("not removed", place=problem)
    if done.gone:
        log.info("retention", removed=len(done.gone), size=gib(done.size), stay=len(done.kept))
