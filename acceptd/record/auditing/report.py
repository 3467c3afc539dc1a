"""What an audit came to: differences, each with its place, and the head over the leaves as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acceptd.record import merkle
from acceptd.record.database import FILE_NAME
from acceptd.record.log import TreeHead

MAX_DIFFERENCES: Final = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it must be.

    ``what`` is ``database``, ``entry``, ``tree``, ``checkpoint``, ``statement``, ``projection``,
    ``queue``, ``evidence`` or ``keys``; ``where`` the entry, row or file.
    """

    what: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit came to: the head over the leaves as they are, recomputed, and the differences."""

    head: TreeHead
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A signed checkpoint that was kept outside the state directory, and where."""

    place: str
    note: bytes


class Report:
    """The differences found so far, at most MAX_DIFFERENCES of them."""

    def __init__(self) -> None:
        self.found: list[Difference] = []
        self.head = TreeHead(0, merkle.EMPTY_ROOT)

    def audit(self) -> Audit:
        return Audit(self.head, tuple(self.found))

    def merge(self, came: Mapping[str, Any]) -> None:
        """Take over the differences of one part, and that it could not be done."""
        for what, where, message in came["differences"]:
            self.add(what, where, message)
        if "error" in came and not any(one.message == came["error"] for one in self.found):
            self.add("database", FILE_NAME, came["error"])

    def add(self, what: str, where: str, message: object) -> None:
        if len(self.found) < MAX_DIFFERENCES:
            self.found.append(Difference(what, where, str(message)))
        elif len(self.found) == MAX_DIFFERENCES:
            more = f"more than {MAX_DIFFERENCES} differences; the rest is not listed"
            self.found.append(Difference("database", "", more))
