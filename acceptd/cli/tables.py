"""Tables for people: no id is cut or folded, on a narrow screen neither."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acceptd.report.escape import line

GAP: Final = 2
LIMIT: Final = 400


def print_table(out: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """Print rows as a table that folds between words only; where it has no room for the words, as blocks of lines.

    A submission, a model or a digest is a word: what the next command needs can be copied. ``empty`` is printed
    where there is no row.
    """
    cells = [[line("" if cell is None else cell, LIMIT) for cell in row] for row in rows]
    if not cells:
        out.print(empty, markup=False)
        return
    widths = _widths(out.width, columns, cells)
    if widths is None:
        _print_blocks(out, columns, cells)
        return
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=width)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)


def _widths(room: int, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int] | None:
    """Return each column's width, none narrower than its longest word; None where there is no room for that."""
    every = [[column, *(row[at] for row in cells)] for at, column in enumerate(columns)]
    wished = [max(cell_len(cell) for cell in column) for column in every]
    least = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in every]
    left = room - GAP * (len(columns) - 1) - sum(least)
    if left < 0:
        return None
    widths = list(least)
    # Those that want little first: a column of two short words is not folded for the sake of a long reason.
    for at in sorted(range(len(columns)), key=lambda at: wished[at] - least[at]):
        more = min(wished[at] - least[at], left)
        widths[at] += more
        left -= more
    return widths


def _print_blocks(out: Console, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as lines ``column  cell``, the first at the margin; a line is never folded."""
    widest = max(map(cell_len, columns))
    for row in cells:
        for at, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if cell:
                label = f"{'' if not at else '  '}{column}".ljust(widest + 2)
                out.print(f"{label}  {cell}", markup=False, soft_wrap=True)


def print_pairs(out: Console, pairs: Sequence[tuple[str, Any]], *, width: int = 0) -> None:
    """Print lines ``name  value`` in two columns; a long value is folded between words, below its own beginning.

    A value of one word, a path or a digest, is never folded: it can be copied. ``width`` is the names' least.
    """
    cells = [(line(name, 60), line(value, LIMIT)) for name, value in pairs]
    widest = max((*map(cell_len, (name for name, _ in cells)), width), default=width)
    for name, value in cells:
        head = name.ljust(widest + GAP)
        room = max(out.width - cell_len(head), 20)
        rows = [value] if " " not in value else wrap(value, room, break_long_words=False, break_on_hyphens=False)
        for at, text in enumerate(rows or [""]):
            lead = head if not at else " " * len(head)
            out.print(f"{lead}{text}".rstrip(), markup=False, soft_wrap=True)
