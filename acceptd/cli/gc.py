"""``acceptd gc``: what would go by the days of ``[retention]``, what stays and why; and its removal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from acceptd.cli.common import EXIT_INTERNAL, JsonOption, StateOption, chosen_state, console, progress_console
from acceptd.cli.sealing import sealing
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.errors import ObjectStoreError
from acceptd.record.log import Ledger
from acceptd.report.escape import line
from acceptd.retention.collect import Collected, collect, plan
from acceptd.retention.rules import Decided
from acceptd.retention.service import look_at, shelves_of
from acceptd.retention.usage import gib
from acceptd.rules import load_rules

SHOWN: Final = 200
"""Lines of one table; ``--json`` has them all."""


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Remove bundles, outputs and backups that have had their time. Each removal is an entry of the ledger first.

    The days stand in `[retention]` of acceptd.toml; the daemon does the same by itself. Entries, evidence and
    held-out sets stay. Exit 70 where something could not be removed.
    """
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    rules = load_rules(policies_directory(settings), settings.policy)
    if dry_run:
        with Ledger.open(paths.state, create=False) as ledger:
            look = look_at(paths.state, ledger, rules)
            planned, problems = plan(look, settings.retention), []
            try:
                if (shelves := shelves_of(look, settings.objects)) is not None:
                    planned += shelves.all(settings.retention)
            except ObjectStoreError as error:
                problems.append(str(error))
        done = Collected([one for one in planned if one.goes], [one for one in planned if not one.goes], problems)
    else:
        with sealing(paths.state) as ledger, progress_console().status("removing what has had its time"):
            look = look_at(paths.state, ledger, rules)
            done = collect(look, settings.retention, shelves=shelves_of(look, settings.objects))
    if json_:
        body: dict[str, Any] = {"dry_run": dry_run, "bytes": done.size, "problems": done.problems}
        body |= {"gone": [_row(one) for one in done.gone], "stay": [_row(one) for one in done.kept]}
        typer.echo(json.dumps(body, sort_keys=True))
    else:
        _print(console(), done, "would go" if dry_run else "gone")
    raise typer.Exit(EXIT_INTERNAL if done.problems else 0)


def _row(one: Decided) -> dict[str, Any]:
    return asdict(one.thing) | {"place": one.thing.place, "reason": one.reason}


def _print(out: Console, done: Collected, word: str) -> None:
    for head, rows in ((word, done.gone), ("stays", done.kept)):
        if rows:
            out.print(head)
            _rows(out, rows)
    for problem in done.problems:
        out.print(f"not {'looked at' if word == 'would go' else 'removed'}: {line(problem)}", markup=False)
    stay = sum(one.thing.size for one in done.kept)
    out.print(f"{len(done.gone)} {word}, {gib(done.size)}; {len(done.kept)} stay, {gib(stay)}", markup=False)


def _rows(out: Console, rows: Sequence[Decided]) -> None:
    """Print a bundle in two lines, and files with one reason together in two."""
    alike: dict[tuple[str, str], list[Decided]] = {}
    for one in rows:
        bundle = one.thing.name if one.thing.what not in {"outputs", "backup", "object"} else ""
        alike.setdefault((one.thing.what, bundle or one.reason), []).append(one)
    for (what, _), group in list(alike.items())[:SHOWN]:
        thing = group[0].thing
        size = gib(sum(one.thing.size for one in group))
        shown = f"{thing.name[:12]}…" if len(thing.name) == 64 else thing.name
        name = f"{shown}  {thing.model or thing.team}" if len(group) == 1 else f"{len(group)} files"
        out.print(f"  {what:11} {size:>10}  {line(name, 160)}", soft_wrap=True)
        out.print(f"{'':26}{line(group[0].reason, 300)}", soft_wrap=True)
    if len(alike) > SHOWN:
        out.print(f"  and {len(alike) - SHOWN} more: --json has them all")
