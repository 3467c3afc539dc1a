"""The projections against what the entries say.

A verdict's rows follow from its entry alone and are compared beside it. Releases and revocations follow from
several entries in their order: they are made anew in SQLite's temporary file and compared at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from acceptd.errors import LedgerError
from acceptd.record import projections, tables
from acceptd.record.auditing import quick
from acceptd.record.auditing.report import Report
from acceptd.record.auditing.source import count

EVENTS: Final = projections.TYPES - {"verdict"}
"""Entry types that releases and revocations follow from."""
MAX_SHOWN: Final = 20
"""Rows that differ, shown for each table; the rest is as wrong."""

_STALE: Final = "is not what the entries say"
_MISSING: Final = "is due and not there, or not so"
_FIELDS: Final = ("model", "channel", "number", "digest", "kind", "reason", "verdict_seq")
_COLUMNS: Final = {table.name: [column.name for column in table.columns] for table in tables.STORED.all()}
_COUNTED: Final = "(SELECT count(*) FROM findings f WHERE f.submission = e.submission)"
BESIDE: Final = ", ".join(
    [*(f"v.{name}" for name in _COLUMNS["verdicts"]), f"CASE e.type WHEN 'verdict' THEN {_COUNTED} END"]
)
"""What a query of ``entries e`` with :data:`JOIN` tells of each verdict's rows, for :func:`check_verdict`."""
JOIN: Final = "LEFT JOIN verdicts v ON e.type = 'verdict' AND v.submission = e.submission"
_VERDICT: Final = f"SELECT {', '.join(_COLUMNS['verdicts'])} FROM verdicts WHERE submission = ?"  # noqa: S608
_FINDINGS: Final = f"SELECT {', '.join(_COLUMNS['findings'])} FROM findings WHERE submission = ? ORDER BY position"  # noqa: S608


def check_verdict(
    raw: sqlite3.Connection,
    seq: int,
    submission: str | None,
    body: Mapping[str, Any],
    joined: tuple[Any, ...] | None,
    report: Report,
) -> tuple[int, int]:
    """Compare the rows of one verdict; return how many of ``verdicts`` and of ``findings`` stand for it.

    ``joined`` is what :data:`BESIDE` told of the entry, None where that may not be its own.
    """
    due = projections.verdict_values(submission, seq, body)  # in the order of the table: a test says so
    stored = raw.execute(_VERDICT, (submission,)).fetchone() if joined is None else joined[:-1]
    if stored is not None and stored[0] is None:
        stored = None  # SQLite's way to join nothing
    if stored != due:
        word = _MISSING if stored is None else _STALE
        report.add("projection", f"verdicts: submission={submission}", word)
    if joined is not None and joined[-1] == 0 and not body["findings"]:
        return int(stored is not None), 0
    rows = projections.finding_values(submission, body["findings"], quick.written)
    there = raw.execute(_FINDINGS, (submission,)).fetchall()
    if rows != there:
        _differing({row[1]: row for row in rows}, {row[1]: row for row in there}, submission, report)
    return int(stored is not None), len(there)


def _differing(
    due: Mapping[int, tuple[Any, ...]],
    there: Mapping[int, tuple[Any, ...]],
    submission: str | None,
    report: Report,
) -> None:
    for position in sorted(due.keys() | there.keys(), key=str)[: MAX_SHOWN * 10]:
        if due.get(position) != there.get(position):
            where = f"findings: submission={submission}, position={position}"
            report.add("projection", where, _STALE if position in there else _MISSING)


def event(kind: str, seq: int, at: str, body: Mapping[str, Any]) -> list[Any]:
    """Return what a release or a revocation takes from an entry, as plain JSON."""
    return [kind, seq, at, {name: body[name] for name in _FIELDS if name in body}]


class Beside:
    """Releases and revocations, made anew beside the stored ones on one connection."""

    def __init__(self, raw: sqlite3.Connection, report: Report) -> None:
        self._raw = raw
        self._report = report
        self.verdicts = self.findings = 0
        """Rows that stand for an entry."""
        self._broken = False
        _, self._fresh = tables.fresh_projection()
        for table in (self._fresh.releases, self._fresh.revocations):
            raw.execute(f"DROP TABLE IF EXISTS temp.{table.name}")
            raw.execute(str(CreateTable(table).compile(dialect=_DIALECT)))
        # A channel may have many releases; one is active.
        active = f"{self._fresh.releases.name} (model, channel) WHERE state = 'active'"
        raw.execute(f"CREATE INDEX temp.fresh_active ON {active}")
        self._sql: dict[Any, tuple[str, dict[str, Any]]] = {}

    def take(self, came: dict[str, Any]) -> None:
        """Bring the rows up to the entries of one part."""
        self.verdicts += came.get("verdicts", 0)
        self.findings += came.get("findings", 0)
        if "error" in came:
            self._broken = True
        for kind, seq, at, body in came.get("releases", ()):
            if self._broken:
                return
            try:
                self._apply(projections.changes(self._fresh, kind, seq, at, body))
            except (LedgerError, sqlite3.IntegrityError) as error:
                self._report.add("projection", "", f"cannot be rebuilt to compare, from entry {seq} on: {error}")
                self._broken = True

    def _apply(self, changes: Iterable[projections.Change]) -> None:
        for change in changes:
            known = self._sql.get(change.statement)
            if known is None:
                known = self._sql[change.statement] = projections.plain_sql(change)
            changed = self._raw.execute(known[0], known[1] | change.values).rowcount
            if change.refusal and changed != 1:
                raise LedgerError(change.refusal)

    def finish(self) -> None:
        """Compare, in the snapshot that stands."""
        if self._broken:
            return
        for table, seen in (("verdicts", self.verdicts), ("findings", self.findings)):
            if count(self._raw, f"SELECT count(*) FROM {table}") != seen:  # noqa: S608 - names of ours
                self._strays(table)
        for stored, due in (
            (tables.STORED.releases, self._fresh.releases),
            (tables.STORED.revocations, self._fresh.revocations),
        ):
            keys = [column.name for column in stored.primary_key]
            for one, other, word in ((stored.name, due.name, _STALE), (due.name, stored.name, _MISSING)):
                same = " AND ".join(f"b.{name} IS a.{name}" for name in _COLUMNS[stored.name])
                near = " AND ".join(f"b.{name} = a.{name}" for name in keys)
                query = (
                    f"SELECT {', '.join(f'a.{name}' for name in keys)} FROM {one} a WHERE NOT EXISTS "  # noqa: S608
                    f"(SELECT 1 FROM {other} b WHERE {near} AND {same}) LIMIT {MAX_SHOWN}"
                )
                for row in self._raw.execute(query):
                    self._report.add("projection", f"{stored.name}: {_named(keys, row)}", word)

    def _strays(self, table: str) -> None:
        """Rows that stand for no entry. Asked only where the count is not right."""
        keys = ["submission"] if table == "verdicts" else ["submission", "position"]
        query = (
            f"SELECT {', '.join(keys)} FROM {table} a WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE "  # noqa: S608
            f"e.submission = a.submission AND e.type = 'verdict') LIMIT {MAX_SHOWN}"
        )
        for row in self._raw.execute(query):
            self._report.add("projection", f"{table}: {_named(keys, row)}", _STALE)


def _named(keys: list[str], row: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(keys, row, strict=True))


_DIALECT: Final = sqlite.dialect(paramstyle="named")
