"""``acceptd release canary``: what production's receipts say about a canary, and what is done about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from acceptd.canary.evaluate import Done, People, basis, carry_out, evaluate
from acceptd.canary.figures import Counts, Evaluation, Side
from acceptd.cli.common import JsonOption, StateOption, chosen_state, console, progress_console
from acceptd.cli.sealing import sealing
from acceptd.cli.tables import print_table
from acceptd.config import load_settings, policies_directory, require_state
from acceptd.errors import UsageError
from acceptd.policy.load import load_reviewers
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.record.keystore import own_history
from acceptd.release.settle import Terms
from acceptd.release.signers import Auditor, ReleaseKeys
from acceptd.release.who import operator
from acceptd.report.escape import line
from acceptd.review.desk import Desk
from acceptd.rules import load_rules

EXIT_BY_DECISION: Final = {"promote": 0, "hold": 3, "rollback": 1}
EXIT_REFUSED: Final = 3
_WORDS: Final = {"passes": "passes", "unsure": "unsure", "fails": "FAILS"}
_FATES: Final = {
    "duplicates": "counted already", "elsewhere": "of other releases", "surplus": "beyond the most that count",
    "empty": "empty", "too_long": "too long", "malformed": "no receipt", "digest": "with another digest",
    "contradictory": "that contradict their release",
}  # fmt: skip
app = typer.Typer(help="A canary: evaluate it by receipts.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A canary: evaluate it by receipts."""


@app.command("evaluate")
def evaluate_(
    model: Annotated[str, typer.Argument(help="A model id: team/name.")],
    receipts: Annotated[
        list[Path], typer.Option("--receipts", help="A file of receipts, JSON lines (repeatable).")
    ],
    more: Annotated[
        list[Path] | None, typer.Argument(help="More files of receipts, as a shell's pattern gives them.")
    ] = None,
    canary: Annotated[str, typer.Option("--channel", help="The canary's channel.")] = "canary",
    against: Annotated[str, typer.Option("--against", help="The channel it is compared with.")] = "production",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare the receipts of a canary with those of production; promote it, hold it or roll it back.

    The evaluation is a ledger entry before anything moves. Exit 0: promoted; 3: held, or decided and not let
    through; 1: rolled back. With --dry-run the same codes say what would be.
    """
    try:
        valid_model_id(model), valid_name(canary), valid_name(against)
    except ValueError as error:
        raise UsageError(str(error), remedy="write it as team/name") from error
    paths = require_state(chosen_state(state))
    settings = load_settings(paths.state)
    directory = policies_directory(settings)
    rules = load_rules(directory, settings.policy)
    with sealing(paths.state) as ledger:
        # Who only looks needs no private key.
        keys = None if dry_run else ReleaseKeys.load(paths.state, ledger)
        seen = keys or Auditor.of(own_history(paths.state, ledger))
        compared = basis(paths.state, ledger, seen, model, canary, against)
        with progress_console().status("reading receipts") as status:
            found = evaluate(
                compared,
                [*receipts, *(more or ())],
                rules.policy.canary,
                rules.policy_digest,
                by=operator(),
                told=lambda text: status.update(f"reading receipts: {line(text, 60)}"),
            )
        done = None
        if keys is not None:
            desk = Desk(paths.state, ledger, rules.policy, load_reviewers(directory))
            terms = Terms.of(rules.policy)
            people = People(desk.decided, desk.rejected, rules.policy.channel)
            done = carry_out(paths.state, ledger, keys, compared, found, people, terms)
    if json_:
        typer.echo(json.dumps(_document(found, done), sort_keys=True))
    else:
        _print(found, done)
    refused = done is not None and bool(done.refused)
    raise typer.Exit(EXIT_REFUSED if refused else EXIT_BY_DECISION[found.decision])


def _document(found: Evaluation, done: Done | None) -> dict[str, object]:
    made = None if done is None or done.release is None else done.release
    return {
        "evaluation": found.model_dump(mode="json"),
        "entry": None if done is None else done.seq,
        "refused": "" if done is None else done.refused,
        "release": made and {"channel": made.channel, "number": made.number, "digest": made.bundle_digest},
    }


def _print(found: Evaluation, done: Done | None) -> None:
    out = console()
    requests = [sum(one.canary.requests for one in found.compared)]
    requests.append(sum(one.against.requests for one in found.compared if one.against))
    sides = [_side(side, count) for side, count in zip((found.canary, found.against), requests, strict=True)]
    print_table(out, (found.model, "number", "digest", "requests"), sides, empty="")
    for text in _told(found.counts, len(found.files)):
        out.print(text, markup=False)
    out.print()
    several = len(found.compared) > 1
    rows = [
        [_WORDS[one.outcome], f"{one.model} {one.check}" if several else one.check, one.message]
        for word in ("fails", "unsure", "passes")
        for one in found.reasons
        if one.outcome == word
    ]
    print_table(out, ("", "check", "found"), rows, empty="nothing was checked")
    out.print()
    out.print(line(_ending(found, done), 2000), markup=False)


def _side(side: Side, requests: int) -> list[object]:
    return [side.channel, side.number, side.digest[:12], f"{requests:,}"]


def _told(counts: Counts, files: int) -> list[str]:
    figures = counts.model_dump()
    total = sum(figures.values())
    first = f"{total:,} lines of {files} file{'s' if files != 1 else ''}: {counts.counted:,} counted"
    return [first, *(f"  {figures[name]:,} {words}" for name, words in _FATES.items() if figures[name])]


def _ending(found: Evaluation, done: Done | None) -> str:
    place = found.against.channel if found.decision == "promote" else found.canary.channel
    if done is None:
        words = {
            "promote": f"would promote {found.canary.digest[:12]} to {place}",
            "hold": f"would hold it on {place}",
            "rollback": f"would roll {place} back",
        }
        return f"{words[found.decision]}; nothing was recorded (--dry-run)"
    entry = f"entry {done.seq}"
    if done.refused:
        return f"decided: {found.decision} ({entry}); not done: {done.refused}"
    if done.release is None:
        return f"held on {place} ({entry}): evaluate again when there are more receipts"
    word = "promoted" if found.decision == "promote" else "rolled back"
    return f"{word} ({entry}): {place} is now {done.release.number} ({done.release.bundle_digest[:12]})"
