"""The tree over all parts, held against stored nodes and against what signed checkpoints claim."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acceptd.errors import LedgerError, LoaderError
from acceptd.record import checkpoint, merkle
from acceptd.record.auditing.entries import check_clock
from acceptd.record.auditing.parts import Part
from acceptd.record.auditing.report import Kept, Report
from acceptd.record.auditing.source import count
from acceptd.record.keys import Offices
from acceptd.record.log import TreeHead


class Claim(NamedTuple):
    """What a verified checkpoint says, and where it lay."""

    size: int
    root: bytes
    place: str


def own_claims(state: Path, origin: str, keys: Offices | None, report: Report) -> list[Claim]:
    """Return what the state directory's checkpoints claim; report those that do not verify."""
    claims: list[Claim] = []
    if keys is None:
        return claims
    for size in checkpoint.sizes(state):
        try:
            claims.append(Claim(size, checkpoint.read(state, size, keys, origin).root, f"size {size}"))
        except LedgerError as error:
            if size in checkpoint.sizes(state):  # else it was pruned meanwhile
                report.add("checkpoint", f"size {size}", error)
    return claims


def outside_claims(kept: Sequence[Kept], origin: str, keys: Offices | None, report: Report) -> list[Claim]:
    """Return what the checkpoints that were kept elsewhere claim; report those that do not verify."""
    claims: list[Claim] = []
    if keys is None:
        return claims
    for one in kept:
        try:
            found = checkpoint.verify(one.note, keys, origin)
        except LoaderError as error:
            report.add("checkpoint", one.place, error)
        else:
            claims.append(Claim(found.size, found.root, one.place))
    return claims


class Tree:
    """The frontier as parts come in, in their order."""

    def __init__(self, claims: Sequence[Claim], report: Report) -> None:
        self.frontier = merkle.Frontier()
        self.whole = True
        """No gap so far, and every part could be read."""
        self._readable = True
        self._last = ""
        self._claims = sorted(claims)
        self._report = report

    def part(self, first: int, end: int) -> Part:
        """Return the part of the entries [first, end)."""
        sizes = {claim.size for claim in self._claims}
        return Part("entries", first, end, tuple(sorted(size for size in sizes if first < size <= end)))

    def take(self, raw: sqlite3.Connection, part: Part, came: dict[str, Any]) -> None:
        """Join what the entries of one part came to."""
        if "error" in came:
            self.whole = self._readable = False
        else:
            if self._last and came["first"]:
                check_clock(self._last, part.first, came["first"], self._report)
            self._last = came["last"] or self._last
        if not self.whole:
            return
        for claim in self._claims:
            if str(claim.size) in came["marks"]:
                there, _ = self._joined(part.first, claim.size, came["marks"][str(claim.size)])
                if there.root() != claim.root:
                    self._report.add("checkpoint", claim.place, "its root is not that of the entries")
        self.frontier, completed = self._joined(part.first, part.first + came["size"], came["hashes"])
        self.whole = bool(came["whole"])
        for node in completed:
            query = "SELECT hash FROM nodes WHERE level = ? AND idx = ?"
            stored = raw.execute(query, (node.level, node.index)).fetchone()
            if stored is None or stored[0] != node.hash:
                word = "is missing" if stored is None else "differs from its entries"
                self._report.add("tree", f"node {node.index} of level {node.level}", word)

    def _joined(self, first: int, size: int, hashes: list[str]) -> tuple[merkle.Frontier, list[merkle.Node]]:
        found, completed = self.frontier, []
        for (level, _), one in zip(merkle.perfect_subtrees(first, size), hashes, strict=True):
            found, more = found.join(level, bytes.fromhex(one))
            completed += more
        return found, completed

    def finish(self, raw: sqlite3.Connection) -> TreeHead:
        """Say what is left, in the snapshot that stands; return the head over the leaves before any gap."""
        size = self.frontier.size
        head = TreeHead(size, self.frontier.root())
        if not self._readable:
            return head
        beyond = "SELECT seq FROM entries WHERE seq < 0 OR seq >= ? ORDER BY seq LIMIT 20"
        rows = count(raw, "SELECT count(*) FROM entries")
        for (seq,) in raw.execute(beyond, (rows,)):
            self._report.add("entry", f"entry {seq}", f"stands outside a log of {rows} entries")
        if self.whole and (stored := count(raw, "SELECT count(*) FROM nodes")) != size - len(self.frontier.hashes):
            self._report.add("tree", "nodes", f"{stored} nodes are stored for {size} entries")
        for claim in self._claims:
            if claim.size > size:
                cut = f"of {claim.size} entries; the log has {rows}: cut, or an older backup"
                word = cut if claim.size > rows else "its root is not that of the entries"
                self._report.add("checkpoint", claim.place, word)
        return head
