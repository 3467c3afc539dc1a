"""Blocks to HTML. Every value passes `report/escape.py`, then jinja's autoescape; no template can forget."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from acceptd.report.escape import line
from acceptd.web.blocks import Cell, Page

HERE: Final = Path(__file__).parent
NAVIGATION: Final = (
    ("Queue", "/"),
    ("Portfolio", "/portfolio"),
    ("Models", "/models"),
    ("Releases", "/releases"),
    ("Ledger", "/ledger"),
    ("Replay", "/replay"),
    ("Observe", "/observe"),
)
MOST_TEXT: Final = 20_000
_MOST_BRIEF: Final = 600
_TIGHT: Final = 28


@dataclass(frozen=True)
class Frame:
    """What stands around each page of one session."""

    log: str = ""
    word: str = ""
    inside: bool = False


def shown(value: Any) -> Any:
    """Return what a template prints of ``value``: controls, bidirectional and invisible characters as escapes."""
    if value is None:
        return ""
    return value if isinstance(value, Markup | int | float) else line(value, MOST_TEXT)


def tight(one: Any) -> bool:
    """Say whether a cell of a table is one word, short enough to stay on one line."""
    text = str(one.text if isinstance(one, Cell) else one)
    return len(text) <= _TIGHT and " " not in text.strip()


def ticked(value: Any) -> Markup:
    """Return a sentence with what stands between backticks as code; escaped as every value is."""
    parts = line(value, MOST_TEXT).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


@functools.cache
def environment() -> Any:
    """Return the templates' environment."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(navigation=NAVIGATION, is_cell=lambda one: isinstance(one, Cell), tight=tight)
    made.filters["ticked"] = ticked
    made.filters["brief"] = lambda value: line("" if value is None else value, _MOST_BRIEF)
    return made


def html(page: Page, frame: Frame) -> str:
    """Return the page as HTML."""
    made: str = environment().get_template("page.html").render(page=page, frame=frame)
    return made


@functools.cache
def style() -> bytes:
    """Return the style sheet: the report's colours, and what the console's own pages need."""
    return (HERE / "static" / "console.css").read_bytes()
