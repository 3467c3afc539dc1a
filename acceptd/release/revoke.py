"""Revocation: a bundle digest that no loader opens and nobody promotes, from now on.

ledger ``revoked`` → ``revocations.json`` (its number rises) → every ``channel.json`` (least number rises) →
with ``rollback``, a new number on an older bundle wherever the revoked one is current. All of it under the
exclusive revocation lock, which promotions share. Revocation wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.errors import ReleaseError, SigningError
from acceptd.policy.names import valid_sha256
from acceptd.record.failpoint import failpoint
from acceptd.record.key_command import PROBE
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release.book import Book, Row, read_book
from acceptd.release.layout import model_lock, revocation_lock
from acceptd.release.model import RevocationsDocument, RevokedRow
from acceptd.release.promote import Release, rollback_locked
from acceptd.release.settle import Terms, settle
from acceptd.release.signers import ReleaseKeys

_DEFAULT = Terms()


@dataclass(frozen=True, slots=True)
class Revocation:
    """What a revocation did. ``stranded`` are channels that still name a revoked bundle: loaders refuse them."""

    digest: str
    number: int
    """Number of the revocation list."""
    rollbacks: tuple[Release, ...]
    stranded: tuple[tuple[str, str], ...]
    problems: tuple[str, ...] = ()


def revoke(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    digest: str,
    reason: str,
    rollback: bool = False,
    by: str = "",
    terms: Terms = _DEFAULT,
    envelope: Mapping[str, Any] | None = None,
) -> Revocation:
    """Revoke a bundle digest, also one that is not (or not yet) in the store.

    ``envelope`` is what a person signed for it (:mod:`acceptd.review.revocation`); it goes into the entry.

    With ``rollback``, every channel on which it is current goes back to its newest release that is not
    revoked. Revoking again changes nothing but may add the rollback. Raises ReleaseError where the
    revocation key is not here or the digest is none; then nothing was entered.
    """
    try:
        valid_sha256(digest)
    except ValueError as error:
        raise ReleaseError(str(error)) from error
    if not reason.strip() or len(reason) > 2000:
        raise ReleaseError("a revocation needs a reason of at most 2000 characters")
    if keys.revocation is None:
        raise ReleaseError("the revocation key is not here", remedy="run this where keys/revocation.pem is")
    keys.revocation.sign(PROBE)  # before anything is entered: a list that nobody can sign tells no loader
    with revocation_lock(state, shared=False):
        known = read_book(ledger).revoked.get(digest)
        if known is None or (rollback and not known.rollback):
            body = {"digest": digest, "reason": reason, "rollback": rollback}
            ledger.append(
                "revoked", body | ({"by": by} if by else {}) | ({"envelope": envelope} if envelope else {})
            )
        failpoint("release.revoke.recorded")
        return carry_out(state, ledger, keys, digest, terms)


def carry_out(state: Path, ledger: Ledger, keys: ReleaseKeys, digest: str, terms: Terms) -> Revocation:
    """Bring list, channels and rollbacks in line with the ledger's revocations, under the exclusive lock."""
    number = write_list(state, keys, read_book(ledger), terms)
    failpoint("release.revoke.listed")
    rollbacks: list[Release] = []
    problems: list[str] = []
    for model_id, channel in sorted(read_book(ledger).channels):
        with model_lock(state, model_id):
            try:
                settle(state, ledger, keys, model_id, channel, terms)
                moved = _move_on(state, ledger, keys, (model_id, channel), terms)
                if moved is not None:
                    rollbacks.append(moved)
                _announce(state, ledger, keys, (model_id, channel), number, terms)
            # One damaged model must not keep the others unprotected.
            except (ReleaseError, SigningError, OSError) as error:
                problems.append(f"{model_id} {channel}: {error}")
        failpoint("release.revoke.announced")
    book = read_book(ledger)
    stranded = tuple(
        place for place in sorted(book.channels) if (row := book.current(*place)) and row.digest in book.revoked
    )
    return Revocation(digest, number, tuple(rollbacks), stranded, tuple(problems))


def write_list(state: Path, keys: ReleaseKeys, book: Book, terms: Terms) -> int:
    """Write ``revocations.json`` where it lacks something of the ledger; return its number.

    What is on the signed list stays on it, also where the ledger (an older backup) has forgotten it. A list
    that is damaged or missing is made anew, above every number that a channel ever announced.
    """
    rows = {
        entry.digest: RevokedRow(digest=entry.digest, reason=entry.reason, at=entry.at)
        for entry in book.revoked.values()
    }
    announced = [
        facts.least_revocations for place in book.channels if (facts := channels.read(state, keys, *place))
    ]
    least = max(announced, default=0)
    try:
        listed = channels.read_revocations(state, keys)
    except ReleaseError:
        number = max(least, len(rows)) + 1
    else:
        if listed.number >= least and set(rows) <= set(listed.revoked):
            return listed.number
        number = max(least, len(rows) - 1, listed.number) + 1
        for digest, reason in listed.revoked.items():
            rows.setdefault(digest, RevokedRow(digest=digest, reason=reason, at=channels.stamp(terms.clock())))
    document = RevocationsDocument(
        number=number,
        issued_at=channels.stamp(terms.clock()),
        revoked=sorted(rows.values(), key=lambda row: row.digest),
    )
    channels.write_revocations(state, keys, document)
    return number


def _move_on(
    state: Path, ledger: Ledger, keys: ReleaseKeys, place: tuple[str, str], terms: Terms
) -> Release | None:
    """Roll back one channel whose current bundle was revoked with rollback; None where nothing is to be done."""
    book = read_book(ledger)
    row = book.current(*place)
    entry = book.revoked.get(row.digest) if row else None
    if entry is None or not entry.rollback:
        return None
    refuge = book.refuge(*place) or book.fallback(*place)  # rather that one than a channel that no loader opens
    if refuge is None:
        return None
    reason = f"revoked: {entry.reason}"[:2000]
    return rollback_locked(state, ledger, keys, *place, reason, digest=refuge.digest, by=entry.by, terms=terms)


def _announce(
    state: Path, ledger: Ledger, keys: ReleaseKeys, place: tuple[str, str], number: int, terms: Terms
) -> None:
    """Sign ``channel.json`` anew where it does not yet ask for this revocation list."""
    row: Row | None = read_book(ledger).current(*place)
    if row is None:
        return
    facts = channels.read(state, keys, *place)
    if line := channels.ahead(facts, row):
        raise ReleaseError(line)
    if facts is None or facts.least_revocations < number or facts.number != row.number:
        channels.verified_release(state, keys, row, row.release_digest)
        channels.write(
            state, keys, row, row.release_digest,
            least_revocations=number, valid_seconds=terms.life(row.channel), clock=terms.clock,
        )  # fmt: skip
