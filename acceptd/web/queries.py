"""Bounded questions to the database: a page of rows, newest first, out of a window of rows that is looked through.

A filter that few rows pass would read the whole database for one page. So each question looks at no more than so
many rows, says how many, and where the next page goes on. All by keys: nothing is counted off from the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Row, Select, exists, func, or_, select

from acceptd.record.dialects import Observed, Place
from acceptd.record.entry import Entry, decode
from acceptd.record.log import Ledger
from acceptd.record.tables import entries, findings, submissions, verdicts

PAGE: Final = 25
WINDOW: Final = 2000
WINDOW_OF_TEXT: Final = 500
"""Rows that are looked through where each may hold a report of a megabyte."""
T = TypeVar("T")


@dataclass(frozen=True)
class Slice(Generic[T]):
    """Rows of one page. ``older`` is where the next page begins, None at the end; ``looked`` of how many rows."""

    rows: list[T]
    older: str | None
    looked: int

    def note(self, what: str) -> str:
        """Return what to say where filters may have more further back."""
        partly = self.older is not None and len(self.rows) < PAGE
        return f"looked through {self.looked} {what}; there are older ones" if partly else ""


_OBSERVED: Final = Observed(submissions.c.data)
"""Whether a submission was only observed."""


@dataclass(frozen=True)
class Wanted:
    """What a page of submissions keeps; empty keeps everything."""

    team: str = ""
    state: str = ""
    verdict: str = ""
    model: str = ""
    code: str = ""


def newest_submissions(ledger: Ledger, wanted: Wanted, before: str = "") -> Slice[Row[Any]]:
    """Return submissions (id, team, name, state, received_at, model, bundle_digest, verdict, reason, seq)."""
    of = submissions.c
    size = WINDOW_OF_TEXT if wanted.code else WINDOW
    inner = select(of.id, of.team, of.name, of.state, of.received_at, of.model, of.bundle_digest)
    if before:
        inner = inner.where(of.id < before)
    window = inner.order_by(of.id.desc()).limit(size).subquery("looked_at")
    query = (
        select(window, verdicts.c.verdict, verdicts.c.reason, verdicts.c.seq, _OBSERVED.label("observed"))
        .outerjoin(verdicts, verdicts.c.submission == window.c.id)
        .join(submissions, of.id == window.c.id)
        .order_by(window.c.id.desc())
    )
    for column, value in (
        (window.c.team, wanted.team),
        (window.c.state, wanted.state),
        (verdicts.c.verdict, wanted.verdict),
        (window.c.model, wanted.model),
    ):
        if value:
            query = query.where(column == value)
    if wanted.code:
        # Reports are canonical JSON: in a text its quotes would be escaped, so this is a member, never a text.
        member = f'"code":"{wanted.code}"'
        told = exists(select(1).where(findings.c.submission == window.c.id, findings.c.code == wanted.code))
        query = query.where(or_(told, Place(of.data, member) > 0))
    return _paged(ledger, query, window, window.c.id, size)


def verdicts_of(ledger: Ledger, model: str, before: int | None = None, page: int = PAGE) -> list[Row[Any]]:
    """Return the newest ``page`` + 1 verdicts of a model below entry ``before``."""
    of = verdicts.c
    query = select(verdicts).where(of.model == model).order_by(of.seq.desc()).limit(page + 1)
    if before is not None:
        query = query.where(of.seq < before)
    with ledger.reading() as connection:
        return list(connection.execute(query))


def models(ledger: Ledger, team: str = "", after: str = "") -> tuple[list[Row[Any]], str | None]:
    """Return a page of models (model, count, seq of the newest verdict) by name, and where the next begins."""
    of = verdicts.c
    query = (
        select(of.model, func.count().label("count"), func.max(of.seq).label("seq"))
        .where(of.model > after)
        .group_by(of.model)
        .order_by(of.model)
        .limit(PAGE + 1)
    )
    if team:  # "0" comes after "/"
        query = query.where(of.model > f"{team}/", of.model < f"{team}0")
    with ledger.reading() as connection:
        rows = list(connection.execute(query))
    return rows[:PAGE], rows[PAGE - 1].model if len(rows) > PAGE else None


@dataclass(frozen=True)
class WantedEntries:
    """What a page of the ledger keeps. ``text`` is 64 hex digits: a digest that an entry holds, or its leaf's."""

    kind: str = ""
    model: str = ""
    since: str = ""
    until: str = ""
    text: str = ""


