"""What of the ledger a release carries: the proof of its entry, and the signed checkpoint that it leads to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from acceptd.errors import AnchorError, ConfigError, StateError
from acceptd.policy.troubles import Trouble, first
from acceptd.record import checkpoint
from acceptd.record.keys import Keyring
from acceptd.record.log import Ledger
from acceptd.record.succession import History
from acceptd.release.model import AcceptedRuntime, Inclusion, ReleasedProfile
from acceptd.release.signers import ReleaseKeys
from acceptd.runtime.identity import identity

log = structlog.get_logger("acceptd.release")


def proved(state: Path, ledger: Ledger, keys: ReleaseKeys, seq: int) -> tuple[Inclusion, str]:
    """Return the inclusion proof of the entry ``seq`` and the signed note of the tree that it leads to.

    The note is empty where none can be signed now: the ledger's key is elsewhere, or an anchor is out of reach; a
    promotion is not held up by it, and loaders are told. Raises LedgerError where the log does not extend what
    was signed before: nothing is promoted from a log that was cut or rewritten.
    """
    size, note = None, ""
    signer = keys.ledger
    if signer is not None:
        offices: History | Keyring = keys.history if keys.history is not None else keys.keyring
        try:
            size = checkpoint.write(state, ledger, signer, offices, keys.anchor).size
            note = checkpoint.note_of(state, size).decode("utf-8")
        except (AnchorError, ConfigError, StateError, OSError) as error:
            log.warning("a release without a signed checkpoint", entry=seq, reason=str(error))
            size, note = None, ""
    else:
        log.warning(
            "a release without a signed checkpoint", entry=seq, reason="the ledger's key is not usable here"
        )
    return Inclusion.model_validate(ledger.proof(seq, size).as_json()), note


def runtimes_of(
    ledger: Ledger, evidence_digest: object, profiles: Sequence[ReleasedProfile]
) -> list[AcceptedRuntime]:
    """Return the runtimes that a verdict's evidence records, of ``profiles`` whose identity they give.

    A profile whose record is not kept any more, or does not give the identity that the verdict accepted, has none.
    """
    if not isinstance(evidence_digest, str) or not any(one.runtime_identity for one in profiles):
        return []
    data = ledger.evidence(evidence_digest)
    if data is None:
        return []
    evidence = json.loads(data)
    under = {str(one.get("profile")): one for one in (evidence, *evidence.get("others", ()))}
    return kept_runtimes(
        [
            {"profile": one.profile, "record": record}
            for one in profiles
            for record in _first(under.get(one.profile), only=len(profiles) == 1, evidence=evidence)
        ],
        profiles,
    )


def _first(under: Mapping[str, Any] | None, *, only: bool, evidence: Mapping[str, Any]) -> list[Any]:
    """Return the one record of a profile; evidence from before there were several profiles names none."""
    chosen = evidence if under is None and only else under
    return list((chosen or {}).get("runtimes", ()))[:1]


def kept_runtimes(rows: Sequence[object], profiles: Sequence[ReleasedProfile]) -> list[AcceptedRuntime]:
    """Return those of ``rows`` that are runtimes of ``profiles`` and give their identity; leave out the others."""
    due = {one.profile: one.runtime_identity for one in profiles if one.runtime_identity}
    found = []
    for row in rows:
        one = first(dict(row), AcceptedRuntime) if isinstance(row, Mapping) else None
        if one is None or isinstance(one, Trouble) or due.get(one.profile) != identity(one.record):
            continue
        found.append(one)
    return found
