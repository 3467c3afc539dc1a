"""Which sentences the source can say: each text and f-string of acceptd and the sandbox, as a pattern."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LEAST = 4
"""Letters that a sentence must have of its own to be one."""
INSIDE = 12
"""Letters that a sentence must have to be looked for inside a longer message."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A pattern, the longest of its own parts (looked for first, as that is quicker), and its own letters."""

    pattern: re.Pattern[str]
    longest: str
    letters: int


def sources() -> list[Path]:
    """Return the files whose sentences findings are made of. Tables of codes and lists of some are none."""
    rooms = (
        "judge",
        "compare",
        "intake",
        "contracts",
        "advisories",
        "cell",
        "policy",
        "runtime",
        "steps",
        "fleet",
    )
    found = [*HERE.glob("acceptd/*.py"), *HERE.glob("sandbox/**/*.py")]
    found += [path for room in rooms for path in HERE.glob(f"acceptd/{room}/**/*.py")]
    tables = {"codes.py", "selftest_bundles.py"}
    return sorted(path for path in found if "catalogue" not in path.parts and path.name not in tables)


@cache
def sentences() -> tuple[Sentence, ...]:
    """Return what the source can say in findings, most letters first."""
    found: dict[str, Sentence] = {}
    for path in sources():
        for parts in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            own = [part for part in parts if part]
            letters = sum(char.isalpha() for part in own for char in part)
            if letters >= LEAST:
                text = "".join(".*" if part is None else re.escape(part) for part in parts)
                found[text] = Sentence(re.compile(text, re.DOTALL), max(own, key=len), letters)
    return tuple(sorted(found.values(), key=lambda one: (-one.letters, one.pattern.pattern)))


def _texts(tree: ast.AST) -> Iterator[list[str | None]]:
    """Yield texts as lists of parts, None for what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield [node.value]
            if "{" in node.value:
                yield _filled(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield [str(one.value) if isinstance(one, ast.Constant) else None for one in node.values]


def _filled(text: str) -> list[str | None]:
    """Split what ``str.format`` will fill."""
    parts: list[str | None] = []
    for number, part in enumerate(re.split(r"\{[^}]*\}", text)):
        parts += [None, part] if number else [part]
    return parts


def letters(message: str) -> int:
    """Return how many letters of ``message`` are the source's own in the sentence that it fits best; 0: none.

    A message that is put together of several sentences fits the longest of them that it holds.
    """
    near = [one for one in sentences() if one.longest in message]
    whole = next((one.letters for one in near if one.pattern.fullmatch(message)), 0)
    return whole or next((one.letters for one in near if one.letters >= INSIDE and one.pattern.search(message)), 0)
