"""From entries to tables that people ask: verdicts, findings, releases, revocations.

Nothing here is true by itself: every row follows from the entries, in their order, and
:func:`rebuild` makes them anew. The audit makes them anew beside the stored ones, with the same functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    Insert,
    Table,
    Update,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from acceptd.errors import LedgerError
from acceptd.record.canonical import canonical
from acceptd.record.entry import Entry, model_of
from acceptd.record.tables import STORED, Projection

TYPES: Final = frozenset({"verdict", "intent", "activated", "abandoned", "revoked"})
"""Entry types that a projection follows from."""

_BATCH: Final = 1000
_VERDICT_COLUMNS: Final = tuple(column.name for column in STORED.verdicts.columns)
_FINDING_COLUMNS: Final = tuple(column.name for column in STORED.findings.columns)
_DIALECT: Final = sqlite.dialect(paramstyle="named")


class Change(NamedTuple):
    """One statement and its values. Where ``refusal`` says something, it must change exactly one row."""

    statement: Insert | Update
    values: dict[str, Any]
    refusal: str = ""


def apply(connection: Connection, to: Projection, entry: Entry) -> None:
    """Bring the projection ``to`` from the entry before to this one. Types without a projection pass.

    Raises LedgerError where a release is activated or abandoned that has no intent.
    """
    if entry.type == "verdict":
        connection.execute(insert(to.verdicts), verdict_row(entry))
        if rows := finding_rows(entry):
            connection.execute(insert(to.findings), rows)
        return
    for change in changes(to, entry.type, entry.seq, entry.at, entry.body):
        changed = connection.execute(change.statement, change.values).rowcount
        if change.refusal and changed != 1:
            raise LedgerError(change.refusal)


def rebuild(connection: Connection, entries: Iterable[Entry]) -> None:
    """Make all projections anew from ``entries`` (all of them, in order), inside one write transaction."""
    for table in STORED.all():
        connection.execute(delete(table))
    _fill(connection, STORED, entries)


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
            verdicts.append(verdict_row(entry))
            findings.extend(finding_rows(entry))
            if len(verdicts) + len(findings) >= _BATCH:
                flush()
        else:
            apply(connection, to, entry)
    flush()


def verdict_row(entry: Entry) -> dict[str, Any]:
    """Return the row of ``verdicts`` that follows from a verdict."""
    return dict(zip(_VERDICT_COLUMNS, verdict_values(entry.submission, entry.seq, entry.body), strict=True))


def finding_rows(entry: Entry) -> list[dict[str, Any]]:
    """Return the rows of ``findings`` that follow from a verdict, in order."""
    rows = finding_values(entry.submission, entry.body["findings"])
    return [dict(zip(_FINDING_COLUMNS, row, strict=True)) for row in rows]


def verdict_values(submission: str | None, seq: int, body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row of ``verdicts`` that follows from a verdict's body, in the order of the table's columns."""
    return (
        submission,
        seq,
        body["verdict"],
        _text(body, "team"),
        model_of(body),
        _text(body, "bundle_digest"),
        _text(body, "policy_digest"),
        body["judged_at"],
        body["reason"],
    )


def finding_values(
    submission: str | None, findings: Iterable[Mapping[str, Any]], write: Callable[[object], bytes] = canonical
) -> list[tuple[Any, ...]]:
    """Return the rows of ``findings``, in order, in the order of the table's columns.

    ``write`` gives canonical bytes.
    """
    return [
        (
            submission,
            position,
            finding["code"],
            finding["severity"],
            finding["audience"],
            finding["stage"],
            finding["where"],
            finding["message"],
            write(finding.get("evidence", {})).decode(),
            count if type(count := finding.get("count", 1)) is int else 1,
        )
        for position, finding in enumerate(findings)
    ]


def changes(to: Projection, kind: str, seq: int, at: str, body: Mapping[str, Any]) -> Iterator[Change]:
    """Yield what an entry that is no verdict changes in ``releases`` and ``revocations``, in order.

    The body has passed :func:`acceptd.record.entry.check_body`.
    """
    made = _statements(to)
    if kind == "revoked":
        row = {
            "digest": body["digest"],
            "of_digest": body["digest"],
            "seq": seq,
            "revoked_at": at,
            "reason": body["reason"],
        }
        yield Change(made.revoke, row)
    elif kind == "intent":
        row = {
            "model": body["model"],
            "channel": body["channel"],
            "number": body["number"],
            "digest": body["digest"],
            "state": "intent",
            "kind": _text(body, "kind") or "promote",
            "reason": _text(body, "reason") or "",
            "verdict_seq": body.get("verdict_seq"),
            "intent_seq": seq,
            "intent_at": at,
            "activated_seq": None,
            "activated_at": None,
        }
        yield Change(made.intend, row)
    elif kind in {"activated", "abandoned"}:
        channel = {"in_model": body["model"], "in_channel": body["channel"]}
        number = channel | {"of_number": body["number"]}
        refusal = f"{kind!r} of {body['model']} {body['channel']} {body['number']}: that number has no intent"
        if kind == "abandoned":
            yield Change(made.abandon, number, refusal)
            return
        yield Change(made.supersede, channel)
        yield Change(made.activate, number | {"by_seq": seq, "by_at": at}, refusal)


def plain_sql(change: Change) -> tuple[str, dict[str, Any]]:
    """Return a change's statement as SQLite's own text, and the values that are fixed in it.

    For many changes on a plain connection: each one through SQLAlchemy costs ten times what SQLite does.
    """
    compiled = change.statement.compile(dialect=_DIALECT, column_keys=list(change.values))
    return str(compiled), dict(compiled.params)


class _Statements(NamedTuple):
    intend: Insert
    supersede: Update
    activate: Update
    abandon: Update
    revoke: Insert


@functools.cache
def _statements(to: Projection) -> _Statements:
    """Built once: building one costs more than SQLite's work on it."""
    table, columns = to.releases, to.releases.c
    channel = (columns.model == bindparam("in_model"), columns.channel == bindparam("in_channel"))
    number = (*channel, columns.number == bindparam("of_number"))
    activated = {"state": "active", "activated_seq": bindparam("by_seq"), "activated_at": bindparam("by_at")}
    return _Statements(
        insert(table),
        # Literal: SQLite takes an index over the active ones alone only where it sees the word.
        update(table).where(*channel, columns.state == literal_column("'active'")).values(state="superseded"),
        update(table).where(*number).values(activated),
        update(table).where(*number).values(state="abandoned"),
        _first_alone(to.revocations, "digest"),  # the first revocation is the one
    )


def _first_alone(table: Table, key: str) -> Insert:
    """Insert a row unless there is one of its key, in words that both engines have; writers are alone."""
    # A name of its own: PostgreSQL gives each parameter one type, and the two places ask for different ones.
    there = exists().where(table.c[key] == bindparam(f"of_{key}"))
    row = [bindparam(column.name, type_=column.type).label(None) for column in table.columns]
    return insert(table).from_select([column.name for column in table.columns], select(*row).where(~there))


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None
