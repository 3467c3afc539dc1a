"""From entries to tables that people ask: verdicts, findings, releases, revocations.

Nothing here is true by itself: every row follows from the entries, in their order, and
:func:`rebuild` makes them anew. :func:`differences` compares them with a fresh rebuild.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, except_, insert, select, update

from acceptd.errors import LedgerError
from acceptd.record.canonical import canonical
from acceptd.record.entry import Entry, model_of
from acceptd.record.tables import STORED, Projection, fresh_projection

TYPES: Final = frozenset({"verdict", "intent", "activated", "abandoned", "revoked"})
"""Entry types that a projection follows from."""

MAX_SHOWN: Final = 20
"""Rows that differ, shown for each table; the rest is as wrong."""

_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A projected row that is not what the entries say: ``stale`` is stored only, ``missing`` is due only."""

    table: str
    key: str
    kind: str


def apply(connection: Connection, to: Projection, entry: Entry) -> None:
    """Bring the projection ``to`` from the entry before to this one. Types without a projection pass.

    Raises LedgerError where a release is activated or abandoned that has no intent.
    """
    if entry.type == "verdict":
        connection.execute(insert(to.verdicts), _verdict_row(entry))
        if rows := _finding_rows(entry):
            connection.execute(insert(to.findings), rows)
    elif entry.type == "intent":
        _intent(connection, to.releases, entry)
    elif entry.type == "activated":
        _activated(connection, to.releases, entry)
    elif entry.type == "abandoned":
        _change(connection, to.releases, entry, {"state": "abandoned"})
    elif entry.type == "revoked":
        _revoked(connection, to.revocations, entry)


def rebuild(connection: Connection, entries: Iterable[Entry]) -> None:
    """Make all projections anew from ``entries`` (all of them, in order), inside one write transaction."""
    for table in STORED.all():
        connection.execute(delete(table))
    _fill(connection, STORED, entries)


def differences(connection: Connection, entries: Iterable[Entry]) -> Iterator[RowDifference]:
    """Yield the rows in which the stored projections differ from a rebuild beside them.

    The rebuild lies in SQLite's temporary database (on disk), so memory stays constant.
    """
    beside, fresh = fresh_projection()
    beside.create_all(connection, checkfirst=False)
    try:
        _fill(connection, fresh, entries)
        for stored, due in zip(STORED.all(), fresh.all(), strict=True):
            yield from _rows(connection, stored, stored, due, "stale")
            yield from _rows(connection, stored, due, stored, "missing")
    finally:
        beside.drop_all(connection, checkfirst=False)


def _rows(connection: Connection, named: Table, one: Table, other: Table, kind: str) -> Iterator[RowDifference]:
    query = except_(select(one), select(other)).limit(MAX_SHOWN)
    names = [column.name for column in named.primary_key]
    for row in connection.execute(query).mappings().all():
        yield RowDifference(named.name, ", ".join(f"{name}={row[name]}" for name in names), kind)


def _fill(connection: Connection, to: Projection, entries: Iterable[Entry]) -> None:
    """Apply all ``entries``; verdicts, which depend on nothing before them, in batches."""
    verdicts: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []

    def flush() -> None:
        for table, rows in ((to.verdicts, verdicts), (to.findings, findings)):
            if rows:
                connection.execute(insert(table), rows)
                rows.clear()

    for entry in entries:
        if entry.type == "verdict":
            verdicts.append(_verdict_row(entry))
            findings.extend(_finding_rows(entry))
            if len(verdicts) + len(findings) >= _BATCH:
                flush()
        else:
            apply(connection, to, entry)
    flush()


def _verdict_row(entry: Entry) -> dict[str, Any]:
    body = entry.body
    return {
        "submission": entry.submission,
        "seq": entry.seq,
        "verdict": body["verdict"],
        "team": _text(body, "team"),
        "model": model_of(body),
        "bundle_digest": _text(body, "bundle_digest"),
        "policy_digest": _text(body, "policy_digest"),
        "judged_at": body["judged_at"],
        "reason": body["reason"],
    }


def _finding_rows(entry: Entry) -> list[dict[str, Any]]:
    return [
        {
            "submission": entry.submission,
            "position": position,
            "code": finding["code"],
            "severity": finding["severity"],
            "audience": finding["audience"],
            "stage": finding["stage"],
            "place": finding["where"],
            "message": finding["message"],
            "evidence": canonical(finding.get("evidence", {})).decode(),
            "count": count if type(count := finding.get("count", 1)) is int else 1,
        }
        for position, finding in enumerate(entry.body["findings"])
    ]


def _intent(connection: Connection, releases: Table, entry: Entry) -> None:
    body = entry.body
    row = {
        "model": body["model"],
        "channel": body["channel"],
        "number": body["number"],
        "digest": body["digest"],
        "state": "intent",
        "kind": _text(body, "kind") or "promote",
        "reason": _text(body, "reason") or "",
        "verdict_seq": body.get("verdict_seq"),
        "intent_seq": entry.seq,
        "intent_at": entry.at,
    }
    connection.execute(insert(releases), row)


def _activated(connection: Connection, releases: Table, entry: Entry) -> None:
    body = entry.body
    same_channel = (releases.c.model == body["model"], releases.c.channel == body["channel"])
    connection.execute(
        update(releases).where(*same_channel, releases.c.state == "active").values(state="superseded")
    )
    _change(
        connection,
        releases,
        entry,
        {"state": "active", "activated_seq": entry.seq, "activated_at": entry.at},
    )


def _revoked(connection: Connection, revocations: Table, entry: Entry) -> None:
    digest = entry.body["digest"]
    if connection.execute(select(revocations.c.seq).where(revocations.c.digest == digest)).first() is None:
        row = {"digest": digest, "seq": entry.seq, "revoked_at": entry.at, "reason": entry.body["reason"]}
        connection.execute(insert(revocations), row)


def _change(connection: Connection, releases: Table, entry: Entry, values: dict[str, Any]) -> None:
    body, columns = entry.body, releases.c
    changed = connection.execute(
        update(releases)
        .where(
            columns.model == body["model"],
            columns.channel == body["channel"],
            columns.number == body["number"],
        )
        .values(values)
    )
    if changed.rowcount != 1:
        raise LedgerError(
            f"{entry.type!r} of {body['model']} {body['channel']} {body['number']}: that number has no intent"
        )


def _text(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None
