"""``acceptd status``: what is waiting and running, what was judged, what was given up, what is in production."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.cli.release_words import held_json, held_line
from acceptd.cli.tables import print_pairs
from acceptd.cli.times import span
from acceptd.config import Paths, load_settings, policies_directory, require_state
from acceptd.daemon_lock import holder
from acceptd.errors import ConfigError, UsageError
from acceptd.export import tally
from acceptd.local import free_space
from acceptd.policy.load import load_policy
from acceptd.policy.observe import ObserveTable, observe_table
from acceptd.record import leases
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.record.tables import FINAL_STATES
from acceptd.release.book import read_book
from acceptd.report import promoted
from acceptd.report.escape import line
from acceptd.retention.usage import disk_use, gib
from acceptd.rules import policy_file
from acceptd.work import snapshot

GIVEN_UP_SHOWN = 5


def status(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many submissions.")] = 20,
    team: Annotated[str | None, typer.Option("--team", help="Only this team's.")] = None,
    portfolio: Annotated[
        bool, typer.Option("--portfolio", help="Every model instead: releases, and what needs a person soon.")
    ] = False,
    within: Annotated[str, typer.Option("--within", help="Portfolio: how far ahead soon is: 30d.")] = "",
    all_: Annotated[bool, typer.Option("--all", help="Portfolio: list what is in order too.")] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the state of the queue, what runs, what was given up, and the newest submissions."""
    paths = require_state(chosen_state(state))
    if portfolio:
        from acceptd.cli.portfolio import portfolio as print_portfolio

        seconds = span(within or "30d", option="--within")
        print_portfolio(paths, team=team, within_seconds=seconds, all_=all_, json_=json_)
        return
    if within or all_:
        raise UsageError("--within and --all go with --portfolio", remedy="acceptd status --portfolio")
    with Ledger.open(paths.state, create=False) as ledger:
        queue = Queue(ledger)
        counts = queue.counts()
        rows = queue.find(team=team, limit=limit)
        given_up = leases.newest(ledger, limit if json_ else GIVEN_UP_SHOWN)
        frozen = read_book(ledger).holds.all_frozen()
    pid = holder(paths.lock)
    daemon = f"running (pid {pid})" if pid else "not running"
    work = snapshot.read(paths.state, pid) if pid else None
    unfinished = sum(count for name, count in counts.items() if name not in FINAL_STATES)
    if work is not None:
        inside = work["queue"]["waiting"] + len(work["leases"]) + work["recording"]
        work["queue"]["beyond"] = max(0, unfinished - inside)
    follow = tally.read(paths.state)
    disk = disk_use(paths) | {"free": free_space(paths.state)}
    observe = observed_now(paths)
    if json_:
        body = [
            {
                "submission": row.id,
                "team": row.team,
                "name": row.name,
                "state": row.state,
                "verdict": row.data.get("verdict"),
                "observed": bool(row.data.get("observed")),
                "model": row.model,
                "bundle_digest": row.bundle_digest,
                "release": row.data.get("release"),
                "releases": row.data.get("releases"),
                "promotion_trouble": row.data.get("promotion_trouble"),
                "received_at": row.received_at,
            }
            for row in rows
        ]
        document = {
            "disk": disk,
            "daemon": daemon,
            "counts": counts,
            "submissions": body,
            "work": work,
            "given_up": given_up,
            "follow": follow,
            "frozen": [held_json(one) for one in frozen],
            "observe": observe.model_dump() if isinstance(observe, ObserveTable) else None,
        }
        typer.echo(json.dumps(document, sort_keys=True))
        return
    out = console()
    out.print(
        f"daemon   {daemon}   " + "  ".join(f"{name} {count}" for name, count in counts.items() if count),
        markup=False,
    )
    print_pairs(out, [("disk", ", ".join(f"{name} {gib(size)}" for name, size in disk.items() if size))], width=7)
    if work is not None:
        _print_work(out, work)
    for text in tally.lines(follow):
        out.print(text, markup=False)
    if isinstance(observe, str) or any(observe.words()):
        told = observe if isinstance(observe, str) else "; ".join(observe.words())
        print_pairs(out, [("observe", told)], width=7)
    print_pairs(out, [("frozen", held_line(one)) for one in frozen], width=7)
    if given_up:
        _print_given_up(out, given_up)
    out.print(submissions(rows) if rows else "nothing was submitted yet")


