"""The ``[files]`` table of a ``bundle.toml`` as text: replaced or added without parsing anything. Pure.

Whether the lines that look like headers are headers (and not part of a long text) is not decided here: a job reads
the result, and only the manifest that was meant is written (docs/decisions/0052).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from acceptd.contracts.toml import quoted
from acceptd.sealed_facts import BundleFile

MARK: Final = "# Every file but bundle.toml, by size and SHA-256. `acceptd bundle lock` writes this table."
_HEADER: Final = re.compile(r"\s*\[")
_OWN: Final = re.compile(r"""\s*\[\s*(files|"files"|'files')\s*(\]|\.)""")
_COMMENT: Final = re.compile(r"\s*(#.*)?", re.DOTALL)


def table(files: Sequence[BundleFile], kept: Sequence[str] = ()) -> list[str]:
    """Return the lines of the table; ``kept`` are comment lines of the one before."""
    rows = [f'{quoted(one.path)} = {{ size = {one.size}, sha256 = "{one.sha256}" }}' for one in files]
    return ["[files]", MARK, *kept, *rows]


def locked(text: str, files: Sequence[BundleFile]) -> str:
    """Return ``text`` with the table for ``files`` in the place of its own one, else at its end.

    All other lines stay as they are, byte for byte; of the old table its comments stay.
    """
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.split("\n")
    found = _own(lines)
    if not found:
        head = text.rstrip("\r\n")
        return f"{head}{ending}{ending}" + "".join(f"{one}{ending}" for one in table(files))
    first = found[0][0]
    kept = [
        stripped
        for start, end in found
        for one in lines[start:end]
        if (stripped := one.strip()).startswith("#") and stripped != MARK
    ]
    gone = {number for start, end in found for number in range(start, end)}
    end = ending.removesuffix("\n")
    made = [f"{one}{end}" for one in table(files, kept)]
    rest = [one for number, one in enumerate(lines) if number >= first and number not in gone]
    # What comes after keeps a line between; at the end of the file there is one end of line.
    after = rest if any(one.strip() for one in rest) else [""]
    return "\n".join([*lines[:first], *made, *after])


def _own(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return [start, end) of each stretch of lines that are of the table or of tables below it.

    What stands between its last key and the next header belongs to the latter.
    """
    found: list[tuple[int, int]] = []
    start = -1
    for number, one in enumerate([*lines, "["]):
        if not _HEADER.match(one):
            continue
        if start >= 0:
            found.append((start, _trimmed(lines, start, number)))
        start = number if number < len(lines) and _OWN.match(one) else -1
    return found


def _trimmed(lines: Sequence[str], start: int, end: int) -> int:
    while end > start + 1 and _COMMENT.fullmatch(lines[end - 1]) and lines[end - 1].strip() != MARK:
        end -= 1
    return end
