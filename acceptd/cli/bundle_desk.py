"""What the commands of ``acceptd bundle`` share: the rules, and a cell with a word about what it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from acceptd.cli.common import console, end_in_order, progress_console
from acceptd.report.escape import line

if TYPE_CHECKING:
    from acceptd.local import Bench
    from acceptd.rules import Rules

_WIDTH: Final = 10
app = typer.Typer(help="Make a bundle: init, vectors, lock, pack.", no_args_is_help=True)


def rules_of(state: Path) -> Rules:
    """Return the operator's rules, or those that are shipped."""
    from acceptd.config import load_settings, policies_directory
    from acceptd.rules import load_rules

    settings = load_settings(state)
    return load_rules(policies_directory(settings), settings.policy)


@contextmanager
def desk(rules: Rules, doing: str) -> Iterator[Bench]:
    """Yield a place with a warm cell; on a terminal ``doing`` shows at once."""
    end_in_order()
    with progress_console().status(f"{doing} …"):
        from acceptd import local

        with local.bench(rules, cores=1, suite=False) as bench:
            yield bench


def row(head: str, text: str) -> None:
    """Print one line below a result; what is folded keeps its column."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", width=_WIDTH, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(f"  {head}"), Text(text))
    console().print(table)


def commands(lines: Sequence[str]) -> None:
    """Print what to do next, each command on one line of the terminal's own, so that it can be copied."""
    for number, text in enumerate(lines):
        head = "" if number else "  next"
        console().print(f"{head:<{_WIDTH}} {line(text, 4000)}", soft_wrap=True)
