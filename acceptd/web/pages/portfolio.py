"""Portfolio: every model by channel and profile, what needs a person first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.portfolio.notes import DAY, WORDS, Note, policy_words
from acceptd.portfolio.read import read_portfolio
from acceptd.portfolio.rows import Row
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Field, Form, Page, Pager, Table, Text, digest_cell, model_at, where
from acceptd.web.house import House
from acceptd.web.queries import PAGE

_MOST_DAYS: Final = 366


def portfolio(house: House, parameters: Any) -> Page:
    """Return the page of models and channels, the most urgent first."""
    asked = Asked(parameters, ("team", "within", "from"))
    team, days = asked.team(), asked.number("within")
    days, start = 30 if days is None else days, asked.number("from") or 0
    if days > _MOST_DAYS:
        raise UsageError(f"within: {days} days are more than {_MOST_DAYS}", remedy="give fewer days")
    settings = load_settings(house.state)
    found = read_portfolio(
        house.ledger, policies_directory(settings), settings.policy, within_seconds=days * DAY, team=team
    )
    places = list(islice(found.places(), start, start + PAGE + 1))
    counts = [f"{count} {WORDS[code]}" for code, count in found.counts().items()]
    many = f"{found.models} model{'' if found.models == 1 else 's'}"
    given = {"team": team, "within": days}
    more = where("portfolio", **given, **{"from": start + PAGE}) if len(places) > PAGE else ""
    head = (
        "Model",
        "Channel",
        "Release",
        "Profiles",
        "Last acceptance",
        "Policy",
        "Bundle digest",
        "What to know",
    )
    return Page(
        "Portfolio",
        [
            Text(f"{many}. {'; '.join(counts) or 'Nothing needs a person'}."),
            *(Text(trouble, "bad") for trouble in found.troubles),
            Form("/portfolio", "Filter", [
                Field("team", "Team", team, most=64),
                Field("within", "Expires within", str(days), hint="days: what is told beforehand", most=3),
            ]),
            Table("Models by channel, what needs a person first", head,
                  [_line(rows) for rows in places[:PAGE]], "No model was judged yet."),
            Pager(more, where("portfolio", **given) if start else ""),
        ],
        nav="Portfolio",
    )  # fmt: skip


def _line(rows: Sequence[Row]) -> tuple[Any, ...]:
    first = rows[0]
    judged = first.judged
    accepted = f"{judged.version} {judged.judged_at[:10]}".strip() if judged else "never"
    channel = Cell(first.channel, where("releases", *first.model_id.split("/", 1), first.channel))
    notes = sorted({note for row in rows for note in row.notes}, key=lambda note: (note.rank, note.at, note.text))
    return (
        Cell(first.model_id, model_at(first.model_id)),
        channel if first.number is not None else first.channel or "none",
        Cell("none" if first.number is None else first.number, look="number"),
        ", ".join(_profile(row) for row in rows if row.profile),
        Cell(accepted, where("submissions", judged.submission)) if judged else accepted,
        policy_words(judged.policy, judged.policy_digest) if judged else "",
        digest_cell(first.digest),
        Cell("; ".join(note.text for note in notes) or "in order", look=_look(notes)),
    )


def _profile(row: Row) -> str:
    same = row.judged is not None and row.verdict == row.judged.verdict
    return row.profile if same else f"{row.profile} {row.verdict}"


def _look(notes: Sequence[Note]) -> str:
    if any(note.rank < 2 for note in notes):
        return "bad"
    return "held" if any(note.attention for note in notes) else ""
