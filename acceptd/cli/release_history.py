"""``acceptd release list`` and ``history``: what is current where, and how a channel came to where it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, console
from acceptd.cli.release_office import ChannelOption, ModelArgument, model_of, office
from acceptd.cli.release_words import held_line
from acceptd.cli.tables import print_table
from acceptd.release import history as histories
from acceptd.release.book import read_book
from acceptd.report.escape import line

INDENT = 8


def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print the current release of every model and channel, and what is frozen or pinned."""
    with office(state) as place:
        rows = histories.current_releases(place.paths.state, place.ledger, place.keys)
        holds = read_book(place.ledger).holds
        held = [("frozen", one) for one in holds.all_frozen()] + [("pinned", one) for one in holds.all_pinned()]
    if json_:
        typer.echo(json.dumps([_plain(row) for row in rows], sort_keys=True))
        return
    lines: list[list[Any]] = []
    for row in rows:
        facts = _plain(row)
        digest = str(facts.get("bundle_digest", ""))[:12]
        cells = [facts.get(name) for name in ("model_id", "channel", "number", "version")]
        told = [word for word, there in (("frozen", row.frozen), ("pinned", row.pinned)) if there]
        problem = ", ".join([*told, *([row.problem] if row.problem else [])])
        lines.append([*cells, digest, ", ".join(row.profiles), facts.get("expires_at"), problem])
    columns = ("model", "channel", "number", "version", "digest", "profiles", "expires", "problem")
    out = console()
    print_table(out, columns, lines, empty="nothing is released yet")
    for word, one in held:
        out.print(f"{word}: {line(held_line(one), 400)}", markup=False)


def history(
    model: ModelArgument,
    channel: ChannelOption = None,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what ever happened to one channel, newest first: which, when, who decided, why."""
    model_id = model_of(model)
    with office(state) as place:
        name = place.channel(channel, released=True)
        rows = histories.history(place.paths.state, place.ledger, place.keys, model_id, name)
    if json_:
        typer.echo(json.dumps([_plain(row) for row in rows], sort_keys=True))
        return
    print_history(console(), rows)


def print_history(out: Console, rows: Sequence[histories.HistoryLine]) -> None:
    """Print two lines or more for each row: what and when, then who decided and why."""
    for row in rows:
        number = f"{row.number:06}" if row.number else ""
        kind = "BROKEN GLASS" if row.glass else row.kind
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for width in (6, 12 if row.glass else 9, 10, 20, 12):
            table.add_column(width=width, no_wrap=True)
        table.add_column(overflow="fold")
        cells = (number, kind, row.state, row.at, row.bundle_digest[:12], row.version)
        table.add_row(*(Text(line(cell, 80)) for cell in cells))
        out.print(table)
        out.print(Padding(Text(line(_why(row), 2400)), (0, 0, 0, INDENT)))


def _why(row: histories.HistoryLine) -> str:
    """Return who decided and why, as one text: the reason last, for it is somebody's own words."""
    parts = [f"by {row.by}"] if row.by else []
    parts += [row.revoked and f"revoked since: {row.revoked}"] if row.revoked else []
    parts += [f"decided by {', '.join(row.decided)}"] if row.decided else []
    parts += [f"under {', '.join(row.profiles)}"] if row.profiles else []
    return f"{'; '.join(parts)}: {row.reason}" if parts else row.reason


def _plain(row: Any) -> dict[str, Any]:
    return {
        name: str(value) if not isinstance(value, int | str | bool | tuple | None) else value
        for name, value in asdict(row).items()
    }
