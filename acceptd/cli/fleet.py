"""``acceptd fleet``: how the machines stand, what stands still and why; drain one, make the database ready."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.cli.times import span as seconds_of
from acceptd.config import load_settings, require_state
from acceptd.errors import LedgerStorageError, StateError, UsageError
from acceptd.fleet.nodes import CHANNEL, Node, Nodes
from acceptd.record.log import Ledger
from acceptd.report.escape import line, printable_data

app = typer.Typer(help="Many machines: status, drain, undrain, forget, init, enroll.", no_args_is_help=True)

WATCH_SECONDS = 2.0
"""How often ``--watch`` looks where no node says that it has changed."""
_WAIT_SECONDS = 5.0


@app.command("init")
def init(
    finish: Annotated[
        bool, typer.Option("--finish", help="After an upgrade, when no node of the version before runs any more.")
    ] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Make the fleet's database ready, or bring it to this version: tables, roles and rights, the task queue.

    As the database's owner, whom `[record] url` or ACCEPTD_RECORD_URL names. Run it again as often as you like.
    """
    from acceptd.fleet.ready import make_ready

    done = make_ready(chosen_state(state), finish=finish)
    if json_:
        typer.echo(json.dumps(printable_data(asdict(done)), sort_keys=True))
        return
    from acceptd.cli.tables import print_pairs

    print_pairs(console(), done.words())


@app.command("enroll")
def enroll(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print what lets this node take part: lines for the policy, and its login in the database.

    Nobody's word counts before the lines stand in the policies directory of every node.
    """
    from acceptd.fleet.enroll import TRUSTED, login_lines, profiles_taken, trust_lines
    from acceptd.record.node_key import node_signer

    place = require_state(chosen_state(state)).state
    settings = load_settings(place)
    if settings.fleet is None:
        raise UsageError(
            f"{place}: this state is no node of a fleet", remedy="acceptd init --role ROLE --state DIR makes one"
        )
    name, role = settings.fleet.node, settings.fleet.role
    tables: list[str] = []
    key_id = ""
    if TRUSTED[role]:
        key = node_signer(place).public_key()
        key_id = key.key_id
        profiles = profiles_taken(settings)
        tables = [trust_lines(name, one, key, profiles) for one in TRUSTED[role]]
    login = login_lines(name, role)
    if json_:
        body = {"name": name, "role": role, "key_id": key_id, "policy": "\n\n".join(tables), "sql": login}
        typer.echo(json.dumps(body, sort_keys=True))
        return
    out = console()
    if tables:
        out.print(
            "# for every node's policy: in [fleet], in the place of `trust = []`", markup=False, soft_wrap=True
        )
    for text in tables or ["# a promoter needs no [[fleet.trust]]: what it says bears the ledger's key"]:
        out.print(f"{text}\n", markup=False, soft_wrap=True)
    out.print(f"-- in the database, as the record's owner\n{login}", markup=False, soft_wrap=True)


@app.command("status")
def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it whenever it changes, until Ctrl-C.")] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the nodes, the queues, what stands still and why, and how it is mended."""
    from acceptd.cli.fleet_words import as_json, print_standing
    from acceptd.fleet.look import look

    place = require_state(chosen_state(state)).state
    with Ledger.open(place, create=False, read_only=True) as ledger:
        if json_:
            typer.echo(json.dumps(as_json(look(ledger)), sort_keys=True))
            return
        out = console()
        if not watch:
            print_standing(out, look(ledger))
            return
        with _ear(place) as ear:
            while True:
                try:
                    facts = look(ledger)
                except LedgerStorageError as error:
                    out.print(line(f"the record is away: {error}"), markup=False)
                    ear.wait(WATCH_SECONDS)
                    continue
                if sys.stdout.isatty():
                    out.clear()
                print_standing(out, facts)
                ear.wait(WATCH_SECONDS)


@app.command("drain")
def drain(
    node: Annotated[str, typer.Argument(help="The node's name, as `acceptd fleet status` shows it.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when nothing runs there any more.")] = False,
    within: Annotated[str, typer.Option("--within", help="How long to wait: 90s, 2h.")] = "1h",
    state: StateOption = None,
) -> None:
    """Let a node finish what runs, and take no more. Exit 4 where --wait ends before it is drained."""
    seconds = seconds_of(within, option="--within")
    place = require_state(chosen_state(state)).state
    out = console()
    with Ledger.open(place, create=False) as ledger:
        nodes = Nodes(ledger)
        fresh = nodes.drain(node)
        found = _named(nodes, node)
        words = "is to drain" if fresh else "was told before"
        out.print(f"{line(node)} {words}: {_runs(found)}", markup=False)
        if wait:
            _wait_until_drained(place, nodes, node, seconds, lambda text: out.print(line(text), markup=False))


@app.command("undrain")
def undrain(
    node: Annotated[str, typer.Argument(help="The node's name, as `acceptd fleet status` shows it.")],
    state: StateOption = None,
) -> None:
    """Let a node that was drained take work again."""
    place = require_state(chosen_state(state)).state
    with Ledger.open(place, create=False) as ledger:
        fresh = Nodes(ledger).drain(node, on=False)
    words = "takes work again" if fresh else "was not drained"
    console().print(f"{line(node)} {words}", markup=False)


@app.command("forget")
def forget(
    node: Annotated[str, typer.Argument(help="A node that is gone.")],
    state: StateOption = None,
) -> None:
    """Take a node that is gone out of the list. Its key is trusted until the policy says otherwise."""
    place = require_state(chosen_state(state)).state
    with Ledger.open(place, create=False) as ledger:
        Nodes(ledger).forget(node)
    words = f"{line(node)} is forgotten; its [[fleet.trust]] stays in the policy until you take it out"
    console().print(words, markup=False)


def _named(nodes: Nodes, name: str) -> Node:
    for one in nodes.all():
        if one.name == name:
            return one
    raise UsageError(f"no node is called {name!r:.80}", remedy="`acceptd fleet status` lists them")


def _runs(node: Node) -> str:
    if node.status == "gone":
        return "it is gone; it hears of it at its next start"
    return f"{node.status}, {node.told.running} running"


def _wait_until_drained(place: Path, nodes: Nodes, name: str, seconds: int, say: Callable[[str], None]) -> None:
    until = time.monotonic() + seconds
    said = ""
    with _ear(place) as ear:
        while True:
            node = _named(nodes, name)
            if not node.draining:
                raise StateError(f"{name} was undrained meanwhile", remedy=f"acceptd fleet drain {name} --wait")
            if node.status in {"drained", "gone"}:
                say(f"{name} is {node.status}")
                return
            words = _runs(node)
            if words != said:
                say(f"{name}: {words}")
                said = words
            left = until - time.monotonic()
            if left <= 0:
                say(f"{name} is not drained yet: {words}")
                raise typer.Exit(4)
            ear.wait(min(left, _WAIT_SECONDS))


def _ear(place: Path) -> Any:
    from contextlib import closing

    from acceptd.fleet.ear import Ear

    return closing(Ear(load_settings(place).record.url, CHANNEL))
