"""``acceptd report``: one submission's verdict again, for a person, as JSON or as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.check import json_line, write_findings
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.config import require_state
from acceptd.errors import UsageError
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.report import verification
from acceptd.report.escape import line
from acceptd.report.html import render
from acceptd.report.sources import sources
from acceptd.report.targets import Targets
from acceptd.report.terminal import print_verdict


def report(
    submission: Annotated[
        str, typer.Argument(help="A submission's id, or the beginning of one; default: the newest.")
    ] = "",
    html: Annotated[Path | None, typer.Option("--html", help="Write the report as one HTML file.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Write the findings as SARIF 2.1.0.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write the verdict as JUnit XML.")] = None,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the report of one submission."""
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        row = _find(Queue(ledger), submission)
        entry = next(ledger.entries(kind="verdict", submission=row.id), None)
        # Read anew: what an earlier version kept of a report does not name its entry.
        place: dict[str, Any] = {"entry": verification.place(entry, ledger.origin)} if entry is not None else {}
        if entry is not None and (told := sources(entry.body.get("statement"))):
            place["sources"] = told
    document = row.data.get("document")
    if not document:
        raise UsageError(
            f"submission {row.id} is {row.state}: there is no verdict yet", remedy="see `acceptd status`"
        )
    document = {**document, **place}
    with Targets({"--html": html, "--sarif": sarif, "--junit": junit}) as targets:
        targets.write("--html", render(document).encode("utf-8") if html is not None else b"")
        write_findings(targets, [("", document)])
    if json_:
        typer.echo(json_line(document), nl=False)
    elif html is sarif is junit is None:
        print_verdict(console(), document, every_finding=True)
    else:
        for path in (html, sarif, junit):
            if path is not None:
                console().print(f"wrote {line(path)}")


def _find(queue: Queue, wanted: str) -> Submission:
    rows = queue.find(limit=None if wanted else 1)
    matching = [row for row in rows if row.id.startswith(wanted)]
    if len(matching) != 1 and wanted:
        raise UsageError(f"{len(matching)} submissions begin with {wanted!r}", remedy="see `acceptd status`")
    if not matching:
        raise UsageError("there is no submission yet", remedy="drop one: acceptd submit PATH --team TEAM")
    return matching[0]
