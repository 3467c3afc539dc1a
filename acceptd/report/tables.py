"""Tables and code cells of the HTML report. Cells are markup already; whoever makes one has escaped it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from acceptd.report.escape import markup

ROWS: Final = 200
OPEN: Final = 24
"""Rows that are shown before the others are folded."""
BAD: Final = "\0"
"""Before a cell's markup: show it as bad. Escaped text never holds a NUL."""


def code(value: Any) -> str:
    return f"<code>{markup(value)}</code>"


def whole_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return every row, in tables of at most :data:`ROWS`: for a page whose point is the list."""
    numbers = tuple(right)
    return "".join(table(head, rows[start : start + ROWS], numbers) for start in range(0, len(rows), ROWS))


def table(
    head: Iterable[str], rows: Sequence[Sequence[str]], right: Iterable[int] = (), *, names: bool = True
) -> str:
    """Return a table of cells that are markup already; one that begins with BAD is a bad one.

    ``names``: the first cell of a row says what the row is about, and heads it.
    """
    titles, numbers = list(head), set(right)

    def cell(tag: str, column: int, content: str, scope: str = "") -> str:
        classes = ["right"] if column in numbers else []
        if content.startswith(BAD):
            classes.append("bad")
        attribute = f' class="{" ".join(classes)}"' if classes else ""
        about = f' scope="{scope}"' if scope else ""
        return f"<{tag}{about}{attribute}>{content.removeprefix(BAD)}</{tag}>"

    def whole(lines: Sequence[str]) -> str:
        # It may be wider than the screen, whatever its names are: then a keyboard has to reach it.
        return (
            f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead>'
            f"<tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table></div>"
        )

    top = "".join(
        cell("th", column, title, "col") if title else "<td></td>" for column, title in enumerate(titles)
    )
    lines = [
        "".join(
            cell("th", column, content, "row") if names and not column else cell("td", column, content)
            for column, content in enumerate(row)
        )
        for row in rows[:ROWS]
    ]
    shown = len(lines) if len(lines) <= OPEN + OPEN // 4 else OPEN
    rest = lines[shown:]
    folded = f"<details><summary>{len(rest)} more rows</summary>{whole(rest)}</details>" if rest else ""
    more = f'<p class="soft">and {len(rows) - ROWS} more</p>' if len(rows) > ROWS else ""
    return whole(lines[:shown]) + folded + more
