"""Where each key stands in a TOML file: line numbers for messages to the operator.

``tomllib`` keeps no positions, and neither does tomlkit (docs/decisions/0016). This walks text that
``tomllib`` has accepted already, so it only follows the grammar (TOML 1.0) and judges nothing; it is never
given a submitter's text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final

Place = tuple[str | int, ...]
"""A path of keys and, inside arrays, indices."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SPACE: Final = re.compile(r"[ \t]*")
_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_LONG: Final = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?\'{3,5}(?!\')', re.DOTALL)
_PLAIN: Final = re.compile(r"[^,\]}#\n]*")


def locate(text: str) -> dict[Place, int]:
    """Return the line, from 1, on which each table, key and array element of ``text`` first stands.

    ``text`` is valid TOML. Raises ValueError where it is not, as far as that is noticed.
    """
    walk = _Walk(text.replace("\r\n", "\n"))
    walk.document()
    return walk.lines


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """Return the line of ``place``, or of the nearest table around it; 1 where there is none."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


class _Walk:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text = text
        self._at = 0
        self._counted, self._line = 0, 1
        self._arrays: dict[Place, int] = {}
        """Arrays of tables, with the index of the newest table."""

    def document(self) -> None:
        table: Place = ()
        while True:
            self._skip(_TRIVIA)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise ValueError(f"not TOML at character {self._at}")
        self._at = found.end()
        return found[0]

    def _expect(self, word: str) -> None:
        if not self._text.startswith(word, self._at):
            raise ValueError(f"{word!r} expected at character {self._at}")
        self._at += len(word)

    def _mark(self, place: Place) -> None:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        for length in range(1, len(place) + 1):
            self.lines.setdefault(place[:length], self._line)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            first = self._text[self._at : self._at + 1]
            if first in {'"', "'"}:
                quoted = self._skip(_BASIC if first == '"' else _LITERAL)
                keys.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                keys.append(self._skip(_BARE))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _header(self) -> Place:
        array = self._text.startswith("[[", self._at)
        self._expect("[[" if array else "[")
        keys = self._keys()
        self._expect("]]" if array else "]")
        place: Place = ()
        for number, key in enumerate(keys):
            place = (*place, key)
            if array and number == len(keys) - 1:
                self._arrays[place] = self._arrays.get(place, -1) + 1
            if place in self._arrays:
                place = (*place, self._arrays[place])
        self._mark(place)
        return place

    def _pair(self, table: Place) -> None:
        place: Place = (*table, *self._keys())
        self._mark(place)
        self._expect("=")
        self._skip(_SPACE)
        self._value(place)

    def _value(self, place: Place) -> None:
        rest = self._text[self._at : self._at + 3]
        if rest in {'"""', "'''"}:
            self._skip(_LONG)
        elif rest.startswith('"'):
            self._skip(_BASIC)
        elif rest.startswith("'"):
            self._skip(_LITERAL)
        elif rest.startswith("["):
            self._array(place)
        elif rest.startswith("{"):
            self._inline(place)
        elif not self._skip(_PLAIN).strip():
            raise ValueError(f"a value expected at character {self._at}")

    def _array(self, place: Place) -> None:
        self._expect("[")
        index = 0
        while True:
            self._skip(_TRIVIA)
            if self._text.startswith("]", self._at):
                break
            self._mark((*place, index))
            self._value((*place, index))
            index += 1
            self._skip(_TRIVIA)
            if self._text.startswith(",", self._at):
                self._at += 1
        self._expect("]")

    def _inline(self, place: Place) -> None:
        self._expect("{")
        while True:
            self._skip(_TRIVIA)
            if self._text.startswith("}", self._at):
                break
            self._pair(place)
            self._skip(_TRIVIA)
            if self._text.startswith(",", self._at):
                self._at += 1
        self._expect("}")
