"""``acceptd key``: the instance's keys, where they are, and their rotation."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acceptd import key_rotation
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.cli.sealing import seal
from acceptd.cli.tables import print_table
from acceptd.config import Paths, load_settings, policies_directory, require_state
from acceptd.daemon_lock import acquire
from acceptd.errors import ConfigError, UsageError
from acceptd.fleet.enroll import TRUSTED, profiles_taken, trust_lines
from acceptd.fleet.settings import FleetTable
from acceptd.record import key_status
from acceptd.record.keys import NODE, ROLES
from acceptd.record.keystore import read_public
from acceptd.record.log import Ledger
from acceptd.release.layout import keys_lock
from acceptd.release.settle import Terms
from acceptd.report.escape import line
from acceptd.rules import load_rules

if TYPE_CHECKING:
    from acceptd.fleet.settings import Role

app = typer.Typer(help="The instance's keys: list, show, rotate; a node's own.", no_args_is_help=True)
RoleArgument = Annotated[str, typer.Argument(help="ledger, release or revocation.")]


@app.command("list")
def list_(state: StateOption = None, json_: JsonOption = False) -> None:
    """Print every key that signs or once signed, and for which entries its word counts; and this node's own."""
    paths = require_state(chosen_state(state))
    rows = key_status.every_row(paths.state)
    if json_:
        typer.echo(json.dumps([row.as_json() for row in rows], sort_keys=True))
        return
    lines = [(row.role, row.key_id[:16], row.standing, row.place, row.since_words(), row.problem) for row in rows]
    print_table(console(), ("role", "key", "state", "place", "since", "problem"), lines, empty="no key is known")


@app.command("show")
def show(
    wanted: Annotated[str, typer.Argument(help="A role, or the beginning of a key's id.")],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print one key: id, public half as PEM and base64, and its place."""
    paths = require_state(chosen_state(state))
    rows = key_status.every_row(paths.state)
    found = [row for row in rows if row.role == wanted and not row.until] or [
        row for row in rows if len(wanted) >= 8 and row.key_id.startswith(wanted)
    ]
    if len(found) != 1:
        raise UsageError(f"{len(found)} keys are {wanted!r:.80}", remedy="see `acceptd key list`")
    (row,) = found
    if not row.public:
        raise ConfigError(row.problem)
    pem = Ed25519PublicKey.from_public_bytes(row.public).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    shown: dict[str, Any] = row.as_json() | {"pem": pem.decode("ascii")}
    if json_:
        typer.echo(json.dumps(shown, sort_keys=True))
        return
    out = console()
    for name, value in shown.items():
        if name != "pem" and value not in (None, ""):
            out.print(f"{name:10} {line(value, 400)}", soft_wrap=True)
    out.print(pem.decode("ascii").strip(), markup=False)


@app.command("node")
def node(
    make: Annotated[bool, typer.Option("--make", help="Make this node's key, where it has none.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --make: in place of the one that is there.")
    ] = False,
    public: Annotated[
        Path | None,
        typer.Option("--public", help="With --make: the key is behind keys.node.command; its public half."),
    ] = None,
    role: Annotated[
        str, typer.Option("--role", help="For the policy: intake or worker; left out: as acceptd.toml says.")
    ] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the key of this node of a fleet, as the policy names it; with --make make it first."""
    from acceptd.record.node_key import make_node_key, node_signer

    if (replace or public is not None) and not make:
        raise UsageError("--replace and --public go with --make", remedy="give --make too")
    if role not in {"", "intake", "worker"}:
        raise UsageError(f"{role!r:.40} is no role that a policy trusts a node with", remedy="intake or worker")
    paths = require_state(chosen_state(state))
    if make:
        found = read_public(public.absolute(), NODE) if public is not None else None
        key = make_node_key(paths.state, public=found, replace=replace)
    else:
        key = node_signer(paths.state).public_key()
    settings = load_settings(paths.state)
    fleet = settings.fleet or FleetTable()
    text = base64.b64encode(key.raw).decode("ascii")
    if json_:
        told = {"role": NODE, "name": fleet.node, "key_id": key.key_id, "public": text}
        typer.echo(json.dumps(told, sort_keys=True))
        return
    out = console()
    out.print(f"key    {key.key_id}", soft_wrap=True)
    out.print(f"public {text}", soft_wrap=True)
    roles = TRUSTED[cast("Role", role) if role else fleet.role]
    out.print("", "for the policy:" if roles else "a promoter's own word bears the ledger's key", sep="\n")
    for one in roles:
        profiles = profiles_taken(settings) if one == "worker" else []
        out.print("", trust_lines(fleet.node, one, key, profiles), sep="\n", markup=False, soft_wrap=True)


@app.command("rotate")
def rotate(
    role: RoleArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is signed, and goes into the ledger.")] = "",
    public: Annotated[
        Path | None,
        typer.Option("--public", help="The new key is behind keys.ROLE.command; this is its public half."),
    ] = None,
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Somebody else may have the old key: nobody follows it.")
    ] = False,
    from_entry: Annotated[
        int | None,
        typer.Option(
            "--from-entry", help="With --compromised: the first entry that the old key is not trusted for."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish a rotation that was interrupted.")] = False,
    state: StateOption = None,
) -> None:
    """Let a new key follow the old one, by an entry that the old one signs. The daemon must be stopped."""
    if role not in ROLES:
        raise UsageError(f"{role!r:.40} is no role of a key", remedy=f"one of {', '.join(ROLES)}")
    if from_entry is not None and not compromised:
        raise UsageError("--from-entry goes with --compromised", remedy="give both, or none")
    paths = require_state(chosen_state(state))
    out = console()
    with _alone(paths) as (ledger, terms):
        if resume:
            for text in key_rotation.resume(paths.state, ledger, terms) or ["no rotation was interrupted"]:
                out.print(line(text, 400), markup=False, soft_wrap=True)
            return
        begins = from_entry if from_entry is not None else ledger.tree().size
        made = key_rotation.rotate(
            paths.state,
            ledger,
            role,
            reason=reason,
            public=read_public(public.absolute(), role) if public is not None else None,
            compromised_from=begins if compromised else None,
            terms=terms,
        )
    new = made.rotation.new
    out.print(f"entry {made.seq}: the {role} key is now {new.key_id}", markup=False, soft_wrap=True)
    out.print(f"public {base64.b64encode(new.raw).decode('ascii')}", markup=False, soft_wrap=True)
    for problem in made.problems:
        out.print(f"not signed anew: {line(problem, 400)}", markup=False, soft_wrap=True)
    if compromised and role != "ledger":
        out.print("give keyring.json to every loader now: none follows a key that was given up as compromised")
    if public is None and role == "revocation":
        out.print(f"move {paths.keys / 'revocation.pem'} offline again if it was", markup=False, soft_wrap=True)


@contextmanager
def _alone(paths: Paths) -> Iterator[tuple[Ledger, Terms]]:
    """Give the ledger where no daemon and no other command uses a key, and seal what was recorded at the end."""
    settings = load_settings(paths.state)
    rules = load_rules(policies_directory(settings), settings.policy)
    terms = Terms.of(rules.policy)
    descriptor = acquire(paths.lock)
    try:
        with keys_lock(paths.state, shared=False), Ledger.open(paths.state, create=False) as ledger:
            size = ledger.tree().size
            try:
                yield ledger, terms
            finally:
                if ledger.tree().size != size:
                    seal(paths.state, ledger)
    finally:
        os.close(descriptor)
