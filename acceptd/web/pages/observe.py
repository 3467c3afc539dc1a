"""Observe mode: what would be refused of all that was only judged and put on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.errors import ConfigError
from acceptd.record.canonical import digest, plain
from acceptd.record.entry import Entry
from acceptd.record.queue import Queue
from acceptd.report import observed_list as listed
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Field, Form, Page, Pager, Section, Table, Text, where
from acceptd.web.house import House
from acceptd.web.queries import PAGE, newest_verdicts

_WINDOW: Final = 1000
"""Verdicts that are looked at, the newest."""
_NAMES: Final = 8


def observe(house: House, parameters: Any) -> Page:
    """Return the page of observed models: what would refuse them, by finding code, and each with its verdict."""
    asked = Asked(parameters, ("team", "from"))
    team, start = asked.team(), asked.number("from") or 0
    entries, whole = newest_verdicts(house.ledger, _WINDOW)
    queue = Queue(house.ledger)
    seen = listed.newest(entries, lambda entry: _hidden(queue, entry))
    seen = [one for one in seen if team in {"", one.team}]
    note = "" if whole else f"of the newest {_WINDOW} verdicts; `acceptd observe` looks at all"
    refused = [
        (
            Cell(one.code, where("", code=one.code)),
            Cell(one.severity, look="rejected" if one.severity == "reject" else "held"),
            Cell(len(one.models), look="number"),
            ", ".join(model.name for model in one.models[:_NAMES]),
            one.example(),
            one.remedy,
        )
        for one in listed.refusals(seen)[:PAGE]
    ]
    models = [
        (
            one.name,
            one.version,
            Cell(one.verdict, look=one.verdict),
            Cell(one.submission, where("submissions", one.submission)),
            one.judged_at,
            ", ".join(one.codes) or one.reason,
        )
        for one in seen[start : start + PAGE]
    ]
    more = where("observe", team=team, **{"from": start + PAGE}) if len(seen) > start + PAGE else ""
    heads = ("Finding", "Severity", "Models", "Which", "For example", "Remedy")
    return Page(
        "Observe mode",
        [
            Text(f"Observed now: {_now(house)}. {listed.summary(seen).capitalize()}."),
            Form("/observe", "Filter", [Field("team", "Team", team, most=64)]),
            Section("What would refuse or hold them", [
                Table("By finding code, that of most models first", heads, refused, "Nothing would be refused."),
            ]),
            Section("Models", [
                Table("By name, with what would decide",
                      ("Model", "Version", "Verdict", "Submission", "Judged at", "Why"), models, "None."),
                Pager(more, where("observe", team=team) if start else "", note),
            ]),
        ],
        nav="Observe",
    )  # fmt: skip


def _now(house: House) -> str:
    try:
        return "; ".join(house.policy().observe.words()) or "nothing"
    except ConfigError as error:
        return f"not known: {error.message}"


def _hidden(queue: Queue, entry: Entry) -> list[Mapping[str, Any]]:
    """Return the findings for reviewers of a verdict: the entry binds their digest, or they do not count."""
    row = queue.get(str(entry.submission))
    document = (row.data.get("document") or {}) if row is not None else {}
    hidden = [one for one in document.get("findings", ()) if one.get("audience") != "team"]
    bound = entry.body.get("reviewer_findings")
    return hidden if isinstance(bound, dict) and bound.get("digest") == digest(plain(hidden)) else []