def newest_entries(ledger: Ledger, wanted: WantedEntries, before: int | None = None) -> Slice[Entry]:
    """Return entries, newest first."""
    of = entries.c
    size = WINDOW if not (wanted.model or wanted.text) else WINDOW_OF_TEXT
    inner = select(of.seq, of.recorded_at)
    if wanted.kind:
        inner = inner.where(of.type == wanted.kind)
    if before is not None:
        inner = inner.where(of.seq < before)
    window = inner.order_by(of.seq.desc()).limit(size).subquery("looked_at")
    query = (
        select(of.leaf, of.leaf_hash, window.c.seq)
        .join(window, window.c.seq == of.seq)
        .order_by(window.c.seq.desc())
    )
    if wanted.since:
        query = query.where(window.c.recorded_at >= wanted.since)
    if wanted.until:
        query = query.where(window.c.recorded_at < wanted.until)
    if wanted.model:  # leaves are canonical JSON: see above
        names = [f'"{key}":"{wanted.model}"'.encode() for key in ("model", "bundle_id")]
        query = query.where(or_(*(Place(of.leaf, name) > 0 for name in names)))
    if wanted.text:
        held = Place(of.leaf, wanted.text.encode()) > 0
        query = query.where(or_(held, of.leaf_hash == bytes.fromhex(wanted.text)))
    found = _paged(ledger, query, window, window.c.seq, size)
    return Slice([decode(row.leaf, row.leaf_hash) for row in found.rows], found.older, found.looked)


def verdict_numbers(
    ledger: Ledger, *, since: str, team: str = "", model: str = "", before: int | None = None
) -> Slice[int]:
    """Return the entries of verdicts, newest first."""
    of = entries.c
    inner = select(of.seq, of.submission).where(of.type == "verdict", of.recorded_at >= since)
    if before is not None:
        inner = inner.where(of.seq < before)
    window = inner.order_by(of.seq.desc()).limit(WINDOW).subquery("looked_at")
    query = (
        select(window.c.seq)
        .join(verdicts, verdicts.c.submission == window.c.submission)
        .order_by(window.c.seq.desc())
    )
    if team:
        query = query.where(verdicts.c.team == team)
    if model:
        query = query.where(verdicts.c.model == model)
    found = _paged(ledger, query, window, window.c.seq, WINDOW)
    return Slice([int(row.seq) for row in found.rows], found.older, found.looked)


def newest_verdicts(ledger: Ledger, most: int) -> tuple[list[Entry], bool]:
    """Return the newest verdicts' entries, in order, and whether those are all."""
    of = entries.c
    query = select(of.leaf, of.leaf_hash).where(of.type == "verdict").order_by(of.seq.desc()).limit(most + 1)
    with ledger.reading() as connection:
        rows = list(connection.execute(query))
    return [decode(row.leaf, row.leaf_hash) for row in reversed(rows[:most])], len(rows) <= most


def kinds(ledger: Ledger) -> list[str]:
    """Return the types of entries that there are; one look into the index for each."""
    found: list[str] = []
    with ledger.reading() as connection:
        while len(found) < 64:
            query = select(func.min(entries.c.type)).where(entries.c.type > (found[-1] if found else ""))
            following = connection.execute(query).scalar()
            if following is None:
                return found
            found.append(str(following))
    return found


def _paged(ledger: Ledger, query: Select[Any], window: Any, key: Any, size: int) -> Slice[Row[Any]]:
    """Return a page, and where the next one begins: behind its last row, or behind all that was looked at."""
    ends = select(func.min(key), func.count()).select_from(window)
    with ledger.reading() as connection:
        rows = list(connection.execute(query.limit(PAGE + 1)))
        last, looked = connection.execute(ends).one()
    if len(rows) > PAGE:
        return Slice(rows[:PAGE], str(rows[PAGE - 1]._mapping[key.name]), looked)
    return Slice(rows, str(last) if looked == size else None, looked)
