"""Signs what a worker examined and opens it again: for this order, by who counts, and true to itself.

What a trusted worker says of a model nobody can check but by letting another run it; what the statement binds,
everybody can. So evidence is held against the order, the sealed inventory and the policy first, then against
its own statement, and only then merged and judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from acceptd.errors import FleetTrustError, LedgerError, MalformedError
from acceptd.evidence import Prior, Sealed
from acceptd.fleet import envelope as envelopes
from acceptd.fleet.envelope import Told
from acceptd.fleet.examined import MAX_BYTES, Examined
from acceptd.fleet.merge import alone
from acceptd.fleet.order import Order
from acceptd.fleet.refusals import refused
from acceptd.fleet.trust import Trust
from acceptd.judge.inventory import MANIFEST_FILE
from acceptd.policy.manifest import Manifest
from acceptd.record.keys import Signer
from acceptd.report.escape import line
from acceptd.statement.fleet import EVIDENCE_TYPE, Blob, EvidencePredicate, Node, Runtime, Standing

Fetch = Callable[[str, int], bytes]
"""SHA-256 and the most bytes to read: to the bytes."""


@dataclass(frozen=True, slots=True)
class Due:
    """What evidence has to be about, by the promoter's own record: ``first`` is the policy's first profile."""

    order: Order
    team: str
    sealed: Sealed
    first: str
    prior: Prior | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence that counts, with whose word it is."""

    examined: Examined
    told: Told[EvidencePredicate]

    @property
    def source(self) -> dict[str, str]:
        """Return whose evidence a profile rests on, as the verdict's statement names it."""
        said = self.told.predicate
        return {
            "profile": said.profile,
            "node": said.node.name,
            "host": said.node.host,
            "key_id": self.told.key_id,
            "statement": self.told.digest,
        }


def sign_evidence(
    signer: Signer, node: Node, order: Order, profile: str, examined: Examined, *, started: str, ended: str
) -> tuple[str, bytes]:
    """Return the envelope, and the bytes of the evidence that it binds: those go to the object store first.

    ``started`` and ``ended`` are UTC, RFC 3339. Raises SigningError as the signer does, and FleetTrustError
    (``size``) for evidence that nobody would read.
    """
    data = examined.to_bytes()
    if len(data) > MAX_BYTES:
        raise refused("size", f"evidence of {len(data)} bytes, at most {MAX_BYTES} are read")
    one = examined.submission
    assert one.sealed is not None  # what is not sealed is nobody's to examine
    sha256 = hashlib.sha256(data).hexdigest()
    said = EvidencePredicate(
        node=node,
        submission=one.id,
        team=one.team,
        round=order.round,
        order=order.digest,
        heldout=order.heldout,
        bundle_digest=one.sealed.digest,
        policy_digest=order.policy,
        contract_digest=examined.contract_digest,
        profile=profile,
        profile_digest=order.profiles[profile],
        seed_digest=_hashed(order.seed),
        evidence=Blob(sha256=sha256, bytes=len(data)),
        walls=_standing(examined),
        runtime=_runtime(examined, profile),
        started_at=started,
        ended_at=ended,
    )
    return envelopes.sealed_in(said, EVIDENCE_TYPE, _subjects(said), signer), data


def read_evidence(envelope: str | bytes, trust: Trust, due: Due, profile: str) -> Told[EvidencePredicate]:
    """Return what a worker's statement binds, once it is known to count for ``profile`` of the order.

    Nothing but the envelope is read. Raises FleetTrustError with the cause.
    """
    told = envelopes.opened(envelope, trust, EVIDENCE_TYPE, EvidencePredicate, "evidence")
    said, order = told.predicate, due.order
    entry = trust.worker(told.key_id, said.node.name, said.profile, heldout=said.heldout > 0)
    wanted: list[tuple[str, str, Any, Any]] = [
        ("submission", "submission", said.submission, order.submission),
        ("submission", "team", said.team, due.team),
        ("round", "round", said.round, order.round),
        ("bundle", "bundle", said.bundle_digest, order.bundle),
        ("policy", "policy", said.policy_digest, order.policy),
        ("profile", "profile", said.profile, profile),
        ("profile", "profile's digest", said.profile_digest, order.profiles.get(profile)),
        ("seed", "seed", said.seed_digest, _hashed(order.seed)),
        ("heldout", "held-out evaluation", said.heldout, order.heldout),
        ("order", "order", said.order, order.digest),
    ]
    for cause, what, found, expected in wanted:
        if found != expected:
            words = f"evidence of {said.node.name} for another {what}: {found!r:.80}, and not {expected!r:.80}"
            raise refused(cause, words)
    if said.contract_digest not in {"", order.contract_digest}:
        raise refused("contract", f"evidence of {said.node.name} under another contract: {said.contract_digest}")
    if list(told.subjects) != _subjects(said):
        raise refused("contradiction", f"evidence of {said.node.name}: its subjects are not what it binds")
    if said.evidence.bytes > MAX_BYTES:
        raise refused("size", f"evidence of {said.evidence.bytes} bytes, at most {MAX_BYTES} are read")
    trust.fresh(f"the examination by {said.node.name}", said.started_at, said.ended_at)
    trust.walled(entry, said.walls.states)
    return told


