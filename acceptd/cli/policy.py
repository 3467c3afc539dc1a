"""``acceptd policy``: what the rules say, and what a finding code means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli import heldout
from acceptd.cli.common import EXIT_USAGE, JsonOption, StateOption, chosen_state, console
from acceptd.cli.replay import replay
from acceptd.cli.schema import known
from acceptd.cli.schema import names as schema_names
from acceptd.config import load_settings, policies_directory
from acceptd.errors import UsageError
from acceptd.json_schemas import schema_text
from acceptd.judge.codes import CODES
from acceptd.policy.check import KINDS, Kind, examine
from acceptd.policy.difference import changes
from acceptd.policy.load import digest, load_policy
from acceptd.report.escape import line
from acceptd.report.explain import explained, known_code, print_explained
from acceptd.rules import policy_file

app = typer.Typer(help="The acceptor's rules.", no_args_is_help=True)
app.add_typer(heldout.app, name="heldout")
app.command("replay")(replay)


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
def check(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files, or policy directories; default: the installation's own.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option("--kind", help="policy, contract, defaults, profile, reviewers; default: by place and keys."),
    ] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Validate policies, contracts, profiles, reviewers. Every error is file:line: key: message. Exit 2 if any."""
    if kind and kind not in KINDS:
        raise UsageError(f"--kind {kind!r}: no such kind", remedy=f"one of {', '.join(KINDS)}")
    chosen: Kind | None = next((one for one in KINDS if one == kind), None)
    rows: list[dict[str, object]] = []
    files = _files(paths or [policies_directory(load_settings(chosen_state(state)))])
    out = console()
    for path in files:
        what, troubles = examine(path, chosen)
        for one in troubles:
            rows.append({"file": str(path), "kind": what} | asdict(one))
            if not json_:
                out.print(line(one.text(path), 2000), soft_wrap=True)
                if one.remedy:
                    out.print(f"  → {line(one.remedy, 1000)}", soft_wrap=True)
        valid = f"valid {what}" if what in {"reviewers", "defaults"} else f"a valid {what}"
        if not troubles and not json_:
            out.print(f"{line(path)}: {valid}", soft_wrap=True)
    if json_:
        typer.echo(json.dumps({"files": [str(path) for path in files], "troubles": rows}, sort_keys=True))
    raise typer.Exit(EXIT_USAGE if rows else 0)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the TOML files of ``paths``: a policy directory's own, its profiles and its contracts."""
    result: list[Path] = []
    for path in paths:
        if not path.is_dir():
            result.append(path)
            continue
        found = sorted([*path.glob("*.toml"), *path.glob("profiles/*.toml"), *path.glob("contracts/*/*.toml")])
        found += sorted(path.glob("contracts/defaults/*/*.toml"))
        if not found:
            raise UsageError(f"{path} holds no .toml file", remedy="name a file, or a policy directory")
        result += found
    return result


@app.command("schema")
def schema(
    kind: Annotated[
        str, typer.Argument(help="A name of `acceptd schema list`.", autocompletion=schema_names)
    ] = "policy",
) -> None:
    """Print the JSON Schema of what people write or acceptd signs, as `acceptd schema show` does."""
    typer.echo(schema_text(known(kind)), nl=False)


@app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(help="A policy's name or path.")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print in what the second policy differs from the first, and whether it is stricter or laxer there."""
    directory = policies_directory(load_settings(chosen_state(state)))
    policies = [load_policy(policy_file(directory, name)) for name in (first, second)]
    found = changes(*policies)
    if json_:
        rows = [asdict(one) for one in found]
        digests = [digest(policy) for policy in policies]
        typer.echo(json.dumps({"digests": digests, "changes": rows}, sort_keys=True))
        return
    out = console()
    for one in found:
        out.print(f"{one.tendency:8} {line(one.text(), 4000)}", soft_wrap=True)
    out.print(f"{len(found)} difference{'s' if len(found) > 1 else ''}" if found else "no difference: one digest")


def codes(incomplete: str) -> list[str]:
    """Return the finding codes that a shell may complete."""
    return sorted(code for code in CODES if code.startswith(incomplete))


@app.command("explain")
def explain(
    code: Annotated[
        str,
        typer.Argument(help="A finding code, for example external-data/path-escape.", autocompletion=codes),
    ] = "",
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
    if code:
        known_code(code)
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
