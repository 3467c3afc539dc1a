"""Models: which there are, and the history of one with its timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from acceptd.release.book import Row
from acceptd.report.observed import would
from acceptd.web import queries
from acceptd.web.asked import Asked
from acceptd.web.blocks import (
    Cell,
    Field,
    Form,
    Lane,
    Links,
    Mark,
    Page,
    Pager,
    Section,
    Table,
    Text,
    Timeline,
    digest_cell,
    model_at,
    where,
)
from acceptd.web.house import House, NotHereError
from acceptd.web.house import model as checked

_PAST: Final = {
    "promote": "promoted",
    "rollback": "rolled back",
    "rekey": "signed anew",
    "revoked": "revoked since",
}
_EVENTS: Final = 200
"""Verdicts, and releases of each channel, that a timeline shows."""


def models(house: House, parameters: Any) -> Page:
    """Return the page of models by name."""
    asked = Asked(parameters, ("team", "after"))
    team = asked.team()
    rows, after = queries.models(house.ledger, team, asked.model("after"))
    newest = {row.model: queries.verdicts_of(house.ledger, row.model, page=1)[0] for row in rows}
    lines = [
        (
            Cell(row.model, model_at(row.model)),
            Cell(row.count, look="number"),
            Cell(newest[row.model].verdict, look=newest[row.model].verdict),
            newest[row.model].judged_at,
        )
        for row in rows
    ]
    head = ("Model", "Verdicts", "Newest", "Judged at")
    older = where("models", team=team, after=after) if after else ""
    return Page(
        "Models",
        [
            Form("/models", "Filter", [Field("team", "Team", team, most=64)]),
            Table("Models by name", head, lines, empty="No model was judged yet."),
            Pager(older, where("models", team=team) if asked.text("after") else ""),
        ],
        nav="Models",
    )


def history(house: House, team: str, name: str, parameters: Any) -> Page:
    """Return the page of one model: its timeline, its releases, its verdicts."""
    model = checked(f"{team}/{name}")
    asked = Asked(parameters, ("before",))
    before = asked.number("before")
    rows = queries.verdicts_of(house.ledger, model, before)
    book = house.book()
    channels = sorted(channel for place, channel in book.channels if place == model)
    if not rows and not channels:
        raise NotHereError(f"nothing is on record about {model}", remedy="the page of models lists what is")
    shown, more = rows[: queries.PAGE], len(rows) > queries.PAGE
    blocks: list[Any] = [_timeline(house, model, channels)]
    current = [row for channel in channels if (row := book.current(model, channel)) is not None]
    if channels:
        columns = ("Channel", "Number", "Bundle digest", "Since", "By", "History")
        rows_of = [
            (
                row.channel,
                Cell(row.number, look="number"),
                digest_cell(row.digest),
                row.activated_at,
                row.by,
                Cell("history", where("releases", *model.split("/"), row.channel)),
            )
            for row in current
        ]
        blocks.append(
            Section("Current releases", [Table("One row a channel", columns, rows_of, "None is current.")])
        )
    lines = [
        (
            row.judged_at,
            Cell(_verdict(house, row), look=row.verdict),
            Cell(row.submission, where("submissions", row.submission)),
            digest_cell(row.bundle_digest),
            row.reason,
        )
        for row in shown
    ]
    head = ("Judged at", "Verdict", "Submission", "Bundle digest", "Reason")
    older = where("models", *model.split("/"), before=shown[-1].seq) if more else ""
    table = Table("Verdicts, newest first", head, lines, empty="No older verdict.")
    blocks.append(Section("Verdicts", [table, Pager(older, model_at(model) if before is not None else "")]))
    blocks.append(Links([("Its entries in the ledger", where("ledger", model=model))]))
    return Page(model, blocks, nav="Models", above="Model")


def _timeline(house: House, model: str, channels: Sequence[str]) -> Any:
    found = queries.verdicts_of(house.ledger, model, page=_EVENTS)[:_EVENTS]
    book = house.book()
    releases = {channel: [row for row in book.rows(model, channel) if row.activated_at] for channel in channels}
    events = [("Verdicts", [(row.judged_at, row.verdict, row.verdict) for row in reversed(found)])]
    events += [
        (f"Releases on {channel}", [(row.activated_at, _look(house, row), _said(row)) for row in rows[-_EVENTS:]])
        for channel, rows in releases.items()
        if rows
    ]
    times = [at for _, marks in events for at, _, _ in marks]
    if not times:
        return Text("Nothing was judged yet.", "soft")
    first, last = min(times), max(times)
    lanes = [
        Lane(name, _words([look for _, look, _ in marks]), [
            Mark(_along(at, first, last), look, f"{words}, {at}") for at, look, words in marks
        ])
        for name, marks in events
    ]  # fmt: skip
    return Timeline(f"From {first} to {last}; at most {_EVENTS} marks a line", lanes, first, last)


def _verdict(house: House, row: Any) -> str:
    observed = house.ledger.entry(row.seq).body.get("observed")
    return would(row.verdict) if observed else str(row.verdict)


def _look(house: House, row: Row) -> str:
    return "revoked" if row.digest in house.book().revoked else row.kind


def _said(row: Row) -> str:
    return f"{_PAST.get(row.kind, row.kind)}: number {row.number}"


def _words(looks: Sequence[str]) -> str:
    return ", ".join(f"{count} {_PAST.get(look, look)}" for look, count in Counter(looks).most_common())


def _along(at: str, first: str, last: str) -> int:
    begin, end, here = (datetime.fromisoformat(one).timestamp() for one in (first, last, at))
    return 10 + round(980 * (here - begin) / (end - begin)) if end > begin else 500
