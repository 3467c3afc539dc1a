"""``acceptd release sign``: an OpenSSF model signature of the bundle that a channel offers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from acceptd.cli.common import StateOption, chosen_state, console
from acceptd.config import require_state
from acceptd.errors import UsageError
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.record.keystore import own_history
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import model_signature, store
from acceptd.release.book import read_book
from acceptd.release.signers import Auditor
from acceptd.report.escape import line


def sign(
    model: Annotated[str, typer.Argument(help="A model id: team/name.")],
    key: Annotated[Path, typer.Option("--key", help="An ECDSA key in PEM (P-256, P-384 or P-521), 0600.")],
    output: Annotated[Path, typer.Option("--output", help="The signature's file; it must not exist.")],
    channel: Annotated[str, typer.Option("--channel", help="The channel.")] = "production",
    state: StateOption = None,
) -> None:
    """Write an OpenSSF model signature of the promoted bundle, every byte of it hashed again first."""
    try:
        valid_model_id(model), valid_name(channel)
    except ValueError as error:
        raise UsageError(str(error)) from error
    private = model_signature.load_key(key)
    paths = require_state(chosen_state(state))
    with Ledger.open(paths.state, create=False) as ledger:
        book = read_book(ledger)
        auditor = Auditor.of(own_history(paths.state, ledger))
    row = book.current(model, channel)
    if row is None:
        raise UsageError(f"{model} has no release on {channel}", remedy="acceptd release list shows what there is")
    if row.digest in book.revoked:
        raise UsageError(f"{row.digest} is revoked", remedy="promote or roll back to another bundle first")
    facts = channels.verified_release(paths.state, auditor, row, row.release_digest)
    store.verify(paths.state, row.digest)
    data = model_signature.sign(model, [(file.path, file.sha256) for file in facts.files], private)
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}", remedy="name a file that does not exist") from error
    said = f"signed {row.digest} (release {row.number} of {model} on {channel}): {line(output, 400)}"
    console().print(said, markup=False, soft_wrap=True)
