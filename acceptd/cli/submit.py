"""``acceptd submit``: copy a bundle into an inbox, whole and at once; with ``--wait`` stay for the verdict."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import (
    EXIT_BY_VERDICT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    end_in_order,
    existing,
    progress_console,
)
from acceptd.cli.stages import Stages
from acceptd.config import Paths, require_state
from acceptd.daemon_lock import holder
from acceptd.dropping import POLL_SECONDS, drop, find, unique
from acceptd.errors import StateError, UsageError
from acceptd.local import kind_of
from acceptd.policy.names import valid_name
from acceptd.report.escape import line
from acceptd.report.observed import would
from acceptd.report.terminal import print_verdict
from acceptd.work import progress_file


def submit(
    path: Annotated[Path, typer.Argument(help="A bundle: a directory, .zip, .tar or .tar.gz.")],
    team: Annotated[str, typer.Option("--team", help="Whose inbox; default: the only team there is.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Stay until the verdict is there.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="With --wait: seconds.")] = 600.0,
    json_: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Drop a bundle into the inbox of a team."""
    paths = require_state(chosen_state(state))
    source = existing(path, "the bundle").resolve()
    kind = kind_of(source)
    chosen = team or _only_team(paths)
    inbox = paths.inbox / _valid(chosen)
    if not inbox.is_dir():
        raise UsageError(
            f"there is no inbox for team {chosen!r}", remedy="the operator makes it: acceptd init --team"
        )
    end_in_order()
    name = unique(source.name, kind)
    drop(source, inbox, name, directory=kind == "directory")
    if not wait:
        if json_:
            typer.echo(json.dumps({"team": chosen, "drop": name}))
        else:
            console().print(f"dropped as {chosen}/{name}{_unheard(paths)}", markup=False)
        return
    raise typer.Exit(_wait(paths, chosen, name, timeout, as_json=json_))


def _unheard(paths: Paths) -> str:
    return "" if holder(paths.lock) else "; no daemon is running, it waits until one does"


def _valid(team: str) -> str:
    try:
        return valid_name(team)
    except ValueError as error:
        raise UsageError(str(error), remedy="give --team") from error


def _only_team(paths: Paths) -> str:
    teams = sorted(item.name for item in paths.inbox.iterdir() if item.is_dir())
    if len(teams) != 1:
        raise UsageError(
            "more than one team, or none", remedy=f"give --team (there are: {', '.join(teams) or 'none'})"
        )
    return teams[0]


def _wait(paths: Paths, team: str, name: str, timeout: float, *, as_json: bool) -> int:
    try:
        report = _watch(paths, team, name, timeout)
    except (KeyboardInterrupt, SystemExit):
        # What was dropped is dropped: only the waiting ends here.
        progress_console().print(
            f"no longer waiting; {line(team)}/{line(name)} goes on: see {line(paths.outbox / team)}",
            soft_wrap=True,
        )
        raise
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=True, sort_keys=True))
    else:
        print_verdict(console(), report)
    if not report.get("observed"):
        return EXIT_BY_VERDICT[report["verdict"]]
    word = would(report["verdict"]).upper()
    told = f"acceptd: OBSERVE MODE: {word}; nothing is blocked or promoted, so this ends with 0"
    progress_console().print(told, soft_wrap=True)
    return 0


def _watch(paths: Paths, team: str, name: str, timeout: float) -> dict[str, Any]:
    """Return the verdict's report; show meanwhile what is done with the drop. StateError after ``timeout``."""
    deadline = time.monotonic() + timeout
    known: set[str] = set()
    with Stages(team, name, running=holder(paths.lock) is not None) as stages:
        while time.monotonic() < deadline:
            report = find(paths.outbox / team, name, known)
            if report is not None:
                return report
            stages.show(progress_file.read(paths.outbox, team, name))
            time.sleep(POLL_SECONDS)
    raise StateError(
        f"no verdict on {team}/{name} within {timeout:g} s",
        remedy="see `acceptd status`: is the daemon running?",
    )
