"""The in-toto statement beside each release: made from ``release.json`` and the ledger, signed by the release key.

The ledger's entry ``activated`` holds it; the file ``statement.json`` is a copy, so that one that a crash tore or
took away is written anew, and a loader never waits for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acceptd.errors import LedgerError, LoaderError, ReleaseError, StateError
from acceptd.intake.files import create_exclusive, write_all
from acceptd.record.attest import (
    MAX_PAYLOAD,
    RELEASE_STATEMENT_TYPE,
    Envelope,
    sign_statement,
    verify_statement,
)
from acceptd.record.canonical import canonical
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import objects
from acceptd.release.book import Row
from acceptd.release.layout import release_path
from acceptd.release.signers import ReleaseKeys, Verifying
from acceptd.statement.release import ReleasePredicate, release_differences, release_statement
from acceptd.statement.schemas import trouble

STATEMENT_FILE: Final = "statement.json"
_TEMPORARY: Final = ".tmp-statement"


def make(
    ledger: Ledger, keys: ReleaseKeys, row: Row, release_digest: str, document: Mapping[str, Any]
) -> Envelope:
    """Return the signed statement of a release whose ``release.json`` (digest and payload) is durable.

    Raises ReleaseError where it would not be what its schema says, LedgerError where the log lacks an entry.
    """
    value = _due(ledger, row, release_digest, document)
    if found := trouble(ReleasePredicate, value["predicate"]):
        raise ReleaseError(f"the statement of release {row.number} of {row.model_id}: {found}")
    return sign_statement(value, keys.release)


def put(state: Path, row: Row, envelope: Mapping[str, Any]) -> bool:
    """Write the copy beside the release unless it is there and the same; return whether it was written.

    Not synchronised: what a power cut takes away, the next start writes again from the ledger.
    """
    data = _file(envelope)
    if _read(state, row) == data:
        return False
    folder = state / release_path(row.model_id, row.channel, row.number)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder / _TEMPORARY)
        failpoint("release.statement.swept")
    try:
        descriptor = create_exclusive(folder, _TEMPORARY, 0o444)
        try:
            failpoint("release.statement.created")
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        failpoint("release.statement.written")
        os.rename(folder / _TEMPORARY, folder / STATEMENT_FILE)
        failpoint("release.statement.renamed")
    except OSError as error:
        raise StateError(f"{folder / STATEMENT_FILE}: {error.strerror}") from error
    return True


def mend(state: Path, ledger: Ledger, row: Row) -> bool:
    """Write the copy of an activated release anew where it is not what the ledger holds; return whether it was."""
    envelope = _recorded(ledger, row)
    return envelope is not None and put(state, row, envelope)


def differences(
    state: Path, ledger: Ledger, keys: Verifying, row: Row, release_digest: str, document: Mapping[str, Any]
) -> list[str]:
    """Return what of an activated release's statement is not what ``release.json`` and the ledger say.

    One that was made before there were statements has none, and needs none.
    """
    try:
        envelope = _recorded(ledger, row)
        stored = _read(state, row)
        if envelope is None:
            return [] if stored is None else ["the ledger knows no statement of this release"]
        value = verify_statement(envelope, keys.at(row.activated_seq), "release", (RELEASE_STATEMENT_TYPE,))
        found = list(release_differences(value, _due(ledger, row, release_digest, document)))
        if wrong := trouble(ReleasePredicate, value["predicate"]):
            found.append(wrong)
    except (LedgerError, LoaderError, KeyError, TypeError, ValueError) as error:
        return [f"the ledger's statement of this release: {error}"]
    if stored is None:
        found.append("is missing")
    elif stored != _file(envelope):
        found.append("is not the one that the ledger holds")
    return found


def _due(ledger: Ledger, row: Row, release_digest: str, document: Mapping[str, Any]) -> dict[str, Any]:
    decisions = [ledger.entry(seq) for seq in document.get("decisions", ())]
    intent, verdict = ledger.entry(row.intent_seq), ledger.entry(row.verdict_seq)
    return release_statement(document, release_digest, ledger.origin, intent, verdict, decisions)


def _recorded(ledger: Ledger, row: Row) -> dict[str, Any] | None:
    envelope = ledger.entry(row.activated_seq).body.get("statement")
    if envelope is not None and not isinstance(envelope, dict):
        raise LedgerError(f"entry {row.activated_seq} has a statement that is none")
    return envelope


def _file(envelope: Mapping[str, Any]) -> bytes:
    return canonical(dict(envelope)) + b"\n"


def _read(state: Path, row: Row) -> bytes | None:
    """Return the copy's bytes; None where there is none, or what is there is no plain file."""
    root = objects.open_root(state)
    try:
        place = f"{release_path(row.model_id, row.channel, row.number)}/{STATEMENT_FILE}"
        return objects.read_if_there(root, place, MAX_PAYLOAD * 2)
    except LoaderError:
        return b""
    finally:
        os.close(root)
