"""A revocation that a reviewer signed elsewhere: what it binds, its bytes, how it is carried out and audited.

A DSSE envelope with a payload type of its own, so that no signature over a decision counts as one. It names the
log, so that it counts in one instance alone. Bringing it twice changes nothing: what is revoked stays revoked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from acceptd.errors import LedgerError, LoaderError, MalformedError, UsageError
from acceptd.policy.names import Sha256
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.policy.table import Table
from acceptd.policy.troubles import Trouble, first
from acceptd.record import attest
from acceptd.record.audit import Difference
from acceptd.record.canonical import canonical, parse
from acceptd.record.entry import utc_now
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger
from acceptd.release import revoke as revocations
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.review.decision import ROLE, Expiry, Nonce, ReviewerKeys, of_record
from acceptd.review.desk import Desk

REVOCATION_TYPE: Final = "application/vnd.acceptd.revocation+json"


class Wanted(Table):
    """What a person wants revoked. Times are UTC, RFC 3339, to the second."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    revoke: Literal["bundle"] = "bundle"
    log: Annotated[str, Field(max_length=128)]
    """The ledger's own name."""
    bundle_digest: Sha256
    rollback: bool
    """Whether every channel that serves it goes back to an earlier release."""
    reason: Annotated[str, Field(min_length=1, max_length=2000)]
    expires_at: Expiry
    nonce: Nonce


def about(log: str, digest: str, *, reason: str, rollback: bool, expires_at: str) -> Wanted:
    """Return what is to be signed about a bundle digest. Raises MalformedError where it cannot be that."""
    return _wanted(
        {
            "log": log,
            "bundle_digest": digest,
            "rollback": rollback,
            "reason": reason,
            "expires_at": expires_at,
            "nonce": secrets.token_hex(16),
        }
    )


def to_sign(wanted: Wanted) -> bytes:
    """Return the payload: RFC 8785 bytes, what a person downloads and signs."""
    return canonical(wanted.model_dump(mode="json", by_alias=True))


def is_one(payload: bytes) -> bool:
    """Say whether prepared bytes mean to be a revocation, and not a decision."""
    try:
        document = parse(payload)
    except LedgerError:
        return False
    return isinstance(document, dict) and "revoke" in document


def read(payload: bytes) -> Wanted:
    """Return the revocation in a payload; raise MalformedError unless it is exactly canonical and of our form."""
    try:
        document = parse(payload)
    except LedgerError as error:
        raise MalformedError(f"the revocation is {error}") from error
    return _wanted(document)


def sign(payload: bytes, signer: Signer) -> attest.Envelope:
    """Return the envelope of a payload that :func:`read` takes; raise MalformedError for another."""
    read(payload)
    return attest.sign(REVOCATION_TYPE, payload, signer)


def opened(envelope: object, reviewers: Reviewers) -> tuple[Wanted, Reviewer]:
    """Return a revocation and who signed it.

    Raises SignatureError where no reviewer's key has signed it, MalformedError where it is no revocation.
    """
    keys = ReviewerKeys(reviewers)
    payload = attest.verify(envelope, REVOCATION_TYPE, keys, ROLE)  # type: ignore[arg-type] # what it asks of a keyring
    assert keys.used is not None
    return read(payload), keys.used


def carry_out(
    desk: Desk, keys: ReleaseKeys, envelope: attest.Envelope, terms: Terms
) -> tuple[Wanted, revocations.Revocation]:
    """Revoke what a reviewer has signed for, with the envelope on record.

    Raises SignatureError or MalformedError for one that does not count, UsageError where it is of another log, has
    expired, or is by somebody who may not, and ReleaseError as :func:`acceptd.release.revoke.revoke` does.
    """
    said, reviewer = opened(envelope, desk.reviewers)
    teams = desk.policy.approvals.teams
    if reviewer.left or (teams and reviewer.team not in teams):
        who = "is no reviewer any more" if reviewer.left else f"is of {reviewer.team}, which may not decide"
        raise UsageError(f"{reviewer.name} {who}", remedy="somebody else has to sign it")
    if said.log != desk.ledger.origin:
        raise UsageError(f"the revocation is for the log {said.log!r:.140}", remedy="prepare it in this instance")
    if said.expires_at <= utc_now():
        raise UsageError(f"the revocation expired at {said.expires_at}", remedy="prepare it again")
    done = revocations.revoke(
        desk.state,
        desk.ledger,
        keys,
        digest=said.bundle_digest,
        reason=said.reason,
        rollback=said.rollback,
        by=_by(reviewer),
        terms=terms,
        envelope=of_record(envelope, desk.reviewers),
    )
    return said, done


def examine(ledger: Ledger, reviewers: Reviewers) -> Iterator[Difference]:
    """Yield recorded revocations whose signature does not verify, or says otherwise than their entry."""
    for entry in ledger.entries(kind="revoked"):
        envelope = entry.body.get("envelope")
        if envelope is None:
            continue  # by an operator, on the command line
        where = f"entry {entry.seq}"
        try:
            said, reviewer = opened(envelope, reviewers)
        except LoaderError as error:
            yield Difference("revocation", where, str(error))
            continue
        due: dict[str, Any] = {
            "digest": said.bundle_digest,
            "reason": said.reason,
            "rollback": said.rollback,
            "by": _by(reviewer),
        }
        if said.log != ledger.origin:
            yield Difference("revocation", where, f"was signed for the log {said.log!r:.140}")
        for key, value in due.items():
            if entry.body.get(key) != value:
                text = f"{key} is {entry.body.get(key)!r:.80}, the signed one is {value!r:.80}"
                yield Difference("revocation", where, text)


def _by(reviewer: Reviewer) -> str:
    return f"reviewer {reviewer.name}"


def _wanted(document: object) -> Wanted:
    if not isinstance(document, dict):
        raise MalformedError("the revocation is no JSON object")
    found = first(document, Wanted)
    if isinstance(found, Trouble):
        raise MalformedError(f"the revocation: {found.key}: {found.message}")
    return found
