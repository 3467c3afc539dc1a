"""Tables and code cells of the HTML report. Cells are markup already; whoever makes one has escaped it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from acceptd.report.escape import markup

ROWS: Final = 200
BAD: Final = "\0"
"""Before a cell's markup: show it as bad. Escaped text never holds a NUL."""


def code(value: Any) -> str:
    return f"<code>{markup(value)}</code>"


def table(head: Iterable[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a table of cells that are markup already; one that begins with BAD is a bad one."""
    numbers = set(right)

    def cell(tag: str, column: int, content: str) -> str:
        classes = ["right"] if column in numbers else []
        if content.startswith(BAD):
            classes.append("bad")
        attribute = f' class="{" ".join(classes)}"' if classes else ""
        return f"<{tag}{attribute}>{content.removeprefix(BAD)}</{tag}>"

    top = "".join(cell("th", column, title) for column, title in enumerate(head))
    lines = ["".join(cell("td", column, content) for column, content in enumerate(row)) for row in rows[:ROWS]]
    more = f'<p class="soft">and {len(rows) - ROWS} more</p>' if len(rows) > ROWS else ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{more}'
