"""The work queue: where each submission stands, so that a restart takes up what a death interrupted.

``claimed → sealed → examined → judged → promoted → done``, or ``quarantined`` from anywhere; states
may be skipped, never taken back. A change that carries entries is durable with them; one without
survives a killed process, and after a power cut the submission is at an earlier state and is worked again.

Deaths (design rule 7): :meth:`Queue.note_start` marks that work in a state has begun; the mark goes with
the next :meth:`Queue.advance` or :meth:`Queue.clear`. A mark that is still there when the daemon starts
is a death in that state, which :meth:`Queue.recover` counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, literal, select, update

from acceptd.errors import LedgerError
from acceptd.record.canonical import Written, plain, plain_bytes
from acceptd.record.entry import Appended, NewEntry, valid_submission
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger, Transaction
from acceptd.record.tables import FINAL_STATES, STATES, deaths, submissions

MAX_DEATHS: Final = 2
"""Deaths in one state after which a submission is quarantined."""

_DECODER: Final = json.JSONDecoder()
_FIND: Final = select(submissions).where(submissions.c.id == bindparam("key"))
_COLUMNS: Final = frozenset({"bundle_digest", "model", "node"})


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission as the queue knows it. ``data`` holds the daemon's own working fields (JSON)."""

    id: str
    team: str
    name: str
    path: str
    kind: str
    uid: int | None
    state: str
    working: str | None
    received_at: str
    updated_at: str
    bundle_digest: str | None
    model: str | None
    data: dict[str, Any]
    node: str | None = None
    """The intake of a fleet that claimed it."""

    @property
    def final(self) -> bool:
        """Whether nothing is left to do."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class Death:
    """A submission during whose work the daemon died; ``deaths`` counts them in this state."""

    id: str
    state: str
    deaths: int


class Queue:
    """The submissions of one ledger. Safe from threads; writers queue as the ledger's do."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(
        self,
        id: str,  # noqa: A002 - the domain's own word
        *,
        team: str,
        name: str,
        path: str,
        kind: str,
        uid: int | None = None,
        state: str = "claimed",
        entries: Sequence[NewEntry] = (),
        **fields: Any,
    ) -> Submission:
        """Record a claimed drop, durably: from here on it is not forgotten.

        Raises LedgerError where the id is known already or a state is unknown.
        """
        valid_submission(id)
        _rank(state)

        def do(change: Transaction) -> Submission:
            now = change.now()
            if _find(change.connection, id) is not None:
                raise LedgerError(f"submission {id} is in the queue already")
            row = {
                "id": id,
                "team": team,
                "name": plain(name),
                "path": path,
                "kind": kind,
                "uid": uid,
                "state": state,
                "working": None,
                "received_at": now,
                "updated_at": now,
                **_values(fields, "{}"),
            }
            change.connection.execute(insert(submissions), row)
            _append(change, id, entries)
            failpoint("record.queue.add.before-commit")
            return _submission(_found(change.connection, id))

        # Ids are drawn at random: one that is there is the one that was just written.
        return self._ledger.change(do, stands=lambda connection: _find(connection, id) is not None)

    def advance(
        self,
        id: str,  # noqa: A002
        state: str,
        *,
        entries: Sequence[NewEntry] | Callable[[Transaction], list[Appended]] = (),
        durable: bool | None = None,
        **fields: Any,
    ) -> list[Appended]:
        """Move a submission on, together with ``entries``, or neither; return where the entries stand.

        ``entries`` of a verdict belong to this submission unless they name one. A callable is given the
        transaction, where an entry needs its own number first or comes with evidence. ``bundle_digest``
        and ``model`` are columns; other ``fields`` are merged into ``data``, one that is ``Written`` as it
        stands. The same state again is allowed and changes fields only. Raises LedgerError for an unknown id, a
        step back, or a step from a final state, and DuplicateEntryError where the verdict was recorded before.
        """
        rank = _rank(state)
        if durable is None:
            durable = bool(entries)
        elif not durable and entries:
            raise LedgerError("an advance with entries is always durable")
        wrote: dict[str, Any] = {}

        def do(change: Transaction) -> list[Appended]:
            row = _found(change.connection, id)
            if row.state != state and (row.state in FINAL_STATES or rank < _rank(row.state)):
                raise LedgerError(f"submission {id} cannot go from {row.state} to {state}")
            values = {
                "state": state,
                "working": None,
                "updated_at": change.now(),
                **_values(fields, row.data),
            }
            change.connection.execute(update(submissions).where(submissions.c.id == id).values(values))
            wrote.update(values)
            appended = entries(change) if callable(entries) else _append(change, id, entries)
            failpoint(f"record.queue.{state}.before-commit")
            return appended

        def stands(connection: Connection) -> bool:
            row = _find(connection, id)
            return row is not None and all(row._mapping[key] == value for key, value in wrote.items())

        appended = self._ledger.change(do, durable=durable, stands=stands)
        failpoint(f"record.queue.{state}.after-commit")
        return appended

    def get(self, id: str) -> Submission | None:  # noqa: A002
        """Return one submission, or None."""
        row = self._ledger.look(lambda connection: _find(connection, id))
        return None if row is None else _submission(row)

    def pending(self) -> list[Submission]:
        """Return all that are not in a final state, oldest first."""
        return self.find(states=[state for state in STATES if state not in FINAL_STATES])

    def unfinished(self) -> list[tuple[str, str, str, str]]:
        """Return (id, team, state, received_at) of all that are not in a final state, oldest first.

        Much cheaper than :meth:`pending`: a flood may have left very many of them.
        """
        columns = submissions.c
        query = (
            select(columns.id, columns.team, columns.state, columns.received_at)
            .where(columns.state.in_([state for state in STATES if state not in FINAL_STATES]))
            .order_by(columns.received_at, columns.id)
        )
        rows = self._ledger.look(lambda connection: connection.execute(query).all())
        return [(row.id, row.team, row.state, row.received_at) for row in rows]

    def standing(
        self,
        states: Sequence[str],
        *,
        limit: int,
        behind: int = 0,
        received_before: str = "",
        updated_before: str = "",
    ) -> list[str]:
        """Return ids of submissions in these states that came, or changed, before a moment; the oldest first.

        ``behind``: after the first so many of them.
        """
        columns = submissions.c
        query = select(columns.id).where(columns.state.in_(states)).order_by(columns.received_at, columns.id)
        if received_before:
            query = query.where(columns.received_at < received_before)
        if updated_before:
            query = query.where(columns.updated_at < updated_before)
        with self._ledger.reading() as connection:
            return list(connection.execute(query.limit(limit).offset(behind)).scalars())

    def of_node(self, node: str, states: Sequence[str], *, limit: int) -> list[Submission]:
        """Return a node's submissions in these states, the oldest ``limit`` of them, without their ``data``.

        A flood may have left very many, and each with a report.
        """
        columns = submissions.c
        named = [column for column in columns if column.name != "data"]
        query = (
            select(*named, literal("{}").label("data"))
            .where(columns.node == node, columns.state.in_(states))
            .order_by(columns.received_at, columns.id)
            .limit(limit)
        )
        with self._ledger.reading() as connection:
            return [_submission(cast("Row[Any]", row)) for row in connection.execute(query)]

    def find(
        self, *, states: Sequence[str] | None = None, team: str | None = None, limit: int | None = None
    ) -> list[Submission]:
        """Return submissions, oldest first; with ``limit`` the newest so many of them."""
        columns = submissions.c
        query = select(submissions).order_by(columns.received_at.desc(), columns.id.desc()).limit(limit)
        if states is not None:
            query = query.where(columns.state.in_(states))
        if team is not None:
            query = query.where(columns.team == team)
        rows = self._ledger.look(lambda connection: connection.execute(query).all())
        return [_submission(row) for row in reversed(rows)]

    def counts(self) -> dict[str, int]:
        """Return how many submissions are in each state; all states are there."""
        query = select(submissions.c.state, func.count()).group_by(submissions.c.state)
        rows = self._ledger.look(lambda connection: connection.execute(query).all())
        found = {state: int(count) for state, count in rows}
        return {state: found.get(state, 0) for state in STATES}

    def note_start(self, id: str, state: str) -> int:  # noqa: A002
        """Mark that work in ``state`` begins now; return how often the daemon died in it before.

        At MAX_DEATHS the caller quarantines instead of working.
        """
        _rank(state)

        def do(change: Transaction) -> int:
            row = _found(change.connection, id)
            if row.state in FINAL_STATES:
                raise LedgerError(f"submission {id} is {row.state}: there is no work left")
            change.connection.execute(update(submissions).where(submissions.c.id == id).values(working=state))
            return _deaths(change.connection, id, state)

        return self._ledger.change(do, durable=False, stands=_again)

    def clear(self, id: str) -> None:  # noqa: A002
        """Take the mark away: work ended in order (an orderly stop, or a retry that is nobody's death)."""

        def do(change: Transaction) -> None:
            _found(change.connection, id)
            change.connection.execute(update(submissions).where(submissions.c.id == id).values(working=None))

        self._ledger.change(do, durable=False, stands=_again)

    def bump_deaths(self, id: str) -> int:  # noqa: A002
        """Count one death in the state that was being worked (else the one it is in); return the count there."""

        def do(change: Transaction) -> int:
            row = _found(change.connection, id)
            return _count_death(change.connection, id, row.working or row.state)

        return self._ledger.change(do)

    def deaths(self, id: str, state: str) -> int:  # noqa: A002
        """Return how often the daemon died in this state of this submission."""
        return self._ledger.look(lambda connection: _deaths(connection, id, state))

    def recover(self, node: str | None = None) -> list[Death]:
        """At start, once, before any work: turn every mark left behind into a counted death; return those.

        ``node``: of the submissions of that intake alone.
        """

        def do(change: Transaction) -> list[Death]:
            query = select(submissions.c.id, submissions.c.working).where(submissions.c.working.is_not(None))
            if node is not None:
                query = query.where(submissions.c.node == node)
            return [
                Death(row.id, row.working, _count_death(change.connection, row.id, row.working))
                for row in change.connection.execute(query.order_by(submissions.c.id)).all()
            ]

        return self._ledger.change(do)

    def forget(self, id: str) -> None:  # noqa: A002
        """Remove a submission in a final state (retention); its entries stay."""

        def do(change: Transaction) -> None:
            if _found(change.connection, id).state not in FINAL_STATES:
                raise LedgerError(f"submission {id} is still being worked")
            change.connection.execute(delete(submissions).where(submissions.c.id == id))

        self._ledger.change(do, stands=lambda connection: _find(connection, id) is None)


