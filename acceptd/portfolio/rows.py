"""The rows of a portfolio, model by channel by profile, what needs attention first. Pure: the time is given.

A row rests on the verdict that its channel's current release was promoted by; where nothing is promoted, on the
model's newest acceptance. A newer verdict about the model stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from acceptd.portfolio.facts import Agreement, Facts, InForce, Judged, ProfileWord, Promise
from acceptd.portfolio.notes import Note, Place, notes
from acceptd.release.book import Row as Release
from acceptd.release.holds import Hold


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one channel under one profile. ``channel`` is empty where the model never had a release."""

    model_id: str
    channel: str
    profile: str
    """Empty where nothing was ever accepted."""
    verdict: str
    """Under this profile, by the verdict that the row rests on; empty where there is none."""
    required: bool
    number: int | None
    """Of the current release; None: there is none."""
    digest: str
    """The bundle of the current release, else of the verdict that the row rests on."""
    activated_at: str
    kind: str
    """How the release came: ``promote``, ``rollback``, ``rekey``; empty without one."""
    judged: Judged | None
    newest: Judged | None
    """The model's newest verdict, where it is another one."""
    contract: Agreement | None
    promises: tuple[Promise, ...]
    frozen: tuple[str, ...]
    """Why nothing is promoted here now, a reason each."""
    pinned: str
    revoked: str
    """Why the bundle of the current release was revoked."""
    notes: tuple[Note, ...]

    @property
    def team(self) -> str:
        """The team that the model belongs to."""
        return self.model_id.partition("/")[0]

    @property
    def urgency(self) -> tuple[int, str]:
        """What rows are sorted by: the most urgent note, and when it comes due."""
        return min(((note.rank, note.at or "9") for note in self.notes), default=(99, ""))

    @property
    def needs_attention(self) -> bool:
        """Whether anything about it is for a person to do."""
        return any(note.attention for note in self.notes)


@dataclass(frozen=True, slots=True)
class Portfolio:
    """All rows, what needs attention first. ``at`` is UTC, RFC 3339; ``within_seconds`` is what "soon" means."""

    at: str
    within_seconds: int
    rules: InForce | None
    rows: tuple[Row, ...]
    troubles: tuple[str, ...] = ()

    @property
    def models(self) -> int:
        """How many models there are."""
        return len({row.model_id for row in self.rows})

    def places(self) -> Iterator[tuple[Row, ...]]:
        """Yield the rows of each model and channel together, in order; they differ in the profile alone."""
        for _, rows in groupby(self.rows, key=lambda row: (row.model_id, row.channel)):
            yield tuple(rows)

    def counts(self) -> dict[str, int]:
        """Return in how many places (model and channel) each kind of note stands, most urgent kind first."""
        found: dict[tuple[int, str], int] = {}
        for rows in self.places():
            for key in {(note.rank, note.code) for row in rows for note in row.notes}:
                found[key] = found.get(key, 0) + 1
        return {code: count for (_, code), count in sorted(found.items())}

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        rows = [
            {**asdict(row), "notes": [note.as_json() for note in row.notes], "attention": row.needs_attention}
            for row in self.rows
        ]
        rules = None
        if self.rules is not None:
            rules = {**asdict(self.rules), "automatic": sorted(self.rules.automatic)}
        return {
            "schema": 1,
            "at": self.at,
            "within_seconds": self.within_seconds,
            "rules": rules,
            "models": self.models,
            "counts": self.counts(),
            "rows": rows,
            "troubles": list(self.troubles),
        }


