"""``acceptd policy``: what the rules say, and what a finding code means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console
from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.judge.codes import CODES
from acceptd.policy.load import digest, load_policy
from acceptd.report.explain import explained, near, print_explained
from acceptd.rules import policy_file

app = typer.Typer(help="The acceptor's rules.", no_args_is_help=True)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A policy's name or path.")] = "default", state: StateOption = None
) -> None:
    """Print one policy as validated, with its digest."""
    out = console()
    directory = policies_directory(load_settings(chosen_state(state)))
    path = policy_file(directory, name)
    loaded = load_policy(path)
    out.print(f"policy {loaded.name}  {path}", markup=False)
    out.print(f"digest {digest(loaded)}", markup=False)
    out.print_json(data=loaded.model_dump(mode="json", by_alias=True))


@app.command("check")
def check(path: Annotated[Path, typer.Argument(help="A policy file.")]) -> None:
    """Validate one policy file."""
    loaded = load_policy(path)
    console().print(f"{path}: valid, digest {digest(loaded)}", markup=False)


@app.command("explain")
def explain(
    code: Annotated[str, typer.Argument(help="A finding code, for example external-data/path-escape.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Explain every code.")] = False,
    policy: Annotated[str, typer.Option("--policy", help="Say what this policy makes of it.")] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what a finding code means, why it matters, how to mend it and where to read more."""
    if every == bool(code):
        raise UsageError(
            "give one finding code, or --all", remedy="acceptd policy explain external-data/path-escape"
        )
    if code and code not in CODES:
        found = near(code)
        hint = f"did you mean {', '.join(found)}?" if found else "--all lists every code"
        raise UsageError(f"there is no finding code {code!r}", remedy=hint)
    configured: Mapping[str, str] = {}
    if policy:
        directory = policies_directory(load_settings(chosen_state(state)))
        configured = load_policy(policy_file(directory, policy)).severity
    names = sorted(CODES) if every else [code]
    if json_:
        facts = [explained(name) | {"configured": configured.get(name)} for name in names]
        typer.echo(json.dumps(facts if every else facts[0], sort_keys=True))
        return
    out = console()
    for number, name in enumerate(names):
        if number:
            out.print()
        print_explained(out, name, configured.get(name, ""))
