"""``acceptd status --portfolio``: every model on one page, what needs a person first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import console
from acceptd.cli.tables import print_table
from acceptd.config import Paths, load_settings, policies_directory
from acceptd.portfolio.notes import WORDS, policy_words
from acceptd.portfolio.read import read_portfolio
from acceptd.portfolio.rows import Portfolio, Row
from acceptd.record.log import Ledger
from acceptd.report.escape import line

SHOWN: Final = 40
"""Places with something to do that are shown whole, and those in order that are listed one by one."""
_UNTOLD: Final = frozenset({"policy-changed", "all-frozen"})
"""What would stand at every model: the summary says it."""
Place = Sequence[Row]


def portfolio(paths: Paths, *, team: str | None, within_seconds: int, all_: bool, json_: bool) -> None:
    """Print the portfolio of a state directory."""
    settings = load_settings(paths.state)
    with Ledger.open(paths.state, create=False) as ledger:
        directory = policies_directory(settings)
        found = read_portfolio(ledger, directory, settings.policy, within_seconds=within_seconds, team=team or "")
    if json_:
        typer.echo(json.dumps(found.as_json(), sort_keys=True))
        return
    print_portfolio(console(), found, every=all_)


def print_portfolio(out: Console, found: Portfolio, *, every: bool = False) -> None:
    """Print what needs attention as blocks, and what is in order as a table, or as a count for each team."""
    places = list(found.places())
    if not places:
        out.print("no model was judged yet", markup=False)
    else:
        urgent = [rows for rows in places if any(row.needs_attention for row in rows)]
        rest = [rows for rows in places if rows not in urgent]
        _print_head(out, found, places, urgent)
        shown = len(urgent) if every else SHOWN
        for rows in urgent[:shown]:
            _print_place(out, rows)
        if len(urgent) > shown:
            out.print()
            _print_urgent(out, urgent[shown:])
        if rest:
            out.print()
            _print_rest(out, rest, every=every)
    for trouble in found.troubles:
        out.print(f"! {line(trouble, 400)}", style="red", markup=False)


def _print_head(out: Console, found: Portfolio, places: Sequence[Place], urgent: Sequence[Place]) -> None:
    many = f"{found.models} model{'' if found.models == 1 else 's'}"
    if len(places) != found.models:
        many += f" in {len(places)} places"
    days = found.within_seconds / 86_400
    soon = f"soon: within {days:g} day{'' if days == 1 else 's'}"
    out.print(f"{many}, {len(urgent)} to look at   ({soon})", style="bold", markup=False)
    for code, count in found.counts().items():
        out.print(f"{count:>5}  {WORDS[code]}", markup=False)


def _print_place(out: Console, rows: Place) -> None:
    """Print one model on one channel: what it is, then what there is to say, each line folded below itself."""
    first = rows[0]
    head = Text(line(first.model_id, 140), style="bold")
    head.append(f"  {line(_release(first), 80)}", style="not bold")
    out.print()
    out.print(head, soft_wrap=True)
    out.print(Padding(Text(_acceptance(rows), style="dim"), (0, 0, 0, 2), expand=False))
    told = dict.fromkeys(note for row in rows for note in row.notes if note.code not in _UNTOLD)
    for note in sorted(told, key=lambda note: (note.rank, note.at)):
        style = "red" if note.rank < 2 else "yellow" if note.attention else ""
        row = Table.grid()
        row.add_column(width=2)
        row.add_column(overflow="fold")
        row.add_row(Text("!" if note.attention else "-", style=style), Text(line(note.text, 300)))
        out.print(Padding(row, (0, 0, 0, 2), expand=False))


def _print_urgent(out: Console, places: Sequence[Place]) -> None:
    """Print the less urgent ones of very many as a table: what is worst about each."""
    cells = []
    for rows in places:
        worst = min((note for row in rows for note in row.notes), key=lambda note: (note.rank, note.at or "9"))
        cells.append((rows[0].model_id, _release(rows[0]), WORDS[worst.code]))
    print_table(out, (f"{len(places)} more; --all shows them whole", "release", "what"), cells, empty="")


def _release(row: Row) -> str:
    if row.number is not None:
        return f"{row.channel} {row.number}"
    return f"{row.channel}: no release" if row.channel else "no release"


def _acceptance(rows: Place) -> str:
    judged = rows[0].judged
    if judged is None:
        return "never accepted"
    parts = (
        f"{judged.verdict} {judged.version}".strip() + f" {judged.judged_at[:10]}",
        rows[0].digest[:12],
        f"policy {policy_words(judged.policy, judged.policy_digest)}",
        *(_profile(row) for row in rows if row.profile),
    )
    return line(", ".join(part for part in parts if part), 400)


def _profile(row: Row) -> str:
    same = row.judged is not None and row.verdict == row.judged.verdict
    return row.profile if same else f"{row.profile} {row.verdict}"


def _print_rest(out: Console, rest: Sequence[Place], *, every: bool) -> None:
    if not every and len(rest) > SHOWN:
        teams: dict[str, int] = {}
        for rows in rest:
            teams[rows[0].team] = teams.get(rows[0].team, 0) + 1
        out.print(f"{len(rest)} in order; --all lists them, --team one team's", markup=False)
        print_table(out, ("team", "in order"), sorted(teams.items()), empty="")
        return
    columns = ["in order", "release", "accepted", "profiles", "notes"]
    cells: list[list[str]] = []
    for rows in rest:
        first, notes = rows[0], {note.code for row in rows for note in row.notes} - _UNTOLD
        cells.append(
            [
                first.model_id,
                _release(first),
                first.judged.judged_at[:10] if first.judged else "never",
                ", ".join(_profile(row) for row in rows if row.profile),
                ", ".join(sorted(notes)),
            ]
        )
    if not any(notes for *_, notes in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    print_table(out, columns, cells, empty="")