def assemble(facts: Facts, *, at: str, within_seconds: int, team: str = "") -> Portfolio:
    """Return the portfolio of ``facts`` at the time ``at``; of one team where ``team`` is given."""
    promises: dict[str, list[Promise]] = {}
    for one in facts.promises:
        promises.setdefault(one.model_id, []).append(one)
    channels: dict[str, set[str]] = {model: set() for model in (*facts.newest, *promises)}
    for model, name in facts.book.channels:
        channels.setdefault(model, set()).update({name} if facts.book.current(model, name) else ())
    for hold in facts.book.holds.all_frozen():
        if hold.model_id:
            channels.setdefault(hold.model_id, set()).add(hold.channel)
    places: list[list[Row]] = []
    for model, names in channels.items():
        if not team or model.partition("/")[0] == team:
            mine = promises.get(model, [])
            for name in {*names, *(one.channel for one in mine)} or {""}:
                said = tuple(last_words([one for one in mine if one.channel == name]))
                places.append(_rows(_place(facts, model, name, said), at, within_seconds))
    # A place's rows stay together: its most urgent one says where.
    places.sort(key=lambda rows: (min(row.urgency for row in rows), rows[0].model_id, rows[0].channel))
    return Portfolio(
        at, within_seconds, facts.rules, tuple(row for rows in places for row in rows), facts.troubles
    )


def _place(facts: Facts, model_id: str, channel: str, promises: tuple[Promise, ...]) -> Place:
    book = facts.book
    current = book.current(model_id, channel) if channel else None
    judged = facts.resting.get(current.verdict_seq) if current else facts.accepted.get(model_id)
    newest = facts.newest.get(model_id)
    pins = book.holds.pinned(model_id, channel) if current else []
    return Place(
        facts=facts,
        model_id=model_id,
        channel=channel,
        current=current,
        judged=judged,
        newest=None if newest is None or (judged is not None and newest.seq == judged.seq) else newest,
        contract=facts.contracts.get(model_id),
        promises=promises,
        frozen=book.holds.frozen(model_id, channel) if channel else [],
        pins=[one for one in pins if current is not None and one.digest == current.digest],
    )


def _rows(place: Place, at: str, within: int) -> list[Row]:
    """Return a place's rows, one for each profile of the verdict that it rests on."""
    current, judged = place.current, place.judged
    revocation = place.facts.book.revoked.get(current.digest) if current else None
    words = judged.profiles if judged is not None and judged.profiles else (ProfileWord("", ""),)
    return [
        Row(
            model_id=place.model_id,
            channel=place.channel,
            profile=word.profile,
            verdict=word.verdict,
            required=word.required,
            number=current.number if current else None,
            digest=_digest(current, judged),
            activated_at=current.activated_at if current else "",
            kind=current.kind if current else "",
            judged=judged,
            newest=place.newest,
            contract=place.contract,
            promises=tuple(place.promises),
            frozen=_reasons(place.frozen),
            pinned="; ".join(_reasons(place.pins)),
            revoked=revocation.reason if revocation else "",
            notes=tuple(notes(place, word, at=at, within=within)),
        )
        for word in words
    ]


def _digest(current: Release | None, judged: Judged | None) -> str:
    return current.digest if current else judged.bundle_digest if judged else ""


def _reasons(holds: Sequence[Hold]) -> tuple[str, ...]:
    return tuple(one.reason for one in holds)


def last_words(promises: Sequence[Promise]) -> Iterator[Promise]:
    """Yield what counts longest of each person about the same thing: a renewed waiver does not run out soon.

    A waiver speaks of the model, every other word of one verdict. What is replaced for some of its codes only is
    yielded with the others.
    """
    longest: dict[tuple[object, ...], Promise] = {}
    for one in promises:
        for key in _about(one).values():
            known = longest.get(key)
            if known is None or one.expires_at >= known.expires_at:
                longest[key] = one
    for one in sorted(promises, key=lambda one: one.entry):
        codes = [code for code, key in _about(one).items() if longest[key].entry == one.entry]
        if codes:
            yield replace(one, codes=tuple(codes) if one.codes else ())


def _about(one: Promise) -> dict[str, tuple[object, ...]]:
    verdict = None if one.kind == "waive" else one.verdict_seq
    return {code: (one.kind, one.reviewer, verdict, code) for code in one.codes or ("",)}
