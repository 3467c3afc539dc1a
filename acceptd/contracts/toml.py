"""A contract as TOML text that a person edits. A submitter's name stays one quoted text. Pure.

TOML 1.0: basic strings escape the quotation mark, the backslash and control characters; ``\\uXXXX`` and
``\\UXXXXXXXX`` take Unicode scalar values alone. What is not printable is escaped as well, so that no invisible or
bidirectional character is read past. Names are never put into comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acceptd.errors import MalformedError

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHORT: Final = 90
"""Characters of a list that stay on one line."""
Comments = Mapping[str, Sequence[str]]
"""Lines above a key or table, by its place with indices: ``ceilings.load_ms``, ``models[0].outputs[1]``."""


def quoted(text: str) -> str:
    """Return a basic string. Raises MalformedError for text that is no Unicode (a lone surrogate)."""
    return f'"{"".join(map(_character, text))}"'


def _character(char: str) -> str:
    if char in {'"', "\\"}:
        return f"\\{char}"
    if char.isprintable():
        return char
    point = ord(char)
    if 0xD800 <= point <= 0xDFFF:
        raise MalformedError(f"a name holds the lone surrogate U+{point:04X}, which TOML cannot express")
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"


def key(name: str) -> str:
    """Return a key, quoted where it has to be."""
    return name if _BARE.fullmatch(name) else quoted(name)


def value(given: Any, indent: str = "") -> str:
    """Return a value: text, number, boolean, list or inline table. None has no form in TOML."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, str):
        return quoted(given)
    if isinstance(given, int):
        return str(given)
    if isinstance(given, float):
        if not math.isfinite(given):
            return "nan" if math.isnan(given) else "inf" if given > 0 else "-inf"
        return repr(given)
    if isinstance(given, Mapping):
        inside = ", ".join(
            f"{key(name)} = {value(item)}" for name, item in given.items() if item is not None and item != {}
        )
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(given, Sequence):
        items = [value(item) for item in given]
        if sum(map(len, items)) + 2 * len(items) <= _SHORT:
            return f"[{', '.join(items)}]"
        return "[\n" + "".join(f"{indent}    {item},\n" for item in items) + f"{indent}]"
    raise TypeError(f"no TOML for {type(given).__name__}")


def contract_text(document: Mapping[str, Any], comments: Comments, head: Sequence[str]) -> str:
    """Return the text of a contract's JSON form; values of None and empty tables are left out.

    ``head`` are comment lines at the top. What is told of a key that is not there stands where it would.
    """
    lines = [f"# {one}".rstrip() for one in head]
    lines += ["", *pairs(document, comments, "", skip=("dims", "ceilings", "models"))]
    for number, (name, bounds) in enumerate(document.get("dims", {}).items()):
        told = [] if number else told_lines(comments, "dims")
        lines += ["", *told, f"[dims.{key(name)}]", *pairs(bounds, {}, "")]
    ceilings = document.get("ceilings") or {}
    if any(one is not None for one in ceilings.values()) or "ceilings" in comments:
        lines += ["", *told_lines(comments, "ceilings"), "[ceilings]", *pairs(ceilings, comments, "ceilings.")]
    for number, model in enumerate(document["models"]):
        lines += _model(model, comments, f"models[{number}]")
    return "\n".join(lines).strip("\n") + "\n"


def _model(model: Mapping[str, Any], comments: Comments, place: str) -> Iterator[str]:
    parts = ("inputs", "outputs", "heldout", "quality")
    yield from ("", *told_lines(comments, place), "[[models]]")
    yield from pairs(model, comments, f"{place}.", skip=parts)
    for part in ("inputs", "outputs"):
        if not model.get(part):
            yield f"{part} = []"  # a key of the model, so before any table below it
    for part in parts:
        yield from told_lines(comments, f"{place}.{part}")
        for index, one in enumerate(model.get(part) or ()):
            within = f"{place}.{part}[{index}]"
            yield from ("", *told_lines(comments, within), f"[[models.{part}]]")
            yield from pairs(one, comments, f"{within}.")


def pairs(table: Mapping[str, Any], comments: Comments, place: str, skip: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table's own keys, with what is told of each; ``skip`` is left to the caller."""
    for name, item in table.items():
        if name in skip:
            continue
        yield from told_lines(comments, f"{place}{name}")
        if item is not None and item != {}:
            yield f"{key(name)} = {value(item)}"


def told_lines(comments: Comments, place: str) -> Iterator[str]:
    """Yield the comment lines of a place; an empty text is an empty line."""
    for one in comments.get(place, ()):
        yield f"# {one}".rstrip() if one else ""
