"""Seals what a command has put on record: a daemon that is not running does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from acceptd.cli.common import one_line
from acceptd.config import load_settings
from acceptd.errors import AnchorError, ConfigError, StateError
from acceptd.record import checkpoint
from acceptd.record.anchor import open_anchor
from acceptd.record.keystore import open_signer, own_history
from acceptd.record.log import Ledger
from acceptd.release.layout import keys_lock


@contextmanager
def sealing(state: Path) -> Iterator[Ledger]:
    """Open the ledger of ``state``; where it has grown by the end, also after an error, sign a checkpoint of it.

    Else a rejection or a revocation that was recorded beside a daemon, or without one, could be cut off again
    before anything had signed that it was there. Where that is not possible now (an anchor out of reach, the
    ledger's key elsewhere), a line on standard error says so, and the daemon seals it with its next. Raises
    LedgerError where the log does not extend what was signed.
    """
    # No key is exchanged under a command that has loaded it.
    with keys_lock(state, shared=True), Ledger.open(state, create=False) as ledger:
        size = ledger.tree().size
        try:
            yield ledger
        finally:
            if ledger.tree().size != size:
                seal(state, ledger)


def seal(state: Path, ledger: Ledger) -> None:
    """Sign a checkpoint of the log as it stands; a line on standard error where that is not possible now."""
    try:
        anchor = open_anchor(load_settings(state).checkpoint.anchor, state)
        checkpoint.write(state, ledger, open_signer(state, "ledger"), own_history(state, ledger), anchor)
    except (AnchorError, ConfigError, StateError, OSError) as error:
        typer.echo(f"acceptd: recorded, but not sealed yet: {one_line(str(error))}", err=True)
