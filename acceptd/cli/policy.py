"""``acceptd policy``: what the rules say, and what a finding code means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state, console
from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.judge.codes import CODES
from acceptd.policy.load import digest, load_policy
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
    code: Annotated[str, typer.Argument(help="A finding code, for example external-data/path-escape.")],
) -> None:
    """Print what a finding code means, and how to mend it."""
    known = CODES.get(code)
    if known is None:
        near = [name for name in CODES if name.startswith(code.partition("/")[0] + "/")][:8]
        raise UsageError(
            f"there is no finding code {code!r}", remedy=f"did you mean one of: {', '.join(near) or '—'}"
        )
    out = console()
    out.print(f"{code}  ({known.severity}, for the {known.audience})", markup=False)
    out.print(f"\n{known.meaning}\n\nRemedy: {known.remedy}", markup=False)
