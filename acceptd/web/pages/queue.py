"""The queue: submissions with their states and verdicts, the newest first."""

from __future__ import annotations

from typing import Any, Final

from acceptd.config import Paths
from acceptd.daemon_lock import holder
from acceptd.record.entry import VERDICTS
from acceptd.record.queue import Queue
from acceptd.record.tables import STATES
from acceptd.report.observed import would
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Field, Form, Links, Page, Pager, Table, Text, choices, model_at, where
from acceptd.web.house import House
from acceptd.web.queries import Wanted, newest_submissions

_KEYS: Final = ("team", "state", "verdict", "model", "code")


def queue(house: House, parameters: Any) -> Page:
    """Return the page of submissions that pass the filters."""
    asked = Asked(parameters, (*_KEYS, "before"))
    wanted = Wanted(
        team=asked.team(),
        state=asked.one_of("state", STATES),
        verdict=asked.one_of("verdict", VERDICTS),
        model=asked.model(),
        code=asked.code(),
    )
    found = newest_submissions(house.ledger, wanted, asked.submission("before"))
    given = {key: asked.text(key) for key in _KEYS}
    counts = Queue(house.ledger).counts()
    pid = holder(Paths(house.state).lock)
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "nothing was submitted yet"
    older = where("", before=found.older, **given) if found.older else ""
    return Page(
        "Queue",
        [
            Text(f"The daemon is {f'running (process {pid})' if pid else 'not running'}. Submissions: {said}."),
            Links([("What is held for a person", where("", verdict="held"))]),
            _filter(given),
            table([row._mapping for row in found.rows], "Submissions, newest first"),
            Pager(older, where("", **given) if asked.text("before") else "", found.note("submissions")),
        ],
        nav="Queue",
    )


def table(rows: Any, caption: str) -> Table:
    """Return the table of submissions."""
    lines = [
        (
            Cell(row["id"], where("submissions", row["id"])),
            row["team"],
            row["name"],
            row["state"],
            Cell(_verdict(row), look=row["verdict"] or ""),
            Cell(row["model"], model_at(row["model"])) if row["model"] else "",
            row["reason"] or "",
        )
        for row in rows
    ]
    head = ("Submission", "Team", "Drop", "State", "Verdict", "Model", "Reason")
    return Table(caption, head, lines, empty="No submission passes the filter here.")


def _verdict(row: Any) -> str:
    return would(row["verdict"]) if row["observed"] else row["verdict"] or ""


def _filter(given: dict[str, str]) -> Form:
    return Form(
        "/",
        "Filter",
        [
            Field("team", "Team", given["team"], most=64),
            Field("model", "Model", given["model"], hint="team/name", most=129),
            Field("verdict", "Verdict", given["verdict"], choices(sorted(VERDICTS))),
            Field("state", "State", given["state"], choices(STATES)),
            Field("code", "Finding code", given["code"], hint="for example run/crash", most=120),
        ],
    )
