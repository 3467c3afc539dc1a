"""The audit behind ``acceptd ledger verify``: recompute everything, trust nothing, say what differs and where.

It reads and never mends. Memory stays constant in the number of entries: they are read by pages,
the projections are rebuilt in SQLite's temporary file, and the differences reported are capped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, func, select

from acceptd.errors import AcceptdError, LedgerError, LoaderError, StateError
from acceptd.record import checkpoint, database, merkle, projections, tables
from acceptd.record.attest import statement_differences, verify_statement
from acceptd.record.canonical import digest, parse
from acceptd.record.entry import Entry, check_body, decode, unique_key
from acceptd.record.keys import Keyring, load_keyring
from acceptd.record.log import Ledger, TreeHead

MAX_DIFFERENCES: Final = 1000
_PAGE: Final = 1024


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


class _Report:
    """The differences found so far, at most MAX_DIFFERENCES of them."""

    def __init__(self) -> None:
        self.found: list[Difference] = []
        self.head = TreeHead(0, merkle.EMPTY_ROOT)

    def audit(self) -> Audit:
        return Audit(self.head, tuple(self.found))

    def add(self, what: str, where: str, message: object) -> None:
        if len(self.found) < MAX_DIFFERENCES:
            self.found.append(Difference(what, where, str(message)))
        elif len(self.found) == MAX_DIFFERENCES:
            more = f"more than {MAX_DIFFERENCES} differences; the rest is not listed"
            self.found.append(Difference("database", "", more))


def verify(state: Path, keyring: Keyring | None = None) -> list[Difference]:
    """Return every difference between the ledger of ``state`` and what it must be; empty when all is well.

    As :func:`examine`, without the head.
    """
    return list(examine(state, keyring).differences)


@dataclass(frozen=True, slots=True)
class Kept:
    """A signed checkpoint that was kept outside the state directory, and where."""

    place: str
    note: bytes


def examine(state: Path, keyring: Keyring | None = None, kept: Sequence[Kept] = ()) -> Audit:
    """Audit the ledger of ``state``, however damaged it is, against the checkpoints ``kept`` outside it.

    ``keyring`` is the auditor's own copy; without it the state directory's is used, which says less.
    Raises StateError only where there is no ledger to look at.
    """
    report = _Report()
    database.check_file(state / database.FILE_NAME)
    if keyring is None:
        try:
            keyring = load_keyring(state)
        except AcceptdError as error:
            report.add("keys", "keyring.json", error)
    try:
        ledger = Ledger.open(state, create=False, damaged=True)
    except (LedgerError, StateError) as error:
        report.add("database", database.FILE_NAME, error)
        return report.audit()
    with ledger:
        roots = _checkpoints(state, ledger, keyring, report) + _outside(kept, ledger, keyring, report)
        for check in (_database, partial(_entries, roots), _projections, _queue, _evidence):
            try:
                check(state, ledger, keyring, report)
            except LedgerError as error:
                report.add("database", database.FILE_NAME, error)
    return report.audit()


def _database(_state: Path, ledger: Ledger, _keyring: Keyring | None, report: _Report) -> None:
    """SQLite's own structure, and our triggers: an edit in place has to remove them first."""
    with ledger.reading() as connection:
        for (line,) in connection.exec_driver_sql("PRAGMA quick_check(20)"):
            if line != "ok":
                report.add("database", database.FILE_NAME, line)
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all()
    stored = {str(name): str(sql) for name, sql in rows}
    due = {trigger.split(maxsplit=3)[2]: trigger for trigger in tables.TRIGGERS}
    for name in sorted(stored.keys() | due.keys()):
        if name not in stored:
            report.add("database", f"trigger {name}", "is missing: the table can be edited in place")
        elif stored[name] != due.get(name):
            report.add("database", f"trigger {name}", "is not acceptd's")


def _entries(
    claims: Sequence[_Claim], _state: Path, ledger: Ledger, keyring: Keyring | None, report: _Report
) -> None:
    """Every entry, the tree over them, their statements, and what checkpoints claim, in one pass."""
    roots: dict[int, list[_Claim]] = {}
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
                if evidence := _entry(row, leaf, ledger.origin, keyring, report):
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


