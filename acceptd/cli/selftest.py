"""``acceptd selftest``: attacks from inside this host's rooms, each of which must be refused."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from acceptd import selftest as attacks
from acceptd.cell import doctor
from acceptd.cli.common import EXIT_AUDIT, JsonOption, console, progress_console


def selftest(
    json_: JsonOption = False,
    failed: Annotated[bool, typer.Option("--failed", help="Print only what did not hold.")] = False,
) -> None:
    """Attack this host's own rooms: about 200 escapes and a few hostile models. Exit 5 if a wall does not hold."""
    start = time.monotonic()
    rows: list[attacks.Row] = []
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=progress_console()) as progress:
        task = progress.add_task("attacking from inside", total=attacks.TOTAL)
        for row in attacks.attack():
            rows.append(row)
            progress.update(task, advance=1, description=row.group)
    seconds = round(time.monotonic() - start, 1)
    rows.sort(key=lambda row: (row.group, row.probe))
    broken = [row for row in rows if not row.held]
    if json_:
        body = {"host": doctor.host(), "seconds": seconds, "probes": len(rows), "broken": len(broken)}
        typer.echo(json.dumps(body | {"rows": [asdict(row) for row in rows]}, sort_keys=True))
    else:
        _print(broken if failed else rows)
        held = f"{len(rows) - len(broken)} of {len(rows)} held, {seconds} s"
        console().print(
            held if not broken else f"{held}; acceptd doctor names the walls and remedies", markup=False
        )
    raise typer.Exit(EXIT_AUDIT if broken else 0)


def _print(rows: list[attacks.Row]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("", "group", "probe", "expected", "got"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row("ok" if row.held else "!!", row.group, row.probe, row.expected, row.got)
    console().print(table, markup=False)
