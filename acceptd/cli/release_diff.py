"""``acceptd release diff``: what differs between two releases of a model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, console, counted
from acceptd.cli.release_office import ChannelOption, ModelArgument, Office, model_of, office
from acceptd.release import channel as channels
from acceptd.release.book import Row, read_book
from acceptd.release.difference import Change, Difference, Known, Side, difference, side
from acceptd.release.which import Pair, pair_of
from acceptd.report.escape import line

SHOWN = 160
"""Most characters of one value on a screen; ``--json`` has them all."""
MOST = 200
"""Most keys of one part on a screen, the same: a bundle may have many files."""
_WHICH = "A number, a digest, a channel (its current release), or one with the other: canary/3."


def diff(
    model: ModelArgument,
    first: Annotated[str, typer.Argument(metavar="[A]", help=f"{_WHICH} Without: the prior one.")] = "",
    second: Annotated[str, typer.Argument(metavar="[B]", help="The same. Without: the current one.")] = "",
    channel: ChannelOption = None,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what differs between two releases: what was inspected, files, manifest, runtimes, rules, decisions."""
    model_id = model_of(model)
    with office(state) as place:
        pair = pair_of(
            read_book(place.ledger),
            model_id,
            main=place.policy.release.channel,
            given=place.channel(channel, released=True) if channel is not None else None,
            known=[one.name for one in place.policy.all_channels()],
            first=first,
            second=second,
        )
        found = _difference(place, pair)
    if json_:
        typer.echo(json.dumps(found.plain(), sort_keys=True))
        return
    print_difference(console(), found)


def _difference(place: Office, pair: Pair) -> Difference:
    from acceptd.judge.successor import between
    from acceptd.release.prior import recorded

    notes = list(pair.notes)
    (older, said_of_older), (newer, said_of_newer) = (
        recorded(place.ledger, place.keys, row) for row in (pair.first, pair.second)
    )
    same = pair.first.digest == pair.second.digest
    for facts, said in ((older, said_of_older), (newer, said_of_newer)):
        lost = [*([] if same else ["operators", "weights"]), *([] if said else ["policy", "contract"])]
        if facts.status != "found" and lost:
            notes.append(f"not compared ({', '.join(lost)}): {facts.channel}, {facts.reason}")
    return difference(
        _known(place, pair.first, said_of_older),
        _known(place, pair.second, said_of_newer),
        between(older, newer),
        notes,
    )


def _known(place: Office, row: Row, said: dict[str, Any]) -> Known:
    facts = channels.verified_release(place.paths.state, place.keys, row, row.release_digest)
    return Known(side(row, facts.document), facts.document, facts.files, said)


def print_difference(out: Console, found: Difference) -> None:
    """Print both releases and how they were chosen, then what was inspected, then each key with both values."""
    for mark, one in (("-", found.first), ("+", found.second)):
        head = Table.grid(padding=(0, 1))
        head.add_row(mark, Text(_told(one)))
        out.print(head)
    for note in found.notes:
        out.print(Text(line(note, 1200), style="yellow"))
    _print_inspected(out, found)
    if found.same:
        out.print(Text(f"the same: {', '.join(found.same)}"))
    if found.same_verdict:
        out.print(Text(f"the same in both verdicts: {', '.join(found.same_verdict)}"))
    if not found.changes:
        out.print("nothing differs in files, manifest, options, profiles, runtimes, rules and decisions")
    for part in dict.fromkeys(change.part for change in found.changes):
        changes = [change for change in found.changes if change.part == part]
        out.print(part, style="bold")
        for change in changes[:MOST]:
            _print_change(out, change)
        if more := len(changes[MOST:]):
            out.print(f"  {counted(more, 'more key differs', 'more keys differ')}: --json lists all")


def _print_inspected(out: Console, found: Difference) -> None:
    """Print what the recorded facts say of the two bundles, model by model, as a report does."""
    from acceptd.report.difference import bundle_lines, model_lines, unchanged
    from acceptd.report.terminal import print_rows

    if found.inspected.get("status") == "same":
        out.print(line(found.inspected["reason"]))
    if found.inspected.get("status") != "found":
        return
    sides = (f"{found.first.channel} {found.first.number}", f"{found.second.channel} {found.second.number}")
    rows: list[tuple[str, str, str]] = []
    if declared := list(bundle_lines(found.inspected)):
        rows += [("bundle.toml", "", ""), ("", *sides), *declared]
    for one in found.inspected["models"]:
        same = unchanged(one)
        rows += model_lines(one, sides)
        rows += [(f"{one['model']}: the same {', '.join(same)}", "", "")] if same else []
    print_rows(out, rows, out.encoding.lower().startswith("utf"))
    out.print()


def _told(one: Side) -> str:
    """Return where, which, what, when and by whom, the submitter's version last."""
    facts = (f"{one.channel} {one.number}", one.bundle_digest[:12], one.kind, one.at, one.by and f"by {one.by}")
    return line(f"{'  '.join(fact for fact in facts if fact)}  {one.version}", SHOWN)


def _print_change(out: Console, change: Change) -> None:
    whole = change.part if not change.key else change.key
    out.print(Padding(Text(_cut(whole)), (0, 0, 0, 2)))
    for mark, value, style in (("-", change.first, "red"), ("+", change.second, "green")):
        if value is not None:
            out.print(Padding(Text(f"{mark} {_word(value)}", style=style), (0, 0, 0, 4)))


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=True)
    return _cut(text)


def _cut(text: str) -> str:
    """Return a text as one line; what is cut of it is said."""
    whole = line(text, 12 * len(text))  # no escape is longer than 10 characters
    return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}… ({len(text)} characters)"