def observed_now(paths: Paths) -> ObserveTable | str:
    """Return what the running daemon observes, else what the policy's file says, else why it cannot be read."""
    pid = holder(paths.lock)
    told = snapshot.read(paths.state, pid) if pid else None
    if told is not None and (found := observe_table(told.get("observe"))) is not None:
        return found
    try:
        settings = load_settings(paths.state)
        return load_policy(policy_file(policies_directory(settings), settings.policy)).observe
    except ConfigError as error:
        return f"not known: {error.message}"


def submissions(rows: Sequence[Submission]) -> Table:
    """Return the table of submissions; a drop's name is whatever its team called it."""
    table = Table(box=None, pad_edge=False)
    for column in ("submission", "team", "drop", "result", "release"):
        table.add_column(column, no_wrap=column != "drop", overflow="fold")
    for row in rows:
        number = promoted.places(row.data) or ("not promoted" if promoted.troubles(row.data) else "")
        cells = (row.id, row.team, row.name, _result(row), number)
        table.add_row(*(Text(line(cell, 200)) for cell in cells))
    return table


def _result(row: Submission) -> str:
    """Return the verdict of what is done; of anything else, and where the daemon died over it, where it stands."""
    verdict = str(row.data.get("verdict") or "")
    if row.state != "done" or not verdict:
        return row.state
    return f"observed: {verdict}" if row.data.get("observed") else verdict


def _print_work(out: Console, work: dict[str, Any]) -> None:
    """Print budget, queue and running leases, as the daemon last wrote them."""
    budget, queue = work["budget"], work["queue"]
    out.print(
        f"budget   {budget['cores_held']} of {budget['cores']} cores and "
        f"{_gib(budget['memory_bytes_held'])} of {_gib(budget['memory_bytes'])} held",
        markup=False,
    )
    waiting = f"queue    {queue['waiting']} of at most {queue['limit']} wait"
    if queue["beyond"]:
        waiting += f"; {queue['beyond']} more stand in the database until there is room"
    out.print(waiting, markup=False)
    if queue["lanes"]:
        lanes = "  ".join(f"{lane['profile']}/{lane['team']} {lane['waiting']}" for lane in queue["lanes"][:8])
        out.print(f"         {lanes}", markup=False)
    meter = work["meter"]
    over = {state: row for state, row in meter["held_now"].items() if state != "held" and row["leases"]}
    for state, row in over.items():
        out.print(
            f"         {state}: {row['leases']} holding {row['cores']} cores and {_gib(row['memory_bytes'])}",
            markup=False,
        )
    if meter["given_up"]:
        reasons = ", ".join(f"{reason} {count}" for reason, count in meter["given_up"].items())
        out.print(
            f"given up since the start: {reasons}; longest still-running {meter['longest_still_running_s']:.1f} s",
            markup=False,
        )
    if work["leases"]:
        table = _table("running", "team", "profile", "state", "cores", "memory", "for", "deadline in")
        for lease in work["leases"]:
            shown = "running" if lease["state"] == "held" else lease["state"]  # "held" is a verdict's word
            state = f"{shown} ({lease['reason']})" if lease["reason"] else shown
            table.add_row(
                lease["submission"],
                lease["team"],
                lease["profile"],
                state,
                str(lease["cores"]),
                _gib(lease["memory_bytes"]),
                f"{lease['since_s']:.0f} s",
                f"{lease['deadline_in_s']:.0f} s",
            )
        out.print(table)


def _print_given_up(out: Console, rows: list[dict[str, Any]]) -> None:
    """Print the newest leases that were given up, and how long the budget took to come back."""
    table = _table("given up", "submission", "team", "why", "state", "cores", "memory", "released after")
    for row in rows:
        at = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(row["abandoned_at"]))
        after = f"{row['seconds']:.2f} s" if row["seconds"] is not None else ""
        if row["closed_by"] == "restart":
            after = "the daemon's death"
        cells = (at, row["submission"], row["team"], row["reason"], row["state"], str(row["cores"]))
        table.add_row(*cells, _gib(row["memory_bytes"]), after)
    out.print(table)


def _table(*columns: str, folded: str = "") -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column != folded, overflow="fold")
    return table


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
