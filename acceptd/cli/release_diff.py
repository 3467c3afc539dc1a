"""``acceptd release diff``: what differs between two releases of a model."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from acceptd.cli.common import JsonOption, StateOption, console
from acceptd.cli.release_office import ChannelOption, ModelArgument, Office, model_of, office
from acceptd.errors import UsageError
from acceptd.release import channel as channels
from acceptd.release.book import Book, Row, read_book
from acceptd.release.difference import Change, Difference, Side, difference, side
from acceptd.release.hold import release_of
from acceptd.report.escape import line

SHOWN = 160
"""Most characters of one value on a screen; ``--json`` has them all."""
_WHICH = "A number or digest of --channel, or the name of a channel: its current release."


def diff(
    model: ModelArgument,
    first: Annotated[str, typer.Argument(metavar="[A]", help=f"{_WHICH} Without: the prior one.")] = "",
    second: Annotated[str, typer.Argument(metavar="[B]", help="The same. Without: the current one.")] = "",
    channel: ChannelOption = None,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Print what differs between two releases: files, manifest, options, profiles, runtimes, decisions."""
    model_id = model_of(model)
    with office(state) as place:
        book = read_book(place.ledger)
        name = place.channel(channel, released=True)
        newer = _row(book, model_id, name, second)
        older = _row(book, model_id, name, first) if first else _before(book, model_id, name)
        found = _difference(place, older, newer)
    if json_:
        typer.echo(json.dumps(found.plain(), sort_keys=True))
        return
    print_difference(console(), found)


def _row(book: Book, model_id: str, channel: str, wanted: str) -> Row:
    """Return the release that a word names: a channel's current one, or one of ``channel``."""
    if any(wanted == name for model, name in book.channels if model == model_id):
        return release_of(book, model_id, wanted, "")
    return release_of(book, model_id, channel, wanted)


def _before(book: Book, model_id: str, channel: str) -> Row:
    """Return the release that was current before the current one."""
    rows = sorted(
        (row for row in book.rows(model_id, channel) if row.activated_seq >= 0), key=lambda row: row.number
    )
    if len(rows) < 2:
        raise UsageError(f"{model_id} {channel} has no prior release", remedy="name the releases, or a channel")
    return rows[-2]


def _difference(place: Office, older: Row, newer: Row) -> Difference:
    facts = [
        channels.verified_release(place.paths.state, place.keys, row, row.release_digest) for row in (older, newer)
    ]
    one, other = facts
    return difference(
        side(older, one.document),
        one.document,
        one.files,
        side(newer, other.document),
        other.document,
        other.files,
    )


def print_difference(out: Console, found: Difference) -> None:
    """Print both releases as a table, then each key that differs with both values below it."""
    for mark, one in (("-", found.first), ("+", found.second)):
        out.print(Padding(Text(f"{mark} {_told(one)}"), (0, 0, 0, 0)))
    if not found.changes:
        out.print("nothing differs in files, manifest, options, profiles, runtimes and decisions")
    part = ""
    for change in found.changes:
        if change.part != part:
            part = change.part
            out.print(part, style="bold")
        _print_change(out, change)
    if found.left_off:
        out.print(f"{found.left_off} more keys differ, which are not listed")


def _told(one: Side) -> str:
    """Return where, which, what, when and by whom, the submitter's version last."""
    facts = (f"{one.channel} {one.number}", one.bundle_digest[:12], one.kind, one.at, one.by and f"by {one.by}")
    return line(f"{'  '.join(fact for fact in facts if fact)}  {one.version}", SHOWN)


def _print_change(out: Console, change: Change) -> None:
    whole = change.part if not change.key else change.key
    out.print(Padding(Text(line(whole, SHOWN)), (0, 0, 0, 2)))
    for mark, value, style in (("-", change.first, "red"), ("+", change.second, "green")):
        if value is not None:
            out.print(Padding(Text(f"{mark} {_word(value)}", style=style), (0, 0, 0, 4)))


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=True)
    return line(text, SHOWN)
