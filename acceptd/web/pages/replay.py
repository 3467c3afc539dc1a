"""Policy replay: what another policy would have said of the newest stored submissions, a page at a time."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from acceptd.config import Paths
from acceptd.errors import UsageError
from acceptd.kept import KeptOutputs
from acceptd.policy.load import digest, load_policy
from acceptd.replay.again import Replayed
from acceptd.replay.run import Replay
from acceptd.rules import policy_file
from acceptd.web.asked import Asked
from acceptd.web.blocks import Cell, Facts, Field, Form, Page, Pager, Table, Text, choices, model_at, where
from acceptd.web.house import House
from acceptd.web.queries import Slice, verdict_numbers

SECONDS: Final = 15.0
"""How long one page judges; where it ends, the next page goes on."""


def replay(house: House, parameters: Any) -> Page:
    """Return the page: the form, and with a policy what it would have said. Nothing is run, nothing is written."""
    asked = Asked(parameters, ("policy", "team", "model", "since", "before"))
    names = sorted(path.stem for path in house.policies.glob("*.toml") if path.stem != "reviewers")
    policy, team, model = asked.one_of("policy", names), asked.team(), asked.model()
    since = asked.text("since") or "30d"
    moment = asked.time("since", since)
    form = Form("/replay", "Judge again", [
        Field("policy", "Policy", policy, choices(names, "choose one")),
        Field("team", "Team", team, most=64),
        Field("model", "Model", model, hint="team/name", most=129),
        Field("since", "Since", since, hint="30d, 12h, or 2026-11-29T15:17:00Z", most=20),
    ])  # fmt: skip
    about = Text(
        "Stored evidence is judged again under another policy; nothing is run, and nothing is written. "
        "`acceptd policy replay` does all of it at once.",
        own=True,
    )
    if not policy:
        return Page("Policy replay", [about, form], nav="Replay")
    with house.turn:
        numbers = verdict_numbers(
            house.ledger, since=moment, team=team, model=model, before=asked.number("before")
        )
    if not house.replaying.acquire(blocking=False):
        raise UsageError("a replay is under way on this console", remedy="wait for it, then load the page again")
    try:
        found, done, rules = _judge(house, policy, numbers)
    finally:
        house.replaying.release()
    given = {"policy": policy, "team": team, "model": model, "since": since}
    rest = numbers.rows[done:]
    older = str(numbers.rows[done - 1]) if rest else numbers.older
    counts = Counter(one.status for one in found)
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "none"
    note = (
        f"stopped after {SECONDS:.0f} s with {len(rest)} of this page to go" if rest else numbers.note("verdicts")
    )
    return Page(
        "Policy replay",
        [
            about,
            form,
            Facts([
                ("Policy", policy), ("Policy digest", Cell(rules, look="code")), ("Judged again", len(found)),
                ("Came to", said), ("Judged otherwise by this version", sum(one.drifted for one in found) or None),
            ]),
            _table(found),
            Pager(where("replay", before=older, **given) if older else "",
                  where("replay", **given) if asked.text("before") else "", note),
        ],
        nav="Replay",
    )  # fmt: skip


def _judge(house: House, policy: str, numbers: Slice[int]) -> tuple[list[Replayed], int, str]:
    """Return what became of the verdicts until the time was up, how many that were, and the policy's digest."""
    rules = load_policy(policy_file(house.policies, policy))
    work = Replay(house.ledger, KeptOutputs(Paths(house.state).outputs), rules)
    until = time.monotonic() + SECONDS
    found: list[Replayed] = []
    for one in work.run(numbers.rows):
        found.append(one)
        if time.monotonic() > until:
            break
    return found, len(found), digest(rules)


def _table(found: list[Replayed]) -> Table:
    rows = [
        (
            Cell(one.submission, where("submissions", one.submission)),
            Cell(one.model, model_at(one.model)) if one.model.count("/") == 1 else one.team,
            Cell(one.status, look="held" if one.status == "changed" else "soft"),
            Cell(one.old, look=one.old),
            Cell(one.new, look=one.new),
            _codes(one),
            one.reason,
        )
        for one in found
    ]
    head = ("Submission", "Model", "Status", "Was", "Would be", "Findings", "Why")
    return Table(
        "What the policy would have said, newest first", head, rows, empty="No verdict passes the filter."
    )


def _codes(one: Replayed) -> str:
    signs = [(sign, counts) for sign, counts in (("+", one.added or {}), ("-", one.removed or {}))]
    return ", ".join(
        f"{sign}{code}{f' ×{count}' if count > 1 else ''}"
        for sign, counts in signs
        for code, count in counts.items()
    )
