"""What becomes of a team's drops at this moment, in its outbox: ``.progress.json``, for ``acceptd submit --wait``.

A submitter has no socket to the daemon and may not read its state; the outbox it may read. The file names the
team's own drops alone. It is written by the journal's thread, at most every quarter of a second, and where it
changed; it says nothing any more when the daemon that wrote it is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from acceptd.record.queue import Submission
from acceptd.work.admission import Admission
from acceptd.work.progress_file import NAME

MOST: Final = 100
"""Drops of one team that are named."""
T = TypeVar("T")
log = structlog.get_logger("acceptd.progress")


@dataclass(frozen=True, slots=True)
class At:
    """What is done with a drop now, and since when (Unix time)."""

    team: str
    drop: str
    stage: str
    since: float


class Progress:
    """Drops that are worked, by submission; and the names of those that wait. Safe from threads."""

    def __init__(self, outbox: Path, nudge: Callable[[], None]) -> None:
        self._outbox, self._nudge = outbox, nudge
        self._lock = threading.Lock()
        self._working: dict[str, At] = {}
        self._names: dict[str, str] = {}
        self._written: dict[str, dict[str, Any]] = {}

    def claimed(self, submission: str, drop: str) -> None:
        """Note by which name a submitter knows a submission."""
        with self._lock:
            self._names[submission] = drop

    def stage(self, row: Submission, stage: str) -> None:
        """Note that a stage of a submission begins."""
        log.debug("stage", stage=stage)
        with self._lock:
            self._names[row.id] = row.name
            self._working[row.id] = At(row.team, row.name, stage, round(time.time(), 3))
        self._nudge()

    def elsewhere(self, rows: Iterable[tuple[Submission, str]]) -> None:
        """Take over what the record says of submissions that others work: each with its stage; empty: it waits."""
        with self._lock:
            before, self._working, self._names = self._working, {}, {}
            for row, stage in rows:
                self._names[row.id] = row.name
                known = before.get(row.id)
                if known is not None and known.stage == stage:
                    self._working[row.id] = known
                elif stage:
                    self._working[row.id] = At(row.team, row.name, stage, round(time.time(), 3))

    def during(self, submission: str, work: Callable[[], T | None]) -> T | None:
        """Do ``work`` on a submission and return what it returns: None where it is final then."""
        final = False
        try:
            result = work()
            final = result is None
        finally:
            with self._lock:
                self._working.pop(submission, None)
                if final:
                    self._names.pop(submission, None)
        return result

    def write(self, waiting: Mapping[str, Sequence[str]]) -> None:
        """Replace the files of the teams for which something changed. ``waiting``: by team, in order of turns.

        Raises OSError, of the first team whose file cannot be written, when those of all others are.
        """
        now = self._now(waiting)
        refused: OSError | None = None
        for team in sorted({*now, *self._written}):
            told = now.get(team, {})
            if told == self._written.get(team, {}):
                continue
            if not told:
                with contextlib.suppress(OSError):
                    (self._outbox / team / NAME).unlink(missing_ok=True)
                del self._written[team]
                continue
            try:
                _replace(self._outbox / team, {"pid": os.getpid(), **told})
            except OSError as error:
                refused = refused or error
                continue
            self._written[team] = told
        if refused is not None:
            raise refused

    def clear(self) -> None:
        """Take all files away: nobody writes them any more."""
        with self._lock:
            self._working.clear()
        self.write({})

    def _now(self, waiting: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        now: dict[str, dict[str, Any]] = {}
        with self._lock:
            for one in self._working.values():
                told = now.setdefault(one.team, {"working": [], "waiting": [], "waits": 0})
                told["working"].append({"drop": one.drop, "stage": one.stage, "since": one.since})
            for team, submissions in waiting.items():
                told = now.setdefault(team, {"working": [], "waiting": [], "waits": 0})
                told["waits"] = len(submissions)
                told["waiting"] = [
                    {"drop": self._names[one], "position": place + 1}
                    for place, one in enumerate(submissions[:MOST])
                    if one in self._names
                ]
        return now


def waiting_by_team(admission: Admission) -> dict[str, list[str]]:
    """Return the submissions that wait, by team in the order of its turns. Called under the workers' lock."""
    return admission.queue.by_team()


def _replace(folder: Path, told: Mapping[str, Any]) -> None:
    """Replace the file, without an fsync: after a power cut it says nothing any more."""
    temporary = folder / f"{NAME}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # a new file, whatever lay there: a link, a FIFO
    try:
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, flags, 0o644), "wb") as file:
            file.write(json.dumps(told, ensure_ascii=True).encode() + b"\n")
        temporary.replace(folder / NAME)
    except FileNotFoundError:
        return  # a team without an outbox
