"""``acceptd policy replay``: what another policy would have made of the submissions on record."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.console import Console

from acceptd.cli.common import JsonOption, StateOption, chosen_state, console, counted, worst
from acceptd.cli.times import moment
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.kept import KeptOutputs
from acceptd.policy.load import digest, load_policy
from acceptd.record.entry import Filter
from acceptd.record.log import Ledger
from acceptd.replay.again import Replayed
from acceptd.replay.run import Replay
from acceptd.report.escape import line
from acceptd.rules import policy_file

_SECOND: Final = 1.0
CHANGED, REJECTED, INCONCLUSIVE, DAMAGED = 3, 1, 4, 5
"""Exit codes: a person must look; some would be rejected; some could not be told; evidence is not what it was."""


def replay(
    policy: Annotated[str, typer.Option("--policy", help="The policy to judge by: a name or a path.")],
    since: Annotated[
        str, typer.Option("--since", help="How far back: 30d, 12h, or a time as 2026-11-29T15:17:00Z.")
    ] = "30d",
    team: Annotated[str, typer.Option("--team", help="Only this team's submissions.")] = "",
    model: Annotated[str, typer.Option("--model", help="Only this model's: team/name.")] = "",
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Judge stored submissions again under another policy, and print what would change. Nothing is run.

    Exit 0: nothing changes; 1: some would now be rejected; 4: some cannot be told without running them again;
    3: other changes; 5: stored evidence is not what the ledger says.
    """
    paths = require_state(chosen_state(state))
    directory = policies_directory(load_settings(paths.state))
    rules = load_policy(policy_file(directory, policy))
    wanted = Filter(team=team or None, model=model or None, type="verdict", since=moment(since))
    with Ledger.open(paths.state, create=False) as ledger:
        work = Replay(ledger, KeptOutputs(paths.outputs), rules)
        numbers = work.chosen(wanted)
        found = list(_progress(work.run(numbers), len(numbers)))
    code = exit_code(found, damaged=work.damaged)
    if json_:
        typer.echo(
            json.dumps(
                {
                    "policy": rules.name,
                    "policy_digest": digest(rules),
                    "since": wanted.since,
                    "counts": dict(sorted(Counter(one.status for one in found).items())),
                    "damaged": work.damaged,
                    "drifted": sum(one.drifted for one in found),
                    "submissions": [asdict(one) for one in found],
                    "exit_code": code,
                },
                sort_keys=True,
            )
        )
    else:
        print_replayed(console(), found)
    raise typer.Exit(code)


def exit_code(found: Sequence[Replayed], *, damaged: int = 0) -> int:
    """Return the documented exit code: the worst of what would become of the submissions."""
    if damaged:
        return DAMAGED
    codes = [0]
    for one in found:
        if one.status in {"needs-rerun", "not-replayable"}:
            codes.append(INCONCLUSIVE)
        elif one.status == "changed":
            turned = {"rejected": REJECTED, "inconclusive": INCONCLUSIVE}.get(one.new, CHANGED)
            codes.append(turned if one.new != one.old else CHANGED)
    return worst(codes)


def _progress(results: Iterator[Replayed], total: int) -> Iterator[Replayed]:
    """Pass the results on; on a terminal a line on standard error says how far it is."""
    shown, due = False, time.monotonic() + _SECOND
    for number, one in enumerate(results, start=1):
        yield one
        if sys.stderr.isatty() and time.monotonic() >= due:
            sys.stderr.write(f"\rreplayed {number} of {total}")
            sys.stderr.flush()
            shown, due = True, time.monotonic() + _SECOND
    if shown:
        sys.stderr.write("\r\x1b[K")


def print_replayed(out: Console, found: Sequence[Replayed]) -> None:
    """Print what would change, submission by submission, and the counts."""
    for one in found:
        if one.status == "unchanged":
            continue
        turned = f"{one.old} -> {one.new}" if one.new and one.new != one.old else one.old
        head = f"{turned:26} {one.submission}  {one.model or one.team}"
        out.print(line(head if one.status == "changed" else f"{one.status:26} {head}", 300), soft_wrap=True)
        if one.reason:
            out.print(f"  {line(one.reason, 1000)}", soft_wrap=True)
        for mark, counts in (("+", one.added or {}), ("-", one.removed or {})):
            for code, count in counts.items():
                out.print(f"  {mark} {line(code, 64)}{f' x{count}' if count > 1 else ''}", soft_wrap=True)
    counts = Counter(one.status for one in found)
    order = ("changed", "needs-rerun", "not-replayable", "unchanged")
    order = ("changed", "needs-rerun", "not-replayable", "unchanged")
    words = [f"{counts[status]} {status}" for status in order if counts[status]] or ["none"]
    out.print(f"{counted(len(found), 'submission')}: {', '.join(words)}", soft_wrap=True)
    drifted = sum(one.drifted for one in found)
    if drifted:
        told = f"{drifted} of them are judged otherwise by this version of acceptd under their own policy"
        out.print(told, soft_wrap=True)