class _Claim(NamedTuple):
    """What a verified checkpoint says, and where it lay."""

    size: int
    root: bytes
    place: str


def _checkpoints(state: Path, ledger: Ledger, keyring: Keyring | None, report: _Report) -> list[_Claim]:
    """Return what the state directory's checkpoints claim; report those that do not verify."""
    claims: list[_Claim] = []
    if keyring is None:
        return claims
    for size in checkpoint.sizes(state):
        try:
            claims.append(_Claim(size, checkpoint.read(state, size, keyring, ledger.origin).root, f"size {size}"))
        except LedgerError as error:
            if size in checkpoint.sizes(state):  # else it was pruned meanwhile
                report.add("checkpoint", f"size {size}", error)
    return claims


def _outside(kept: Sequence[Kept], ledger: Ledger, keyring: Keyring | None, report: _Report) -> list[_Claim]:
    claims: list[_Claim] = []
    if keyring is None:
        return claims
    for one in kept:
        try:
            found = checkpoint.verify(one.note, keyring, ledger.origin)
        except LoaderError as error:
            report.add("checkpoint", one.place, error)
        else:
            claims.append(_Claim(found.size, found.root, one.place))
    return claims


def _pages(connection: Connection) -> Iterator[list[Row[Any]]]:
    columns = tables.entries.c
    after = -1
    while True:
        query = select(tables.entries).where(columns.seq > after).order_by(columns.seq).limit(_PAGE)
        page = list(connection.execute(query))
        if not page:
            return
        yield page
        after = page[-1].seq


def _entry(row: Row[Any], leaf: bytes, origin: str, keyring: Keyring | None, report: _Report) -> str:
    """Compare one entry with its columns; return the digest of the evidence that it binds, or nothing."""
    where = f"entry {row.seq}"
    if merkle.leaf_hash(leaf) != row.leaf_hash:
        report.add("entry", where, "its bytes are not those of its leaf hash")
    try:
        entry = decode(leaf, row.leaf_hash)
        check_body(entry.type, entry.submission, entry.body)
    except LedgerError as error:
        report.add("entry", where, error)
        return ""
    due = {
        "seq": entry.seq,
        "type": entry.type,
        "submission": entry.submission,
        "recorded_at": entry.at,
        "unique_key": unique_key(entry.type, entry.submission, entry.body),
    }
    for column, value in due.items():
        if row._mapping[column] != value:
            report.add(
                "entry", where, f"column {column} is {row._mapping[column]!r:.80}, its leaf says {value!r:.80}"
            )
    if row.seq == 0 and (entry.type != "log" or entry.body.get("origin") != origin):
        report.add("entry", where, f"is not the beginning of the log {origin}")
    if entry.type == "verdict" and keyring is not None:
        _statement(entry, keyring, report)
    return str(entry.body.get("evidence_digest") or "") if entry.type == "verdict" else ""


def _bound(connection: Connection, bound: dict[int, str], report: _Report) -> None:
    """What an entry binds is there; that its bytes are right, the evidence's own check says."""
    column = tables.evidence.c.digest
    there = set(connection.execute(select(column).where(column.in_(bound.values()))).scalars())
    for seq, digest_ in bound.items():
        if digest_ not in there:
            report.add("evidence", digest_, f"is missing, and entry {seq} rests on it")


def _statement(entry: Entry, keyring: Keyring, report: _Report) -> None:
    where = f"entry {entry.seq}"
    envelope = entry.body.get("statement")
    if envelope is None:
        report.add("statement", where, "the verdict has no signed statement")
        return
    try:
        value = verify_statement(envelope, keyring)
    except LoaderError as error:
        report.add("statement", where, error)
        return
    for difference in statement_differences(value, entry.submission, entry.body):
        report.add("statement", where, difference)


def _nodes(connection: Connection, first: int, size: int, due: list[merkle.Node], report: _Report) -> None:
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


