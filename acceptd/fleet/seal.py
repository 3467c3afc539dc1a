"""Signs what an intake sealed and opens it again: whose drop it is, and which bytes, before any are examined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acceptd.errors import LedgerError
from acceptd.evidence import JobRecord, Sealed
from acceptd.fleet import envelope as envelopes
from acceptd.fleet.envelope import Told
from acceptd.fleet.refusals import refused
from acceptd.fleet.trust import Trust
from acceptd.intake.target import bundle_digest
from acceptd.record.canonical import document_digest
from acceptd.record.keys import Signer
from acceptd.report.escape import line
from acceptd.statement.fleet import SEAL_TYPE, Node, SealPredicate


def sign_seal(
    signer: Signer,
    node: Node,
    *,
    submission: str,
    team: str,
    drop: str,
    uid: int | None,
    sealed: Sealed,
    jobs: Sequence[JobRecord],
    model: str,
    at: str,
) -> str:
    """Return the envelope about one sealed drop. ``jobs`` unpacked it and read its manifest.

    ``model`` is the id that the manifest gives (empty: none that counts), ``at`` UTC, RFC 3339. Raises
    SigningError as the signer does.
    """
    said = SealPredicate(
        node=node,
        submission=submission,
        team=team,
        drop=line(drop, 1000),
        uid=uid,
        bundle_digest=sealed.digest,
        inventory_digest=_inventory(sealed),
        files=len(sealed.files),
        total_bytes=sealed.total_bytes,
        jobs_digest=_jobs(jobs),
        model=model,
        sealed_at=at,
    )
    return envelopes.sealed_in(said, SEAL_TYPE, [(f"submission/{submission}", sealed.digest)], signer)


def open_seal(
    envelope: str | bytes,
    trust: Trust,
    *,
    submission: str,
    team: str,
    drop: str,
    uid: int | None,
    sealed: Sealed,
    jobs: Sequence[JobRecord],
    model: str,
) -> Told[SealPredicate]:
    """Return what an intake that counts signed, once it is what the record says. Raises FleetTrustError.

    The record may have been written by anybody who may write submissions; nothing of it is believed before.
    """
    told = envelopes.opened(envelope, trust, SEAL_TYPE, SealPredicate, "a seal")
    said = told.predicate
    trust.node(told.key_id, "intake", said.node.name)
    wanted: list[tuple[str, str, Any, Any]] = [
        ("submission", "submission", said.submission, submission),
        ("submission", "team", said.team, team),
        ("submission", "drop", said.drop, line(drop, 1000)),
        ("submission", "uid", said.uid, uid),
        ("bundle", "bundle", said.bundle_digest, sealed.digest),
        ("bundle", "inventory", said.inventory_digest, _inventory(sealed)),
        ("bundle", "jobs", said.jobs_digest, _jobs(jobs)),
        ("bundle", "model", said.model, model),
        ("bundle", "number of files", said.files, len(sealed.files)),
        ("bundle", "size", said.total_bytes, sealed.total_bytes),
    ]
    for cause, what, found, expected in wanted:
        if found != expected:
            raise refused(
                cause, f"a seal of {said.node.name} for another {what}: {found!r:.80}, not {expected!r:.80}"
            )
    if told.subjects != ((f"submission/{submission}", sealed.digest),):
        raise refused("contradiction", f"a seal of {said.node.name}: its subject is not what it binds")
    if not _whole(sealed):
        raise refused("bundle", f"a seal of {said.node.name}: its files do not make up the bundle {sealed.digest}")
    trust.fresh(f"the seal by {said.node.name}", said.sealed_at, said.sealed_at)
    return told


def _whole(sealed: Sealed) -> bool:
    """Say whether the files make up the bundle, in bytes and by its digest."""
    try:
        return sum(one.size for one in sealed.files) == sealed.total_bytes and (
            bundle_digest(sealed.files) == sealed.digest
        )
    except LedgerError:  # a size or a path that no digest is made of
        return False


def _inventory(sealed: Sealed) -> str:
    return document_digest(sealed.model_dump(mode="json"))


def _jobs(jobs: Sequence[JobRecord]) -> str:
    return document_digest([one.model_dump(mode="json", by_alias=True) for one in jobs])
