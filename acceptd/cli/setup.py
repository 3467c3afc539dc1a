"""``acceptd init``: makes the state directory, the keys and the ledger. Overwrites nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state, console, counted
from acceptd.config import FILE, Paths, load_settings
from acceptd.errors import ConfigError, StateError, UsageError
from acceptd.fleet.settings import Role
from acceptd.intake.files import write_exclusive
from acceptd.policy.names import valid_name
from acceptd.record.key_command import PROBE
from acceptd.record.keys import KEYRING, ROLES, PublicKey, create_keys
from acceptd.record.keystore import behind_command, read_public
from acceptd.record.log import Ledger
from acceptd.record.place import Place


def init(
    state: StateOption = None,
    team: Annotated[
        list[str] | None, typer.Option("--team", help="Make an inbox for this team (repeatable).")
    ] = None,
    public: Annotated[
        list[str] | None,
        typer.Option(
            "--public", help="ROLE=FILE: that role's key is behind its command in acceptd.toml (repeatable)."
        ),
    ] = None,
    role: Annotated[
        Role | None,
        typer.Option("--role", help="Make the state of a fleet's node: its directories and keys alone."),
    ] = None,
) -> None:
    """Make the state directory with its keys and ledger, and inboxes for teams."""
    paths = Paths(chosen_state(state))
    if role in {"worker", "promoter"} and team:
        raise UsageError(f"a {role} has no inboxes: --team is the intake's", remedy="leave --team out")
    if role in {"intake", "worker"} and public:
        raise UsageError(f"--public is the promoter's: this {role} has no such key", remedy="leave --public out")
    out = console()
    os.umask(0o022)
    for name in team or ():
        _check_name(name)  # before anything is made
    for path, mode in paths.directories(role or "all"):
        if not path.exists():
            path.mkdir(parents=path == paths.state, mode=mode)
            path.chmod(mode)
        elif not path.is_dir():
            raise StateError(f"{path} is not a directory", remedy="move it away")
    if role is not None:
        _settings(paths, role)
    if role not in {"intake", "worker"}:
        _instance(paths, public or (), fleet=role is not None)
    if role is not None and role != "promoter":
        _node_key(paths)
    for name in team or ():
        make_team(paths, name)
        out.print(f"inbox      {paths.inbox / name}")
    out.print(f"state      {paths.state}")


def _instance(paths: Paths, public: Sequence[str], *, fleet: bool) -> None:
    """Make the keys and the ledger of an instance; in a fleet the ledger is a database, once one is named."""
    out = console()
    if any(paths.keys.iterdir()) and os.path.lexists(paths.state / KEYRING):
        out.print(f"keys       {paths.keys} (kept: they are never overwritten)")
    else:
        elsewhere = _behind_commands(paths, public)
        keyring = create_keys(paths.state, elsewhere)
        own = len(keyring.keys) - len(elsewhere)
        out.print(f"keys       {paths.keys} (0600; {own} Ed25519 pairs)")
        for role, key in elsewhere.items():
            out.print(f"key        {role} {key.key_id[:16]} behind its command")
    if fleet and not Place.of(paths.state).url:
        return
    with Ledger.open(paths.state) as ledger:
        out.print(f"ledger     {Place.of(paths.state)} ({counted(ledger.tree().size, 'entry', 'entries')})")


def _settings(paths: Paths, role: Role) -> None:
    """Say in acceptd.toml which node it is, where nothing says so yet."""
    out, place = console(), paths.state / FILE
    if not os.path.lexists(place):
        write_exclusive(
            paths.state, FILE, _SETTINGS.format(role=role, name=_node_name(paths.state)).encode(), 0o644
        )
        out.print(f"settings   {place} (look at its name; name the record and the object store there)")
    if load_settings(paths.state).fleet is None:
        raise ConfigError(f"{place}: there is no [fleet] in it", remedy=f'add [fleet] with role = "{role}"')


def _node_name(state: Path) -> str:
    """Return the name of a state's node: what the units call it, ``w1`` of ``acceptd-w1``; else the host's."""
    from pydantic import ValidationError

    from acceptd.fleet.settings import FleetTable

    named = state.name.removeprefix("acceptd-")
    try:
        return FleetTable(name=named if named != state.name else "").node
    except ValidationError:  # no name of a node
        return FleetTable().node


def _node_key(paths: Paths) -> None:
    from acceptd.fleet.settings import FleetTable
    from acceptd.record.keys import NODE
    from acceptd.record.keystore import has_file
    from acceptd.record.node_key import make_node_key, node_signer

    here = has_file(paths.state, NODE)
    key = node_signer(paths.state).public_key() if here else make_node_key(paths.state)
    name = (load_settings(paths.state).fleet or FleetTable()).node
    console().print(f"node       {name} {key.key_id[:16]} (`acceptd key node` prints it for the policy)")


_SETTINGS = """\
[fleet]
role = "{role}"
name = "{name}"

# [record]
# url = "postgresql://{name}@database.example/acceptd"   # the login of this node; no password here

# [objects]
# url = "s3://bucket/prefix"
"""


def _behind_commands(paths: Paths, words: Sequence[str]) -> dict[str, PublicKey]:
    """Return the public keys whose private halves commands hold; each has shown that it signs."""
    found: dict[str, PublicKey] = {}
    for word in words:
        role, _, file = word.partition("=")
        if role not in ROLES or not file:
            raise UsageError(
                f"--public {word!r:.80} is no ROLE=FILE", remedy=f"a role is one of {', '.join(ROLES)}"
            )
        found[role] = read_public(Path(file).absolute(), role)
        behind_command(paths.state, found[role]).sign(PROBE)
    return found


def make_team(paths: Paths, name: str) -> None:
    """Make the inbox of one team; only the operator does."""
    _check_name(name)
    (paths.inbox / name).mkdir(mode=0o755, exist_ok=True)
    (paths.outbox / name).mkdir(mode=0o755, exist_ok=True)


def _check_name(name: str) -> None:
    try:
        valid_name(name)
    except ValueError as error:
        raise UsageError(str(error), remedy="choose another team name") from error
