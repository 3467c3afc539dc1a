"""``acceptd adopt --submit``: everything into the inbox of a daemon that only observes it, and its verdicts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from acceptd.adopt.place import Place
from acceptd.adopt.rows import Row, judged
from acceptd.cli.common import progress_console
from acceptd.config import Paths, require_state
from acceptd.daemon_lock import holder
from acceptd.dropping import POLL_SECONDS, drop, unique, verdicts
from acceptd.errors import StateError, UsageError
from acceptd.policy.observe import ObserveTable, observe_table
from acceptd.work import snapshot

_REMEDY: Final = "put the team into [observe] of the policy, and send SIGHUP to the daemon"
PATIENCE: Final = 600.0
"""Seconds without any new verdict."""


def observing(state: Path, team: str) -> tuple[Paths, ObserveTable]:
    """Return the paths of a state whose daemon runs, and what that observes now.

    What counts is what the daemon has in force, not what the policy's file says by now. Raises UsageError.
    """
    paths = require_state(state)
    pid = holder(paths.lock)
    told = snapshot.read(paths.state, pid) if pid else None
    if told is None:
        raise UsageError("no daemon is running on this state", remedy="start it: acceptd daemon")
    if not (paths.inbox / team).is_dir():
        raise UsageError(f"there is no inbox for team {team!r}", remedy=f"acceptd init --team {team}")
    table = observe_table(told.get("observe")) or ObserveTable()
    if not any(table.words()):
        raise UsageError("the daemon observes nothing: what it accepts it would promote", remedy=_REMEDY)
    return paths, table


def dropped(state: Path, place: Place, rows: Sequence[Row], team: str) -> list[Row]:
    """Drop every bundle of ``team`` and wait for the verdicts; return the rows with what the daemon said."""
    mine = [row for row in rows if row.state not in {"failed", "skipped"} and row.model.partition("/")[0] == team]
    paths, table = observing(state, team)
    for row in mine:
        if not table.covers(team, row.model):
            raise UsageError(f"the daemon does not observe {row.model}: it might promote it", remedy=_REMEDY)
    inbox, outbox = paths.inbox / team, paths.outbox / team
    waiting: dict[str, Row] = {}
    done = {row.path: row for row in rows}
    known: set[str] = {one.name for one in outbox.iterdir()} if outbox.is_dir() else set()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=progress_console()) as progress:
        bar = progress.add_task("observing", total=len(mine))
        for row in mine:
            name = unique(row.name, "directory")
            drop(place.bundle(row.name), inbox, name, directory=True)
            waiting[name] = row
        last = time.monotonic()
        while waiting:
            ended = holder(paths.lock) is None  # asked first: what it wrote before its end is still seen
            for report in verdicts(outbox, known):
                if (name := str(report.get("drop"))) in waiting:
                    row = waiting.pop(name)
                    done[row.path] = _told(row, report)
                    progress.advance(bar)
                    last = time.monotonic()
            if not waiting:
                break
            if ended or time.monotonic() - last > PATIENCE:
                raise StateError(
                    f"{len(waiting)} of {len(mine)} have no verdict: the daemon ended, or gave none for long",
                    remedy="see `acceptd status`; what was dropped is judged when it runs again",
                )
            time.sleep(POLL_SECONDS)
    return [done[row.path] for row in rows]


def _told(row: Row, report: dict[str, Any]) -> Row:
    return judged(row, report).model_copy(update={"submission": str(report.get("submission", ""))})
