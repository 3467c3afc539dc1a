"""``acceptd doctor``: each wall on this host, proved by trying, with why it matters and the remedy."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from acceptd.cell import doctor as cell_doctor
from acceptd.cell.check import Check
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console, counted, progress_console
from acceptd.cli.tables import print_pairs
from acceptd.config import Paths, load_settings, policies_directory
from acceptd.errors import AcceptdError
from acceptd.local import free_space
from acceptd.objectstore.settings import ObjectsTable
from acceptd.record import key_status
from acceptd.record.anchor import open_anchor
from acceptd.record.checkpoint import exported
from acceptd.record.keystore import own_history
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.report.escape import line, size
from acceptd.retention.rules import KEYS
from acceptd.retention.usage import disk_use, gib
from acceptd.rules import load_rules


def doctor(
    policy: Annotated[str, typer.Option("--policy", help="Whose required walls decide the exit code.")] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Try every wall and check the installation. Exit 5 if a required wall or the profile's runtime fails."""
    place = chosen_state(state)
    settings = load_settings(place)
    rules = load_rules(policies_directory(settings), policy or settings.policy)
    with progress_console().status("trying each wall from inside a job"):
        checks = cell_doctor.examine([target.profile for target in rules.targets])
    required: set[str] = set(rules.policy.required_walls)
    broken = [one for one in checks if one.state != "enforced" and _needed(one.name, required)]
    facts = cell_doctor.host() | _installation(place)
    if json_:
        body = {"host": facts, "policy": rules.policy.name, "required": sorted(required)}
        typer.echo(json.dumps(body | {"checks": [asdict(one) for one in checks]}, sort_keys=True))
    else:
        _print(checks, required, facts, rules.policy.name)
    raise typer.Exit(5 if broken else 0)


def _needed(name: str, required: set[str]) -> bool:
    """Without its profile's runtime no submission can be judged, whatever the walls."""
    return name in required or name.startswith("runtime ")


def _print(checks: list[Check], required: set[str], facts: dict[str, str], policy: str) -> None:
    out = console()
    table = Table(box=None, pad_edge=False, show_header=True)
    for column in ("", "wall", "state", "why it matters"):
        table.add_column(column, overflow="fold")
    for one in checks:
        mark = "ok" if one.state == "enforced" else ("!!" if _needed(one.name, required) else "--")
        why = one.meaning if not one.seen else f"{one.meaning} ({line(one.seen, 600)})"
        table.add_row(mark, one.name, one.state, why)
    out.print(table)
    for one in checks:
        if one.remedy:
            needed = f"required by policy {policy}" if _needed(one.name, required) else "not required"
            out.print(f"\n{one.name} ({needed}): {one.remedy}", markup=False)
    out.print()
    free = {"free_bytes": size(int(facts["free_bytes"]))} if "free_bytes" in facts else {}
    print_pairs(out, list((facts | free).items()))


def _installation(state: Path) -> dict[str, str]:
    paths = Paths(state)
    if not state.is_dir():
        return {"state": f"{state} does not exist (acceptd init)"}
    facts = {"state": str(state), "free_bytes": str(free_space(state)), "record": _record(state)}
    facts["ledger"] = _standing(state)
    facts["disk"] = ", ".join(f"{name} {gib(size)}" for name, size in disk_use(paths).items() if size)
    facts["retention"] = _days(state)
    if (objects := load_settings(state).objects).url:
        facts["objects"] = _objects(objects, state)
    facts |= _keys(state)
    try:
        fleet = load_settings(state).fleet
        role = fleet.role if fleet is not None else "all"
        missing = paths.missing(role)
        option = "" if role == "all" else f" --role {role}"
        facts["layout"] = "whole" if not missing else f"{missing[0]} is missing (acceptd init{option})"
    except (OSError, AcceptdError) as error:
        facts["layout"] = str(error)
    return facts


def _objects(table: ObjectsTable, state: Path) -> str:
    """Say whether the object store is there and writes a name once, by trying it."""
    from acceptd.objectstore.objects import open_objects

    try:
        with open_objects(table, state) as objects:
            words = objects.check()
    except AcceptdError as error:
        return f"not usable: {error}"
    clear = "; in clear: who listens on the wire reads the models" if table.endpoint.startswith("http://") else ""
    return f"{objects.remote.where}: {words}{clear}"


def _days(state: Path) -> str:
    """Say after how many days what goes."""
    table = load_settings(state).retention
    days = {what: getattr(table, key) for what, key in KEYS.items()}
    return ", ".join(f"{what} {f'{count} d' if count else 'never'}" for what, count in days.items())


def _keys(state: Path) -> dict[str, str]:
    """Say where each role's key is and whether it signs, by asking it."""
    try:
        with Ledger.open(state, create=False) as ledger:
            return key_status.examine(state, ledger, time.time())
    except AcceptdError as error:
        return {"keys": f"not known: {error}"}


def _record(state: Path) -> str:
    """Say where the record is, and what there makes its promises weaker than they read."""
    try:
        place = Place.of(state)
        store = place.open(busy_seconds=5.0, read_only=True)
        try:
            doubts = store.doubts()
        finally:
            store.close()
    except AcceptdError as error:
        return str(error)
    return "; ".join([str(place), *doubts])


def _standing(state: Path) -> str:
    """Say whether a place outside the state keeps the ledger's checkpoints, by asking it."""
    try:
        anchor = open_anchor(load_settings(state).checkpoint.anchor, state)
        if anchor is None:
            return "unanchored: name a place outside the state as checkpoint.anchor in acceptd.toml"
        with Ledger.open(state, create=False) as ledger:
            kept = exported(anchor, own_history(state, ledger), ledger.origin)
    except AcceptdError as error:
        return f"unanchored: {error}"
    return f"anchored in {anchor.words}" + (
        f" at {counted(kept.size, 'entry', 'entries')}" if kept else ": it keeps no checkpoint yet"
    )
