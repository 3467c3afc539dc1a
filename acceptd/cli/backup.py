"""``acceptd backup`` and ``acceptd restore``: the whole state, beside a running daemon, and back, verified."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from acceptd.backup import make as making
from acceptd.backup import restore as restoring
from acceptd.backup.document import Document
from acceptd.cli.common import (
    EXIT_AUDIT,
    JsonOption,
    StateOption,
    chosen_state,
    console,
    counted,
    progress_console,
)
from acceptd.config import load_settings, require_state
from acceptd.errors import AcceptdError
from acceptd.report.escape import line, size

OLDER = (
    "This is the ledger as it was then. Verdicts, promotions and revocations made since are lost with it.",
    "A loader that remembers a later number or sequence refuses what is served now, until a promotion goes",
    "above it: a number that was used may be given out again. Before the first start copy the newest",
    "releases/, revocations.json and channel.json of the lost state over these, if anything of it is left:",
    "they are signed, and the daemon then takes numbers above theirs. Revoke again what was revoked since.",
)


def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory outside of the state.")],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="The private keys too: whoever reads the backup then signs as you.")
    ] = False,
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Copy the state to a new directory, a daemon running or not: ledger, releases, store, held bundles.

    Promotions and revocations wait while the ledger is copied. Left out: the inbox, the outbox, and, without
    --with-keys, the private keys.
    """
    paths = require_state(chosen_state(state))
    place = target.absolute()
    os.umask(0o077)
    with progress_console().status("copying") as shown:
        made = making.make(
            paths, place, with_keys=with_keys, told=lambda text: shown.update(f"copying {line(text)}")
        )
    if json_:
        typer.echo(json.dumps(_facts(place, made), sort_keys=True))
        return
    _print(place, made)
    if not with_keys:
        console().print("keys    not in it: keep them elsewhere, or nothing can be signed after a restore")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A directory that `acceptd backup` made.")],
    state: StateOption = None,
    json_: JsonOption = False,
) -> None:
    """Fill an empty state directory from a backup, every byte hashed. Exit 5 where `ledger verify` differs."""
    place = chosen_state(state)
    os.umask(0o022)
    with progress_console().status("copying back") as shown:
        told = restoring.restore(source.absolute(), place, told=lambda text: shown.update(f"copying {line(text)}"))
    code = _verified(place)
    if json_:
        body = _facts(source.absolute(), told) | {"state": str(place), "verified": code == 0, "notes": list(OLDER)}
        typer.echo(json.dumps(body, sort_keys=True))
        raise typer.Exit(code)
    out = console()
    _print(place, told)
    out.print("")
    for text in OLDER:
        out.print(text, soft_wrap=True)
    if _anchored(place):
        out.print(
            "The anchor knows of more than this ledger, perhaps: then the daemon does not start, until you have"
        )
        out.print("told loaders and auditors what is lost, and moved the anchor's notes of it away.")
    if not told.with_keys:
        out.print("The private keys are not in it: put them into keys/ (0700, files 0600) before the first start.")
    raise typer.Exit(code)


def _verified(state: Path) -> int:
    """Return 0 where `acceptd ledger verify` finds nothing; it prints what it finds on standard error."""
    import contextlib
    import sys

    from acceptd.cli.ledger import verify

    with contextlib.redirect_stdout(sys.stderr):
        try:
            verify(checkpoints=None, keyring=None, objects=True, state=state, json_=False)
        except typer.Exit as ended:
            return int(ended.exit_code)
        except AcceptdError as error:
            typer.echo(f"not verified: {line(error, 600)}", err=True)
            return EXIT_AUDIT
    return 0


def _anchored(state: Path) -> bool:
    try:
        return bool(load_settings(state).checkpoint.anchor)
    except AcceptdError:
        return False


def _facts(place: Path, made: Document) -> dict[str, Any]:
    head = {"entries": made.entries, "root": made.root, "made_at": made.made_at, "with_keys": made.with_keys}
    return head | {"place": str(place), "files": len(made.files), "bytes": sum(one.size for one in made.files)}


def _print(place: Path, made: Document) -> None:
    out = console()
    out.print(f"place   {line(place)}", soft_wrap=True)
    entries = counted(made.entries, "entry", "entries")
    out.print(f"ledger  {entries}, root {line(made.root[:16])}…, as of {line(made.made_at)}")
    out.print(f"files   {len(made.files)}, {size(sum(one.size for one in made.files))}")