def open_evidence(envelope: str | bytes, trust: Trust, due: Due, profile: str, fetch: Fetch) -> Evidence:
    """Return evidence that counts for ``profile`` of the order, read by its digest with ``fetch``.

    Raises FleetTrustError with the cause, and what ``fetch`` raises.
    """
    told = read_evidence(envelope, trust, due, profile)
    said = told.predicate
    data = fetch(said.evidence.sha256, said.evidence.bytes)
    who = f"evidence of {said.node.name}"
    if len(data) != said.evidence.bytes or hashlib.sha256(data).hexdigest() != said.evidence.sha256:
        raise refused("digest", f"{who}: what is stored is not what was signed ({said.evidence.sha256})")
    try:
        examined = Examined.from_bytes(data)
    except MalformedError as error:
        raise refused("malformed", f"{who}: {error}"[:400]) from error
    try:
        untrue = next(_untrue(examined, said, due), "")
    except (ValueError, LedgerError, RecursionError) as error:  # a value that no record can hold
        raise refused("malformed", f"{who}: {error}"[:400]) from error
    if untrue:
        raise refused("contradiction", f"{who} contradicts itself or the order: {untrue}"[:400])
    return Evidence(examined, told)


def _untrue(found: Examined, said: EvidencePredicate, due: Due) -> Iterator[str]:
    """Yield what the evidence says otherwise than its own statement, the order, or itself."""
    one, order = found.submission, due.order
    if found.profiles != [said.profile]:
        yield f"it is under {', '.join(found.profiles) or 'no profile'!r:.80}"
    try:
        alone(found, due.first, heldout=order.heldout > 0)
    except FleetTrustError as error:
        yield error.message
    if (one.id, one.team) != (said.submission, said.team):
        yield f"it is of submission {one.id!r:.80} of team {one.team!r:.80}"
    if one.sealed != due.sealed:
        yield "it is about another inventory than was sealed"
    if one.seal_failure is not None:
        yield "it says that the bundle could not be sealed, and it was"
    if found.contract_digest != said.contract_digest:
        yield f"it is under the contract {found.contract_digest!r:.80}"
    if one.contract != (order.standing if found.contract_digest else None):
        yield "the contract stands otherwise"
    if one.prior not in (None, due.prior):
        yield "it was compared with another release"
    if (one.walls, _notes(one.wall_notes)) != (said.walls.states, said.walls.notes):
        yield "other walls stood"
    if _runtime(found, said.profile) != said.runtime:
        yield "it ran in another runtime"
    yield from _manifest(found, due)
    yield from _heldout(found, order)


def _manifest(found: Examined, due: Due) -> Iterator[str]:
    """Yield where the manifest is not what the worker's own job read, or the contract was left out."""
    one = found.submission
    declared = any(file.path == MANIFEST_FILE for file in due.sealed.files)
    if bool(one.inferred) and declared:
        yield "its manifest was inferred, and the bundle has one"
    if due.order.heldout:  # nothing of the bundle is examined again
        if found.contract_digest != due.order.contract_digest:
            yield "the contract was left out"
        return
    if found.manifest is None:
        if any(job.kind == "run" for job in one.jobs):
            yield "something was run without a manifest"
        return
    if not declared:
        return
    read = next((job.manifest for job in reversed(one.jobs) if job.kind == "manifest" and job.manifest), None)
    if read is None or Manifest.model_validate(read, strict=False) != found.manifest:
        yield "its manifest is not what its own job read"
    if due.order.model and found.manifest.bundle.id != due.order.model:
        yield f"its manifest is of model {found.manifest.bundle.id!r:.80}"
    mine = found.manifest.bundle.id.partition("/")[0] == due.team
    if mine and found.contract_digest != due.order.contract_digest:
        yield "the contract was left out"


def _heldout(found: Examined, order: Order) -> Iterator[str]:
    held = found.submission.heldout
    if (held is not None) != (order.heldout > 0):
        yield "held-out vectors were not asked for" if held is not None else "held-out vectors were not evaluated"
    elif held is not None and held.status not in {"run", "refused"}:
        yield f"held-out vectors were not evaluated: {held.status}"
    elif held is not None and held.status == "run" and held.number != order.heldout:
        yield f"it is the held-out evaluation {held.number}"


def _subjects(said: EvidencePredicate) -> list[tuple[str, str]]:
    return [
        (f"submission/{said.submission}", said.bundle_digest),
        (f"evidence/{said.profile}", said.evidence.sha256),
    ]


def _standing(examined: Examined) -> Standing:
    one = examined.submission
    states: dict[str, Any] = dict(one.walls)
    return Standing(states=states, notes=_notes(one.wall_notes))


def _notes(notes: Mapping[str, str]) -> dict[str, str]:
    return {name: line(note, 400) for name, note in notes.items()}


def _runtime(examined: Examined, profile: str) -> Runtime:
    under = examined.submission.under(profile)
    measured = under.runtimes[0] if under.runtimes else None
    versions = {} if measured is None else {"onnxruntime": measured.onnxruntime, "python": measured.python}
    shown = {name: line(version, 100) for name, version in versions.items()}
    return Runtime(
        identity=under.runtime_identity,
        cpu_class=line(measured.cpu_class, 200) if measured is not None else "",
        versions=shown,
    )


def _hashed(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()
