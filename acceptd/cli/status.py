"""``acceptd status``: what is waiting, what was judged, what is in production."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.config import Paths, require_state
from acceptd.daemon_lock import holder
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.report.escape import line


def status(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many submissions.")] = 20,
    team: Annotated[str | None, typer.Option("--team")] = None,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the newest submissions and the state of the queue."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        queue = Queue(ledger)
        counts = queue.counts()
        rows = queue.find(team=team, limit=limit)
    daemon = _daemon(paths)
    if json_:
        body = [
            {
                "submission": row.id,
                "team": row.team,
                "name": row.name,
                "state": row.state,
                "verdict": row.data.get("verdict"),
                "model": row.model,
                "bundle_digest": row.bundle_digest,
                "release": row.data.get("release"),
                "received_at": row.received_at,
            }
            for row in rows
        ]
        typer.echo(json.dumps({"daemon": daemon, "counts": counts, "submissions": body}, sort_keys=True))
        return
    out = console()
    out.print(
        f"daemon {daemon}   " + "  ".join(f"{name} {count}" for name, count in counts.items() if count),
        markup=False,
    )
    out.print(submissions(rows))


def submissions(rows: Sequence[Submission]) -> Table:
    """Return the table of submissions; a drop's name is whatever its team called it."""
    table = Table(box=None, pad_edge=False)
    for column in ("submission", "team", "drop", "state", "verdict", "release"):
        table.add_column(column, no_wrap=column != "drop", overflow="fold")
    for row in rows:
        release = row.data.get("release") or {}
        number = f"{release['channel']} {release['number']}" if release else ""
        cells = (row.id, row.team, row.name, row.state, row.data.get("verdict") or "", number)
        table.add_row(*(Text(line(cell, 200)) for cell in cells))
    return table


def _daemon(paths: Paths) -> str:
    pid = holder(paths.lock)
    return f"running (pid {pid})" if pid else "not running"
