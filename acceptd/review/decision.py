"""One decision of one person: what it binds, the bytes that are signed, and how it is opened again. Pure.

The signature is a DSSE envelope with a payload type of its own, so that no signature over anything else counts
as a decision. A decision names the leaf hash of the verdict's entry, and thereby every word of that verdict;
the digests beside it are for the person who signs, and are compared as well.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import AfterValidator, Field, model_validator

from acceptd.errors import LedgerError, MalformedError, SignatureError
from acceptd.policy.names import Name, Sha256
from acceptd.policy.policy import Attestation
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.policy.table import Table
from acceptd.policy.troubles import Trouble, first
from acceptd.record import attest
from acceptd.record.canonical import canonical, parse
from acceptd.record.entry import Entry, valid_time
from acceptd.record.keys import Signer, key_id
from acceptd.record.merkle import leaf_hash

DECISION_TYPE: Final = "application/vnd.acceptd.decision+json"
ROLE: Final = "reviewer"
Word = Literal["approve", "reject", "waive", "attest", "break-glass"]
FindingCode = Annotated[str, Field(pattern=r"^[a-z-]+/[a-z0-9-]+$", max_length=64)]


def _time(value: str) -> str:
    try:
        return valid_time(value)
    except LedgerError as error:
        raise ValueError(str(error)) from error


Expiry = Annotated[str, Field(max_length=20), AfterValidator(_time)]
Nonce = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""What every word of a person has: until when it counts, and what no other has."""


class Decision(Table):
    """What a person says about one verdict. Times are UTC, RFC 3339, to the second."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    log: Annotated[str, Field(max_length=128)]
    """The ledger's own name: a decision counts in one instance alone."""
    decision: Word
    submission: Annotated[str, Field(max_length=128)]
    verdict_seq: Annotated[int, Field(ge=0)]
    leaf_hash: Sha256
    bundle_digest: Sha256
    policy_digest: Sha256
    contract_digest: Sha256 | None
    profile_digest: Sha256
    profiles_digest: Sha256 | None
    channel: Name
    reason: Annotated[str, Field(min_length=1, max_length=2000)]
    expires_at: Expiry
    nonce: Nonce
    codes: Annotated[list[FindingCode], Field(max_length=64)] = []
    """``waive``: the finding codes that are waived."""
    attestations: Annotated[list[Attestation], Field(max_length=3)] = []
    """``attest``: what the person has looked at and vouches for."""

    @model_validator(mode="after")
    def _of_its_word(self) -> Decision:
        for word, values in (("waive", self.codes), ("attest", self.attestations)):
            if bool(values) != (self.decision == word):
                key = "codes" if word == "waive" else "attestations"
                raise ValueError(f"{key}: a decision to {word} names them, and no other does")
        return self


def about(
    entry: Entry,
    log: str,
    word: Word,
    *,
    channel: str,
    reason: str,
    expires_at: str,
    codes: tuple[str, ...] = (),
    attestations: tuple[str, ...] = (),
) -> Decision:
    """Return a decision about the verdict in ``entry``. Raises MalformedError where it cannot be one."""
    body = entry.body
    found = first(
        {
            "schema": 1,
            "log": log,
            "decision": word,
            "submission": entry.submission,
            "verdict_seq": entry.seq,
            "leaf_hash": entry.leaf_hash.hex(),
            **{key: body.get(key) for key in _BOUND},
            "channel": channel,
            "reason": reason,
            "expires_at": expires_at,
            "nonce": secrets.token_hex(16),
            "codes": list(codes),
            "attestations": list(attestations),
        },
        Decision,
    )
    if isinstance(found, Trouble):
        raise MalformedError(f"no decision about entry {entry.seq}: {found.key}: {found.message}")
    return found


_BOUND: Final = ("bundle_digest", "policy_digest", "contract_digest", "profile_digest", "profiles_digest")


def to_sign(decision: Decision) -> bytes:
    """Return the payload: RFC 8785 bytes, what a person downloads and signs."""
    return canonical(decision.model_dump(mode="json", by_alias=True))


def sign(payload: bytes, signer: Signer) -> attest.Envelope:
    """Return the envelope of a payload that :func:`read` takes; raise MalformedError for another."""
    read(payload)
    return attest.sign(DECISION_TYPE, payload, signer)


def read(payload: bytes) -> Decision:
    """Return the decision in a payload; raise MalformedError unless it is exactly canonical and of our form."""
    try:
        document = parse(payload)
    except LedgerError as error:
        raise MalformedError(f"the decision is {error}") from error
    if not isinstance(document, dict):
        raise MalformedError("the decision is no JSON object")
    found = first(document, Decision)
    if isinstance(found, Trouble):
        raise MalformedError(f"the decision: {found.key}: {found.message}")
    return found


def opened(envelope: object, reviewers: Reviewers) -> tuple[Decision, Reviewer]:
    """Return a decision and who signed it.

    Raises SignatureError where no reviewer's key has signed it, MalformedError where it is no decision.
    """
    keys = ReviewerKeys(reviewers)
    payload = attest.verify(envelope, DECISION_TYPE, keys, ROLE)  # type: ignore[arg-type] # what it asks of a keyring
    assert keys.used is not None
    return read(payload), keys.used


class ReviewerKeys:
    """The reviewers' keys as :func:`attest.verify` asks for them; remembers whose signature counted."""

    def __init__(self, reviewers: Reviewers) -> None:
        self._by_id = {key_id(one.raw): one for one in reviewers.reviewers}
        self.used: Reviewer | None = None

    def verify(self, role: str, key: str, data: bytes, signature: bytes) -> None:
        reviewer = self._by_id.get(key) if role == ROLE else None
        if reviewer is None:
            raise SignatureError(f"signed by {key!r:.80}, which is no reviewer's key")
        try:
            Ed25519PublicKey.from_public_bytes(reviewer.raw).verify(signature, data)
        except InvalidSignature as error:
            raise SignatureError(f"the signature by {reviewer.name} does not verify") from error
        self.used = reviewer


def of_record(envelope: object, reviewers: Reviewers) -> attest.Envelope:
    """Return an envelope that was opened as it goes into the ledger: only what reviewers have signed."""
    return attest.kept(envelope, ReviewerKeys(reviewers), ROLE)  # type: ignore[arg-type] # what it asks of a keyring


def differences(decision: Decision, entry: Entry, log: str) -> Iterator[str]:
    """Yield what a decision says otherwise than the verdict's entry that it names."""
    due: dict[str, Any] = {
        "log": log,
        "submission": entry.submission,
        "leaf_hash": entry.leaf_hash.hex(),
        **{key: entry.body.get(key) for key in _BOUND},
    }
    if entry.type != "verdict":
        yield f"entry {entry.seq} is no verdict"
    if leaf_hash(entry.leaf) != entry.leaf_hash:  # the signature is over the hash: it must be that of these bytes
        yield f"the bytes of entry {entry.seq} are not those of its leaf hash"
    for key, value in due.items():
        said = getattr(decision, key)
        if said != value:
            yield f"{key} is {said!r:.80}, the verdict's is {value!r:.80}"
