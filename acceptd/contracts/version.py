"""One version of a contract as people sign it: what it binds, the bytes that are signed, how it is opened. Pure.

The signatures are those of a DSSE envelope with a payload type of its own, so that no signature over anything else
puts a contract in force. The payload holds the contract itself, with what it inherited when it was signed: what is
in force is read from there, never from a file. ``digest`` is that of the two together, the *effective* contract.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from acceptd.errors import LedgerError, MalformedError, SignatureError
from acceptd.policy.contract import Contract
from acceptd.policy.defaults import Inherited, apply
from acceptd.policy.names import ModelId, Sha256
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.policy.table import Table
from acceptd.policy.troubles import Trouble, first
from acceptd.record import attest
from acceptd.record.canonical import canonical, digest, parse
from acceptd.record.keys import Signer
from acceptd.review.decision import ROLE, ReviewerKeys

CONTRACT_TYPE: Final = "application/vnd.acceptd.contract+json"
MAX_BYTES: Final = 8 << 20
"""Of the bytes to sign: a contract file has 1 MiB at most."""


class Version(Table):
    """What a reviewer signs."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    log: Annotated[str, Field(max_length=128)]
    """The ledger's own name: a signature counts in one instance alone."""
    model: ModelId
    version: Annotated[int, Field(ge=1, le=2**31)]
    supersedes: Sha256 | None
    """Digest of the version before; None for the first."""
    digest: Sha256
    contract: dict[str, Any]
    """As its author wrote it."""
    inherited: Annotated[list[Inherited], Field(max_length=20_000)] = []
    reason: Annotated[str, Field(min_length=1, max_length=2000)]


@dataclass(frozen=True, slots=True)
class Opened:
    """A version that was read and is whole. ``own`` is what the author wrote, ``effective`` what holds."""

    said: Version
    own: Contract
    effective: Contract


def prepared(
    own: Contract, inherited: Sequence[Inherited], log: str, supersedes: str | None, reason: str
) -> Opened:
    """Return the version that a contract would become. Raises MalformedError where it cannot be one."""
    document = own.model_dump(mode="json", by_alias=True)
    made = first(
        {
            "schema": 1,
            "log": log,
            "model": own.id,
            "version": own.version,
            "supersedes": supersedes,
            "digest": digest(apply(document, inherited)),
            "contract": document,
            "inherited": [one.model_dump(mode="json") for one in inherited],
            "reason": reason,
        },
        Version,
    )
    if isinstance(made, Trouble):
        raise MalformedError(f"no version of a contract: {made.key}: {made.message}")
    return read(to_sign(made))


def to_sign(version: Version) -> bytes:
    """Return the payload: RFC 8785 bytes, what a person downloads and signs."""
    return canonical(version.model_dump(mode="json", by_alias=True))


def sign(payload: bytes, signer: Signer) -> attest.Envelope:
    """Return the envelope of a payload that :func:`read` takes; raise MalformedError for another."""
    read(payload)
    return attest.sign(CONTRACT_TYPE, payload, signer)


def joined(envelopes: Sequence[attest.Envelope]) -> attest.Envelope:
    """Return one envelope with the signatures of all. Raises MalformedError where they sign other bytes."""
    one, *others = envelopes
    signatures: list[Any] = []
    for envelope in (one, *others):
        if not isinstance(envelope, dict) or not isinstance(envelope.get("signatures"), list):
            raise MalformedError("an envelope has payload, payloadType and signatures")
        if (envelope.get("payload"), envelope.get("payloadType")) != (one.get("payload"), one.get("payloadType")):
            raise MalformedError("the signatures are over different bytes: all sign one prepared file")
        signatures += [found for found in envelope["signatures"] if found not in signatures]
    return {**one, "signatures": signatures}


def read(payload: bytes) -> Opened:
    """Return the version in a payload. Raises MalformedError unless it is canonical, of our form and whole."""
    try:
        document = parse(payload)
    except LedgerError as error:
        raise MalformedError(f"the bytes to sign are {error}") from error
    if not isinstance(document, dict):
        raise MalformedError("the bytes to sign are no JSON object")
    said = first(document, Version)
    if isinstance(said, Trouble):
        raise MalformedError(f"the version: {said.key}: {said.message}")
    try:
        whole = apply(said.contract, said.inherited)
    except ValueError as error:
        raise MalformedError(f"what the contract inherits: {error}") from error
    if digest(whole) != said.digest:
        raise MalformedError("its digest is not that of the contract in it")
    own, effective = _contract(said.contract), _contract(whole)
    if (own.id, own.version) != (said.model, said.version):
        raise MalformedError(f"it holds a contract of {own.id}, version {own.version}")
    return Opened(said, own, effective)


def _contract(document: Mapping[str, Any]) -> Contract:
    found = first(dict(document), Contract)
    if isinstance(found, Trouble):
        raise MalformedError(f"the contract in it: {found.key}: {found.message}")
    return found


def opened(envelope: object, reviewers: Reviewers) -> tuple[Opened, tuple[Reviewer, ...]]:
    """Return a signed version and who signed it, each person once.

    Raises SignatureError where any signature is not a reviewer's or does not verify, MalformedError where it is
    no version of a contract.
    """
    if not isinstance(envelope, dict) or not isinstance(envelope.get("signatures"), list):
        raise MalformedError("an envelope has payload, payloadType and signatures")
    people: dict[str, Reviewer] = {}
    payload = b""
    for signature in envelope["signatures"]:
        keys = ReviewerKeys(reviewers)
        alone = {**envelope, "signatures": [signature]}
        payload = attest.verify(alone, CONTRACT_TYPE, keys, ROLE)  # type: ignore[arg-type] # as a decision
        assert keys.used is not None
        people[keys.used.name] = keys.used
    if not people:
        raise SignatureError("nobody has signed it")
    return read(payload), tuple(people.values())


def payload_of(envelope: object) -> Opened:
    """Return what an envelope holds without asking who signed it: something else has to stand for its digest.

    Raises MalformedError.
    """
    text = envelope.get("payload") if isinstance(envelope, dict) else None
    try:
        payload = base64.b64decode(str(text).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise MalformedError("an envelope whose payload is not base64") from error
    return read(payload)
