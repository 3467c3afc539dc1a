"""``acceptd ledger``: verify, show and export the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import EXIT_AUDIT, JsonOption, StateOption, chosen_state, console
from acceptd.config import require_state
from acceptd.errors import UsageError
from acceptd.record import audit
from acceptd.record.entry import Filter
from acceptd.record.log import Ledger
from acceptd.report.escape import line
from acceptd.report.targets import Targets

app = typer.Typer(help="The record of every verdict, release and revocation.", no_args_is_help=True)


@app.command("verify")
def verify(state: StateOption = None, json_: JsonOption = False) -> None:
    """Recompute every leaf, node and projection; say what differs and where. Exit 5 if anything does."""
    paths = require_state(chosen_state(state))
    found = audit.examine(paths.state)
    head, differences = found.head, found.differences
    if json_:
        rows = [{"what": one.what, "where": one.where, "message": one.message} for one in differences]
        typer.echo(json.dumps({"entries": head.size, "root": head.root.hex(), "differences": rows}))
    else:
        out = console()
        for one in differences:
            out.print(line(f"differs: {one.what} {one.where}: {one.message}"), markup=False)
        word = "verified" if not differences else f"{len(differences)} differences"
        out.print(f"ledger: {head.size} entries, root {head.root.hex()[:16]}…, {word}", markup=False)
    raise typer.Exit(EXIT_AUDIT if differences else 0)


@app.command("show")
def show(
    entry: Annotated[int, typer.Argument(min=0, help="The entry's number.")], state: StateOption = None
) -> None:
    """Print one entry as JSON."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        if entry >= ledger.tree().size:
            raise UsageError(f"there is no entry {entry}", remedy=f"the last one is {ledger.tree().size - 1}")
        typer.echo(json.dumps(ledger.entry(entry).as_json(), ensure_ascii=True, indent=2, sort_keys=True))


@app.command("export")
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
    team: Annotated[str | None, typer.Option("--team")] = None,
    model: Annotated[str | None, typer.Option("--model")] = None,
    verdict: Annotated[str | None, typer.Option("--verdict")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="An entry type, for example verdict.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="UTC, for example 2026-01-31T00:00:00Z.")] = None,
    state: StateOption = None,
) -> None:
    """Export entries as JSON lines, with filters."""
    paths = require_state(chosen_state(state))
    wanted: dict[str, Any] = {
        name: value
        for name, value in (
            ("team", team),
            ("model", model),
            ("verdict", verdict),
            ("type", kind),
            ("since", since),
        )
        if value is not None
    }
    with Ledger.open(paths.state, create=False) as ledger:
        lines = (json.dumps(one, ensure_ascii=True, sort_keys=True) for one in ledger.export(Filter(**wanted)))
        with Targets({"--output": output}) as targets:
            for text in lines:
                if output is None:
                    typer.echo(text)
                else:
                    targets.write("--output", text.encode("ascii") + b"\n")
