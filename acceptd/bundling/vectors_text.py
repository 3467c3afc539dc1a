"""A ``[[models.vectors]]`` table for a ``bundle.toml``, added as text without parsing anything. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from acceptd.contracts.toml import quoted, value

WANTED: Final = "FILL IN: golden sets. `acceptd bundle vectors` makes them and adds the table here."
"""What ``init`` writes where there are none."""
_HEADER: Final = re.compile(r"\s*\[")
_MODEL: Final = re.compile(r"\s*\[\[\s*models\s*\]\]")
_BELOW: Final = re.compile(r"\s*\[{1,2}\s*models\s*\.")
_COMMENT: Final = re.compile(r"\s*(#.*)?", re.DOTALL)


def table(sets: Sequence[str], origin: str, told: Sequence[str]) -> list[str]:
    """Return the lines of the table; ``told`` are lines of our own words above it."""
    return [
        *(f"# {one}" for one in told),
        "[[models.vectors]]",
        *f"sets = {value(list(sets))}".split("\n"),
        f"origin = {quoted(origin)}",
    ]


def with_table(text: str, made: Sequence[str], model: int) -> str:
    """Return ``text`` with the lines ``made`` after all that belongs to the model of that number, from 0 on.

    Where its header is not found they come to the end, which is right for the last model.
    """
    end = "\r" if "\r\n" in text else ""
    lines = text.rstrip("\r\n").split("\n")
    if end:
        lines = [one.removesuffix(end) for one in lines]
    at = _end_of(lines, model)
    head = [one for one in lines[:at] if one.strip() != f"# {WANTED}"]
    while head and not head[-1].strip():
        head.pop()
    rest = lines[at:]
    while rest and not rest[0].strip():
        rest.pop(0)
    whole = [*head, "", *made, *(["", *rest] if rest else [])]
    return "".join(f"{one}{end}\n" for one in whole)


def _end_of(lines: Sequence[str], model: int) -> int:
    """Return where the tables of a model end: before comments that belong to the next table."""
    seen = -1
    for number, one in enumerate(lines):
        if not _HEADER.match(one):
            continue
        if seen == model and not _BELOW.match(one):
            at = number
            while at and _COMMENT.fullmatch(lines[at - 1]) and lines[at - 1].strip() != f"# {WANTED}":
                at -= 1
            return at
        seen += bool(_MODEL.match(one))
    return len(lines)
