"""Every entry in one pass: the tree over them, their evidence, and what checkpoints claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, select

from acceptd.errors import LedgerError, LoaderError
from acceptd.record import checkpoint, merkle, tables
from acceptd.record.auditing.entries import check_entry
from acceptd.record.auditing.report import PAGE, Kept, Report
from acceptd.record.keys import Keyring
from acceptd.record.log import Ledger, TreeHead


class Claim(NamedTuple):
    """What a verified checkpoint says, and where it lay."""

    size: int
    root: bytes
    place: str


def own_claims(state: Path, ledger: Ledger, keyring: Keyring | None, report: Report) -> list[Claim]:
    """Return what the state directory's checkpoints claim; report those that do not verify."""
    claims: list[Claim] = []
    if keyring is None:
        return claims
    for size in checkpoint.sizes(state):
        try:
            claims.append(Claim(size, checkpoint.read(state, size, keyring, ledger.origin).root, f"size {size}"))
        except LedgerError as error:
            if size in checkpoint.sizes(state):  # else it was pruned meanwhile
                report.add("checkpoint", f"size {size}", error)
    return claims


def outside_claims(kept: Sequence[Kept], ledger: Ledger, keyring: Keyring | None, report: Report) -> list[Claim]:
    claims: list[Claim] = []
    if keyring is None:
        return claims
    for one in kept:
        try:
            found = checkpoint.verify(one.note, keyring, ledger.origin)
        except LoaderError as error:
            report.add("checkpoint", one.place, error)
        else:
            claims.append(Claim(found.size, found.root, one.place))
    return claims


def check_entries(claims: Sequence[Claim], ledger: Ledger, keyring: Keyring | None, report: Report) -> None:
    """Every entry, the tree over them, their statements, and what checkpoints claim, in one pass."""
    roots: dict[int, list[Claim]] = {}
    for claim in claims:
        roots.setdefault(claim.size, []).append(claim)
    frontier, whole = merkle.Frontier(), True
    with ledger.reading() as connection:
        for page in _pages(connection):
            first, due, bound = frontier.size, [], {}
            for row in page:
                if whole and row.seq != frontier.size:
                    report.add("entry", f"entry {frontier.size}", f"is missing: entry {row.seq} follows")
                    whole = False  # what comes after a gap has another tree; one difference says it
                leaf = row.leaf if isinstance(row.leaf, bytes) else b""
                if evidence := check_entry(row, leaf, ledger.origin, keyring, report):
                    bound[row.seq] = evidence
                frontier, completed = frontier.append(merkle.leaf_hash(leaf))
                due += completed
                for claim in roots.pop(frontier.size, ()):
                    if claim.root != frontier.root():
                        report.add("checkpoint", claim.place, "its root is not that of the entries")
            _bound(connection, bound, report)
            if whole:
                _nodes(connection, first, frontier.size, due, report)
        stored = connection.execute(select(func.count()).select_from(tables.nodes)).scalar()
    report.head = TreeHead(frontier.size, frontier.root())
    if stored != frontier.size - len(frontier.hashes):
        report.add("tree", "nodes", f"{stored} nodes are stored for {frontier.size} entries")
    for claim in (one for size in sorted(roots) for one in roots[size]):
        message = f"of {claim.size} entries; the log has {frontier.size}: cut, or an older backup"
        report.add("checkpoint", claim.place, message)


def _pages(connection: Connection) -> Iterator[list[Row[Any]]]:
    columns = tables.entries.c
    after = -1
    while True:
        query = select(tables.entries).where(columns.seq > after).order_by(columns.seq).limit(PAGE)
        page = list(connection.execute(query))
        if not page:
            return
        yield page
        after = page[-1].seq


def _bound(connection: Connection, bound: dict[int, str], report: Report) -> None:
    """What an entry binds is there; that its bytes are right, the evidence's own check says."""
    column = tables.evidence.c.digest
    there = set(connection.execute(select(column).where(column.in_(bound.values()))).scalars())
    for seq, digest_ in bound.items():
        if digest_ not in there:
            report.add("evidence", digest_, f"is missing, and entry {seq} rests on it")


def _nodes(connection: Connection, first: int, size: int, due: list[merkle.Node], report: Report) -> None:
    """Compare the stored nodes that the leaves [first, size) complete with the computed ones."""
    columns = tables.nodes.c
    levels: dict[int, dict[int, bytes]] = {}
    for node in due:
        levels.setdefault(node.level, {})[node.index] = node.hash
    for level, computed in levels.items():
        rows = connection.execute(
            select(columns.idx, columns.hash).where(
                columns.level == level, columns.idx >= first >> level, columns.idx < size >> level
            )
        )
        stored = {row.idx: row.hash for row in rows}
        for index, value in computed.items():
            if stored.get(index) != value:
                word = "differs from its entries" if index in stored else "is missing"
                report.add("tree", f"node {index} of level {level}", word)
