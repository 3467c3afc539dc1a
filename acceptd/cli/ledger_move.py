"""``acceptd ledger move``: the record from the state's file to a PostgreSQL database, or back."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state, console, counted, progress_console
from acceptd.config import require_state
from acceptd.daemon_lock import acquire
from acceptd.errors import UsageError
from acceptd.postgres_url import record_url
from acceptd.record.copies import move as move_record
from acceptd.record.place import Place
from acceptd.report.escape import line


def move(
    to: Annotated[
        str, typer.Option("--to", metavar="URL|file", help="postgresql://user@host/database, or `file`.")
    ],
    state: StateOption = None,
) -> None:
    """Bring the record to an empty database, or back to a file: the same entries, the same root, compared.

    No daemon may run on it. The one that was left is marked and goes on nowhere. Then name the new place in
    acceptd.toml.
    """
    paths = require_state(chosen_state(state))
    place, target = Place.of(paths.state), Place(paths.state, "" if to == "file" else _url(to))
    descriptor = acquire(paths.lock)
    try:
        with progress_console().status("moving the ledger") as status:
            whole = move_record(place, target, lambda text: status.update(f"moving the ledger: {line(text)}"))
    finally:
        os.close(descriptor)
    out = console()
    text = f"ledger: {counted(whole.size, 'entry', 'entries')}, root {whole.root.hex()[:16]}…, moved to {target}"
    out.print(line(text, 400), markup=False, soft_wrap=True)
    said = f'url = "{to}"' if target.url else 'url = ""'
    out.print(
        f"next: in {paths.state / 'acceptd.toml'}, under [record]: {line(said, 2100)}",
        markup=False,
        soft_wrap=True,
    )
    out.print("then: acceptd ledger verify", markup=False)


def _url(text: str) -> str:
    try:
        found = record_url(text)
    except ValueError as error:
        raise UsageError(f"--to: {error}", remedy="postgresql://user@host/database, or `file`") from error
    if not found:
        raise UsageError("--to is empty", remedy="give a URL, or `file` for the state's own")
    return found
