"""An audit in parts that any process can do by itself, and what each comes to. What crosses is plain JSON."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from acceptd.errors import LedgerError
from acceptd.record.auditing import entries, kept, source, structure
from acceptd.record.auditing.report import Report
from acceptd.record.sqlite import translated
from acceptd.record.succession import History

LEAVES: Final = 1 << entries.LEVEL
"""Entries of one part: a perfect subtree, so that its root is all that the tree above needs."""
ROWS: Final = 512
"""Rows of the queue, or blobs, of one part."""


class Part(NamedTuple):
    """One piece of work: rows [first, end) of ``kind``, and at which sizes a checkpoint wants the tree."""

    kind: str
    first: int = 0
    end: int = 0
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What does a part: a connection, the log's name and the keys."""

    raw: sqlite3.Connection
    path: Path
    origin: str
    keys: History | None

    def do(self, part: Part) -> dict[str, Any]:
        """Return what the part came to, with ``differences``; ``error`` where the database cannot be read."""
        report = Report()
        came: dict[str, Any] = {}
        try:
            with translated(self.path), source.snapshot(self.raw):
                came = self.within(part, report)
        except LedgerError as error:
            came = {"error": str(error)}
        return came | {"differences": [[one.what, one.where, one.message] for one in report.found]}

    def within(self, part: Part, report: Report) -> dict[str, Any]:
        """Do the part in the snapshot that stands."""
        if part.kind == "entries":
            return entries.check_entries(
                self.raw, part.first, part.end, part.marks, self.origin, self.keys, report
            )
        if part.kind == "queue":
            kept.check_queue(self.raw, part.first, part.end, report)
        elif part.kind == "evidence":
            kept.check_evidence(self.raw, part.first, part.end, report)
        elif part.kind == "structure":
            structure.check_structure(self.raw, report)
        return {}