def _projections(_state: Path, ledger: Ledger, _keyring: Keyring | None, report: _Report) -> None:
    try:
        with ledger.reading() as connection:
            size = connection.execute(select(func.max(tables.entries.c.seq))).scalar() or 0
            entries = _checked(ledger.entries(before=size + 1))
            for row in projections.differences(connection, entries):
                word = "is not what the entries say" if row.kind == "stale" else "is due and not there, or not so"
                report.add("projection", f"{row.table}: {row.key}", word)
    except LedgerError as error:
        report.add("projection", "", f"cannot be rebuilt to compare: {error}")


def _checked(entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        check_body(entry.type, entry.submission, entry.body)
        yield entry


def _queue(_state: Path, ledger: Ledger, _keyring: Keyring | None, report: _Report) -> None:
    """A submission that is done has a verdict, and what the queue keeps of it is what that verdict says."""
    queue, judged = tables.submissions.c, tables.verdicts.c
    query = (
        select(queue.id, queue.state, queue.data, queue.bundle_digest, queue.team, queue.model)
        .add_columns(judged.verdict, judged.bundle_digest.label("judged_digest"), judged.seq)
        .add_columns(judged.team.label("judged_team"), judged.model.label("judged_model"))
        .join_from(tables.submissions, tables.verdicts, queue.id == judged.submission, isouter=True)
        .order_by(queue.id)
        .limit(_PAGE)
    )
    after = ""
    while True:
        with ledger.reading() as connection:
            page = list(connection.execute(query.where(queue.id > after)))
        if not page:
            return
        for row in page:
            where, after = f"submission {row.id}", row.id
            if row.state == "done" and row.verdict is None:
                report.add("queue", where, "is done without a verdict")
            if row.judged_digest is not None and row.bundle_digest not in {None, row.judged_digest}:
                report.add("queue", where, f"holds bundle {row.bundle_digest!r:.80}, not the one that was judged")
            for key, kept, due in (("team", row.team, row.judged_team), ("model", row.model, row.judged_model)):
                if due is not None and kept not in {None, due}:
                    report.add("queue", where, f"is of the {key} {kept!r:.80}, its verdict says {due!r:.80}")
            try:
                data = parse(row.data.encode())
            except (LedgerError, AttributeError, UnicodeError) as error:
                report.add("queue", where, f"fields that cannot be read: {error}")
                continue
            if row.seq is not None and isinstance(data, dict):
                _kept(ledger, row.seq, data, where, report)


_AFTERWARDS: Final = frozenset({"drop", "release", "promotion_trouble"})
"""What a report gains after its verdict."""


def _kept(ledger: Ledger, seq: int, data: dict[str, Any], where: str, found: _Report) -> None:
    """What a promotion or a report takes from the queue must be what was judged."""
    try:
        body = ledger.entry(seq).body
    except LedgerError:
        return  # the entries' own check says it
    if data.get("verdict") not in {None, body.get("verdict")}:
        found.add("queue", where, f"holds the verdict {data['verdict']!r:.80}, its entry another")
    sealed, report = data.get("sealed"), data.get("document")
    if isinstance(sealed, dict) and sealed.get("digest") != body.get("bundle_digest"):
        found.add("queue", where, "holds the inventory of another bundle than was judged")
    if isinstance(report, dict) and "report_digest" in body:
        said = {key: value for key, value in report.items() if key not in _AFTERWARDS}
        if digest(said) != body["report_digest"]:
            found.add("queue", where, "holds another report than its verdict was recorded with")
    for what in ("manifest", "options", "profiles"):
        due = body.get(f"{what}_digest")
        if due is not None and data.get(what) is not None and digest(data[what]) != due:
            found.add("queue", where, f"holds another {what} than was judged")


def _evidence(_state: Path, ledger: Ledger, _keyring: Keyring | None, report: _Report) -> None:
    """Every blob is what its digest says; one at a time, for they may be large."""
    columns, after = tables.evidence.c, ""
    with ledger.reading() as connection:
        while True:
            query = select(columns.digest, columns.size, columns.data).where(columns.digest > after)
            row = connection.execute(query.order_by(columns.digest).limit(1)).first()
            if row is None:
                return
            data = row.data if isinstance(row.data, bytes) else b""
            if hashlib.sha256(data).hexdigest() != row.digest or len(data) != row.size:
                report.add("evidence", row.digest, "its bytes are not what its digest and size say")
            after = row.digest