def _again(_connection: Connection) -> bool:
    """A mark may be made twice: where nobody knows whether it was, it is."""
    return False


def _rank(state: str) -> int:
    try:
        return STATES.index(state)
    except ValueError as error:
        raise LedgerError(f"{state!r:.40} is no state of a submission") from error


def _find(connection: Connection, id: str) -> Row[Any] | None:  # noqa: A002
    return connection.execute(_FIND, {"key": id}).first() if id.isascii() else None


def _found(connection: Connection, id: str) -> Row[Any]:  # noqa: A002
    row = _find(connection, id)
    if row is None:
        raise LedgerError(f"there is no submission {id!r:.140}")
    return row


def _submission(row: Row[Any]) -> Submission:
    values = dict(row._mapping)
    values["data"] = json.loads(values["data"])
    return Submission(**values)


def _values(fields: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Return the columns to set: known ones, and the others merged into ``data``, made plain (see ``canonical``).

    They may come from a drop: no file name, number or text in them may keep it from being recorded.
    """
    columns = {key: value for key, value in fields.items() if key in _COLUMNS}
    try:
        members = _members(data)
    except (ValueError, IndexError):  # somebody else wrote it, in another form
        members = {key: plain_bytes({key: value}).decode()[1:-1] for key, value in json.loads(data).items()}
    for key, value in fields.items():
        if key not in _COLUMNS:
            written = value if isinstance(value, Written) else Written.of(value)
            members[key] = f"{plain_bytes(key).decode()}:{written.decode()}"
    ordered = sorted(members, key=lambda key: key.encode("utf-16be"))  # RFC 8785, section 3.2.3
    return {**columns, "data": "{" + ",".join(members[key] for key in ordered) + "}"}


def _members(data: str) -> dict[str, str]:
    """Return the members of a canonical object as they stand in its text, ``"key":value`` by key.

    A member that does not change is not written anew: a report is large, and the steps after it are short.
    """
    members: dict[str, str] = {}
    place = 1
    while data[place] != "}":
        start = place + (data[place] == ",")
        key, colon = _DECODER.raw_decode(data, start)
        _, place = _DECODER.raw_decode(data, colon + 1)
        members[key] = data[start:place]
    return members


def _append(change: Transaction, id: str, new: Sequence[NewEntry]) -> list[Appended]:  # noqa: A002
    appended = []
    for item in new:
        owner = id if item.submission is None and item.type == "verdict" else item.submission
        appended.append(change.append(item.type, item.body, submission=owner))
    return appended


def _deaths(connection: Connection, id: str, state: str) -> int:  # noqa: A002
    query = select(deaths.c.count).where(deaths.c.submission == id, deaths.c.state == state)
    return cast("int", connection.execute(query).scalar() or 0)


def _count_death(connection: Connection, id: str, state: str) -> int:  # noqa: A002
    here = (deaths.c.submission == id, deaths.c.state == state)
    count = _deaths(connection, id, state) + 1
    if count == 1:
        connection.execute(insert(deaths), {"submission": id, "state": state, "count": 1})
    else:
        connection.execute(update(deaths).where(*here).values(count=count))
    connection.execute(update(submissions).where(submissions.c.id == id).values(working=None))
    return count
