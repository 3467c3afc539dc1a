"""``acceptd config``: which settings hold and where each comes from; whether a daemon could start with them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import EXIT_USAGE, JsonOption, StateOption, chosen_state, console
from acceptd.cli.tables import print_table
from acceptd.config import FILE, Settings, load_settings, policies_directory, require_state
from acceptd.daemon_lock import holder
from acceptd.effective import DEFAULT, as_toml, settings_of, state_source, unknown_variables
from acceptd.errors import AcceptdError, StateError
from acceptd.report.escape import line

app = typer.Typer(help="The settings: show what holds, check before a start.", no_args_is_help=True)


@app.command("show")
def show(
    changed: Annotated[bool, typer.Option("--changed", help="Only what is no default.")] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print every setting with its value and its source: default, acceptd.toml or a variable ACCEPTD_*.

    Commands are shown with their arguments, as `ps` shows them to everybody: they are no place for a secret.
    """
    place = chosen_state(state)
    rows = [one for one in settings_of(place) if not changed or one.source != DEFAULT]
    late = _too_late(place)
    if json_:
        body = {"state": str(place), "state_source": state_source(state is not None), "warnings": late}
        typer.echo(json.dumps(body | {"settings": [asdict(one) for one in rows]}, sort_keys=True))
        return
    out = console()
    out.print(f"state  {line(place)}  ({state_source(state is not None)})", markup=False, soft_wrap=True)
    shown = [(one.key, as_toml(one.value), one.source) for one in rows]
    print_table(out, ("key", "value", "source"), shown, empty="every setting is the default")
    for word in late:
        out.print(f"note: {line(word)}", markup=False)


@app.command("check")
def check(state: StateOption = None, json_: JsonOption = False) -> None:
    """Load everything that a daemon reads at its start, and say what is wrong. Exit 2 where it would not start.

    Walls and keys are `acceptd doctor`'s to try; nothing is written.
    """
    place = chosen_state(state)
    found: list[dict[str, str]] = []

    def tried(what: str, work: Callable[[], str]) -> None:
        try:
            found.append({"what": what, "state": "ok", "seen": work(), "remedy": ""})
        except (AcceptdError, OSError) as error:
            seen, remedy = getattr(error, "message", str(error)), getattr(error, "remedy", "")
            found.append({"what": what, "state": "refused", "seen": seen, "remedy": remedy})

    tried("state", lambda: str(require_state(place).state))
    tried("settings", lambda: _settings(place))
    if found[-1]["state"] == "ok":
        settings = load_settings(place)
        tried("policy", lambda: _policy(settings))
        tried("anchor", lambda: _anchor(settings, place))
    warnings = unknown_variables(os.environ) + _too_late(place)
    if json_:
        typer.echo(json.dumps({"state": str(place), "checks": found, "warnings": warnings}, sort_keys=True))
    else:
        out = console()
        print_table(out, ("what", "state", "seen"), [(r["what"], r["state"], r["seen"]) for r in found], empty="")
        for row in found:
            if row["remedy"]:
                out.print(f"{row['what']}: {line(row['remedy'])}", markup=False)
        for word in warnings:
            out.print(f"note: {line(word)}", markup=False)
    if any(row["state"] != "ok" for row in found):
        raise typer.Exit(EXIT_USAGE)


def _settings(state: Path) -> str:
    given = [one for one in settings_of(state) if one.source != DEFAULT]
    words = f"{len(given)} set by {', '.join(sorted({one.source for one in given}))}" if given else "all defaults"
    return words if (state / FILE).exists() else f"{words}; no {FILE}"


def _policy(settings: Settings) -> str:
    from acceptd.rules import load_rules
    from acceptd.work.need import machine, require_room

    rules = load_rules(policies_directory(settings), settings.policy)
    require_room(rules, machine(settings))
    names = ", ".join(target.profile.name for target in rules.targets)
    return f"{rules.policy.name} {rules.policy_digest[:12]}, profiles {names}"


def _anchor(settings: Settings, state: Path) -> str:
    from acceptd.record.anchor import Directory, open_anchor

    anchor = open_anchor(settings.checkpoint.anchor, state)
    if anchor is None:
        return "none: every verdict says `unanchored`"
    if isinstance(anchor, Directory) and not anchor.place.is_dir():
        raise StateError(f"{anchor.place} is no directory", remedy="mount its volume, or make the directory")
    return anchor.words


def _too_late(state: Path) -> list[str]:
    """Say where the running daemon has not read what is shown here."""
    lock = state / "daemon.lock"
    pid = holder(lock)
    try:
        if pid is None or (state / FILE).stat().st_mtime <= lock.stat().st_mtime:
            return []
    except OSError:
        return []
    return [f"the running daemon (pid {pid}) started before {FILE} was changed, and reads it at its start only"]
