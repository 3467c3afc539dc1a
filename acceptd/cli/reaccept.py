"""``acceptd reaccept``: run everything that is promoted again, and list what would no longer pass."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from acceptd.cli.common import (
    JsonOption,
    StateOption,
    chosen_state,
    console,
    end_in_order,
    progress_console,
    worst,
)
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.errors import UsageError
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.report.escape import line
from acceptd.rules import Rules, load_rules


def reaccept(
    profile: Annotated[
        str, typer.Option("--profile", help="A profile's name: the runtime to run under. Default: the policy's.")
    ] = "",
    policy: Annotated[
        str, typer.Option("--policy", help="A policy's name, or a file. Default: the daemon's.")
    ] = "",
    model: Annotated[str, typer.Option("--model", help="Only this model: team/name.")] = "",
    channel: Annotated[str, typer.Option("--channel", help="Only what is current on this channel.")] = "",
    workers: Annotated[int, typer.Option("--workers", min=0, help="Side by side; 0: one for each core.")] = 0,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Run what is promoted again, under a profile or a policy. No release, entry or held-out budget is touched.

    Exit 0: all still pass; 1: some would be rejected; 3: some would be held; 4: some could not be told.
    """
    from acceptd import local
    from acceptd.reaccept.result import EXIT, Reaccepted
    from acceptd.reaccept.run import run_again
    from acceptd.reaccept.standing import promoted
    from acceptd.record.log import Ledger

    end_in_order()
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    rules = _rules(settings, policy, profile)
    _names(model, channel)
    found: list[Reaccepted] = []
    with Ledger.open(paths.state, create=False) as ledger:
        standings = promoted(ledger, lambda id_, name: model in {"", id_} and channel in {"", name})
        cores = os.cpu_count() or 1
        if standings:
            lanes = min(workers or cores, len(standings))
            err = progress_console()
            total = len(standings)
            with (
                err.status("starting the cell") as status,
                local.bench(rules, cores=max(cores, lanes), suite=total > 1, workers=lanes) as bench,
            ):
                run_again(
                    bench, paths.state, ledger, standings,
                    progress=lambda one, stage: status.update(
                        f"{len(found)} of {total} done · {line(one.model_id, 60)}: {stage} …"
                    ),
                    done=found.append,
                )  # fmt: skip
    found.sort(key=lambda one: (one.standing.model_id, one.standing.bundle_digest))
    code = worst([EXIT[one.status] for one in found])
    if json_:
        typer.echo(json.dumps(_document(rules, found, code), sort_keys=True))
    else:
        names = ", ".join(target.profile.name for target in rules.targets)
        print_reaccepted(console(), found, f"under {names} by policy {rules.policy.name}")
    raise typer.Exit(code)


def _rules(settings: Any, policy: str, profile: str) -> Rules:
    directory, name = policies_directory(settings), policy or settings.policy
    if not profile:
        return load_rules(directory, name)
    try:
        valid_name(profile)
    except ValueError as error:
        raise UsageError(f"--profile: {error}", remedy="acceptd policy check") from error
    return load_rules(directory, name, ["optional_profiles=[]", f"profiles=['{profile}']"])


def _names(model: str, channel: str) -> None:
    try:
        if model:
            valid_model_id(model)
        if channel:
            valid_name(channel)
    except ValueError as error:
        raise UsageError(str(error), remedy="see `acceptd release list`") from error


def _document(rules: Rules, found: list[Any], code: int) -> dict[str, Any]:
    rows = [
        {
            "model_id": one.standing.model_id,
            "bundle_digest": one.standing.bundle_digest,
            "places": [{"channel": channel, "number": number} for channel, number in one.standing.places],
            "verdict_on_record": one.standing.verdict,
            "verdict_seq": one.standing.verdict_seq,
            "revoked": one.standing.revoked,
            "status": one.status,
            "reason": line(one.reason, 1000),
            "codes": list(one.codes),
            "new_codes": list(one.new_codes),
            "runtimes_on_record": list(one.standing.runtimes),
            "runtimes": list(one.runtimes),
            "heldout": "not evaluated" if one.heldout else "none",
        }
        for one in found
    ]
    return {
        "policy": rules.policy.name,
        "policy_digest": rules.policy_digest,
        "profiles": [target.profile.name for target in rules.targets],
        "counts": dict(sorted(Counter(one.status for one in found).items())),
        "releases": rows,
        "exit_code": code,
    }


def print_reaccepted(out: Console, found: Sequence[Any], under: str) -> None:
    """Print what became of each (:class:`acceptd.reaccept.result.Reaccepted`), and the counts."""
    for one in found:
        standing = one.standing
        head = f"{one.status:18}  {standing.model_id}  {standing.bundle_digest[:12]}  {standing.where}"
        out.print(line(head + ("  revoked" if standing.revoked else ""), 300), soft_wrap=True)
        if one.status not in {"passes", "passes-as-approved"}:
            out.print(f"  {line(one.reason, 1000)}", soft_wrap=True)
            for code in one.codes:
                out.print(f"  {'+' if code in one.new_codes else ' '} {line(code, 64)}", soft_wrap=True)
    counts = Counter(one.status for one in found)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "nothing is promoted"
    out.print(f"{len(found)} promoted, {line(under)}: {words}", soft_wrap=True)
    if any(one.heldout for one in found):
        out.print("held-out vectors were not evaluated: their budget is for submissions", soft_wrap=True)
