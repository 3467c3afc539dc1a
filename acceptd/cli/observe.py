"""``acceptd observe``: what would be refused of all that was judged in observe mode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.cli.status import observed_now
from acceptd.config import require_state
from acceptd.policy.observe import ObserveTable
from acceptd.record.canonical import digest, plain
from acceptd.record.entry import Entry, utc_now
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.report import observed_list as listed
from acceptd.report.escape import line
from acceptd.report.targets import Targets

EXIT_NOT_JUDGED = 4
NAMES_SHOWN = 8


def observe(
    html: Annotated[Path | None, typer.Option("--html", help="Write the page as one HTML file.")] = None,
    team: Annotated[str, typer.Option("--team", help="Of this team alone.")] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what would be refused: the newest verdict of each model that was judged in observe mode.

    Ends with 0, and with 4 where a model could not be judged: a submitter's command does not say that.
    """
    paths = require_state(chosen_state(state))
    now = observed_now(paths)
    with Ledger.open(paths.state, create=False) as ledger:
        queue = Queue(ledger)
        seen = listed.newest(ledger.entries(kind="verdict"), lambda entry: _hidden(queue, entry))
    seen = [one for one in seen if team in {"", one.team}]
    observes = ("; ".join(now.words()) or "nothing") if isinstance(now, ObserveTable) else now
    with Targets({"--html": html}) as targets:
        if html is not None:
            from acceptd.report.observed_page import page

            targets.write("--html", page(seen, observes, utc_now()).encode("utf-8"))
    if json_:
        document = {
            "observe": now.model_dump() if isinstance(now, ObserveTable) else None,
            "counts": listed.counts(seen),
            "refusals": [one.json() for one in listed.refusals(seen)],
            "models": [one.json() for one in seen],
        }
        typer.echo(json.dumps(document, ensure_ascii=True, sort_keys=True))
    else:
        print_observed(console(), seen, observes)
        if html is not None:
            console().print(f"wrote {line(html)}")
    raise typer.Exit(EXIT_NOT_JUDGED if listed.counts(seen)["inconclusive"] else 0)


def _hidden(queue: Queue, entry: Entry) -> list[dict[str, Any]]:
    """Return the findings for reviewers of a verdict: the entry binds their digest, or they do not count."""
    row = queue.get(str(entry.submission))
    document = (row.data.get("document") or {}) if row is not None else {}
    hidden = [one for one in document.get("findings", ()) if one.get("audience") != "team"]
    bound = entry.body.get("reviewer_findings")
    return hidden if isinstance(bound, dict) and bound.get("digest") == digest(plain(hidden)) else []


def print_observed(out: Console, seen: Sequence[listed.Seen], observes: str) -> None:
    """Print what the page says; every text that a submitter may have written is escaped."""
    out.print(f"observed now: {line(observes, 300)}")
    out.print(listed.summary(seen))
    for one in seen:
        if one.verdict == "inconclusive":
            out.print()
            out.print(f"NOT JUDGED  {line(one.name, 140)}", style="magenta")
            _indented(out, f"{line(one.reason)}: acceptd report {line(one.submission, 60)}")
    print_refusals(out, seen)


def print_refusals(out: Console, seen: Sequence[listed.Seen]) -> None:
    """Print by finding code what refuses or holds which models."""
    for refusal in listed.refusals(seen):
        names = ", ".join(line(one.name, 140) for one in refusal.models[:NAMES_SHOWN])
        more = len(refusal.models) - NAMES_SHOWN
        out.print()
        style = "red" if refusal.severity == "reject" else "yellow"
        many = f"{len(refusal.models)} model{'s' if len(refusal.models) > 1 else ''}"
        out.print(f"{line(refusal.severity, 8):<8} {line(refusal.code, 80)}  {many}", style=style)
        _indented(out, names + (f" and {more} more" if more > 0 else ""))
        _indented(out, f"for example {line(refusal.models[0].name, 140)}: {line(refusal.example())}")
        if refusal.remedy:
            arrow = "→" if out.encoding.lower().startswith("utf") else "->"
            _indented(out, f"{arrow} {line(refusal.remedy, 400)}", style="green")


def _indented(out: Console, text: str, style: str = "") -> None:
    out.print(Padding(text, (0, 0, 0, 9), expand=False), style=style or None)
