"""``acceptd adopt``: a bundle, goldens and a contract for each model below a directory, and what a check says."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from acceptd.cli.common import (
    EXIT_BY_VERDICT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    end_in_order,
    existing,
    progress_console,
    worst,
)
from acceptd.errors import UsageError
from acceptd.policy.names import valid_name
from acceptd.report.escape import line

if TYPE_CHECKING:
    from rich.console import Console

    from acceptd.adopt.rows import Row

OUT: Final = "adopted"
PAGE: Final = "adopt.html"
_NEEDS_SHOWN: Final = 3
_NAME: Final = 20
"""Columns that a bundle's name has in the table at least, before it is folded."""


def adopt(
    directory: Annotated[Path, typer.Argument(help="Where the models are; it is only read.")],
    into: Annotated[
        Path, typer.Option("--into", help="Where bundles, contracts and the page go; a run before goes on there.")
    ] = Path(OUT),
    team: Annotated[str, typer.Option("--team", help="Whose models they are; in the proposed ids.")] = "my-team",
    observe: Annotated[
        bool, typer.Option("--observe", help="Say what would be, block nothing: end with 0 whatever the verdicts.")
    ] = False,
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Also drop all into the team's inbox; its daemon must only observe it."),
    ] = False,
    policy: Annotated[str, typer.Option("--policy", help="A policy's name, or a file.")] = "",
    workers: Annotated[int, typer.Option("--workers", min=0, help="How many side by side; 0: one per core.")] = 0,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Propose bundles for existing models in bulk, check each in the cell, and say what needs a person."""
    from acceptd.adopt import find
    from acceptd.adopt.place import Place, alone
    from acceptd.config import load_settings, policies_directory
    from acceptd.intake.paths import shown
    from acceptd.rules import load_rules

    try:
        valid_name(team)
    except ValueError as error:
        raise UsageError(str(error), remedy="give --team") from error
    root = existing(directory, "the directory")
    if not root.is_dir():
        raise UsageError(f"{directory} is no directory", remedy="name the directory that holds the models")
    end_in_order()
    settings = load_settings(chosen_state(state))
    rules = load_rules(policies_directory(settings), policy or settings.policy)
    place = Place(into.absolute())
    if root.resolve().is_relative_to(place.home.resolve()):
        raise UsageError(
            f"{into} is, or holds, what is to be adopted", remedy="name another directory with --into"
        )
    found = find.find(root, [place.home])
    if not any(one.kind != "skipped" for one in found):
        raise UsageError(f"no .onnx file and no bundle below {directory}", remedy="check the directory")
    if submit:
        from acceptd.cli.adopt_submit import observing

        observing(chosen_state(state), team)  # before anything is done
    with alone(place, shown(str(root.resolve()))):
        rows = _adopted(root, place, found, rules, team, workers)
        if submit:
            from acceptd.cli.adopt_submit import dropped

            rows = dropped(chosen_state(state), place, rows, team)
        _write_page(place, rows, rules, observe=observe or submit)
    if json_:
        typer.echo(json.dumps(_document(rows, observe=observe or submit), ensure_ascii=True, sort_keys=True))
    else:
        print_rows(console(), rows, rules.policy.name, observe=observe or submit)
        console().print(f"\nwrote {line(into)}: {PAGE}, adopt.json, bundles/, contracts/", soft_wrap=True)
    raise typer.Exit(exit_code(rows, observe=observe or submit))


def exit_code(rows: Sequence[Row], *, observe: bool) -> int:
    """Return the worst verdict's exit code; while only observing 0, and 4 where a model could not be judged."""
    codes = [EXIT_BY_VERDICT[row.verdict] for row in rows if row.verdict]
    codes += [EXIT_BY_VERDICT["rejected"] for row in rows if row.state == "failed"]
    if observe:
        return EXIT_BY_VERDICT["inconclusive"] if EXIT_BY_VERDICT["inconclusive"] in codes else 0
    return worst(codes)


def _adopted(root: Path, place: Any, found: Any, rules: Any, team: str, workers: int) -> list[Row]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from acceptd import local
    from acceptd.adopt.work import Adoption

    cores = os.cpu_count() or 1
    lanes = workers or cores
    err = progress_console()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err) as progress:
        task = progress.add_task("starting the cell", total=len(found))
        with local.bench(rules, cores=max(lanes, cores), suite=True, workers=lanes) as bench:

            def done(row: Row) -> None:
                progress.update(task, advance=1, description=line(row.name or row.path, 24))

            rows = Adoption(bench, root, place, team, lanes).run(found, done)
        progress.update(task, description="adopted")
    return rows


def _write_page(place: Any, rows: Sequence[Row], rules: Any, *, observe: bool) -> None:
    from acceptd.bundling.write import placed
    from acceptd.intake.files import replace_files
    from acceptd.record.entry import utc_now
    from acceptd.report.adopt_page import page

    text = page(rows, rules.policy.name, rules.policy_digest, utc_now(), observe=observe)
    with placed(place.home / PAGE):
        replace_files(place.home, {PAGE: text.encode("utf-8")}.items(), 0o644)


def _document(rows: Sequence[Row], *, observe: bool) -> dict[str, Any]:
    from acceptd.adopt.rows import summary

    return {
        "observe": observe,
        "summary": summary(rows),
        "seconds": round(sum(row.seconds for row in rows), 3),
        "models": [row.model_dump(mode="json") | {"proves": row.proves} for row in rows],
    }


def print_rows(out: Console, rows: Sequence[Row], policy: str, *, observe: bool) -> None:
    """Print the table and what it comes to; every text that a submitter may have written is escaped."""
    from rich.table import Table
    from rich.text import Text

    from acceptd.adopt.rows import summary
    from acceptd.cli.observe import print_refusals

    there = [row for row in rows if row.state not in {"failed", "skipped"}]
    if there:
        table = Table(box=None, pad_edge=False)
        for column in ("bundle", "goldens", "would be" if observe else "check", "for", "to do"):
            table.add_column(column, no_wrap=column not in {"bundle", "for"}, overflow="fold")
        table.columns[0].min_width = _NAME
        for row in there:
            first = row.decisive[0][0] if row.decisive else ""
            name = Text(line(row.name, 200))
            if row.state != "made":
                name.append(f"\n({row.state}{', edited' if row.edited else ''})", style="dim")
            cells = (row.proves, row.verdict, first, str(len(row.needs)))
            table.add_row(name, *(Text(line(cell, 200)) for cell in cells))
        out.print(table)
    for row in rows:
        if row.state in {"failed", "skipped"}:
            out.print(f"{row.state:<8} {line(row.path, 200)}: {line(row.reason, 300)}", style="yellow")
    out.print()
    out.print(summary(rows))
    print_refusals(out, [row.seen(policy, "") for row in there if row.verdict])
    todo: dict[str, int] = {}
    for row in there:
        for text in row.needs:
            head = text.partition(":")[0]
            todo[head] = todo.get(head, 0) + 1
    if todo:
        out.print()
        out.print("what needs a person (the page has it by model):")
        for head, count in sorted(todo.items(), key=lambda pair: -pair[1]):
            out.print(f"{count:7d}  {line(head, 200)}", soft_wrap=True)
