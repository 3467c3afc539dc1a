"""Opens what other nodes handed over: signed with a key that the policy trusts in that role, for this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from acceptd.errors import (
    FleetAwayError,
    LoaderError,
    MalformedError,
    ObjectDamagedError,
    ObjectMissingError,
    ObjectStoreError,
)
from acceptd.evidence import JobRecord, Prior, Sealed
from acceptd.fleet.examined import prior_of
from acceptd.fleet.handover import TYPE, Handover
from acceptd.fleet.order import Order
from acceptd.fleet.refusals import refused
from acceptd.fleet.rows import EvidenceRow
from acceptd.fleet.seal import open_seal
from acceptd.fleet.statement import Due, Evidence, open_evidence
from acceptd.fleet.trust import Trust
from acceptd.objectstore.objects import Objects
from acceptd.record import attest
from acceptd.record.entry import utc_now
from acceptd.record.keys import NODE
from acceptd.record.queue import Submission as Row
from acceptd.rules import Rules

MOST_PRIOR = 256 << 20


@dataclass(frozen=True, slots=True)
class Trusted:
    """Opens by the policy in force. ``now`` is UTC, RFC 3339."""

    objects: Objects
    now: Callable[[], str] = utc_now

    def handover(self, row: Row, rules: Rules) -> Handover:
        """Return what an intake handed over. Raises FleetTrustError with the cause."""
        trust = Trust.of(rules.policy, self.now())
        if row.data.get("handover") is not None:
            return _not_sealed(row, trust)
        try:
            sealed = Sealed.model_validate(row.data["sealed"])
            jobs = [JobRecord.model_validate(one) for one in row.data["unpack"]]
            envelope, model = str(row.data["seal"]), str(row.data["declared_model"])
        except (KeyError, TypeError, ValidationError) as error:
            raise refused("malformed", "nothing that was sealed stands in the record") from error
        told = open_seal(
            envelope, trust, submission=row.id, team=row.team, drop=row.name, uid=row.uid,
            sealed=sealed, jobs=jobs, model=model,
        )  # fmt: skip
        return Handover(
            submission=row.id, node=told.predicate.node.name, team=row.team, drop=row.name, uid=row.uid,
            sealed=sealed, model=model, unpack=jobs,
        )  # fmt: skip

    def evidence(self, row: EvidenceRow, order: Order, handed: Handover, rules: Rules) -> Evidence:
        """Return what a worker found for this order. Raises FleetTrustError, and FleetAwayError."""
        assert handed.sealed is not None
        due = Due(
            order=order,
            team=handed.team,
            sealed=handed.sealed,
            first=rules.targets[0].profile.name,
            prior=self._prior(order),
        )
        trust = Trust.of(rules.policy, self.now())
        found = open_evidence(row.envelope, trust, due, row.profile, self._fetch)
        unpacked = [JobRecord.model_validate(one) for one in handed.unpack]
        if not order.heldout and found.examined.submission.jobs[: len(unpacked)] != unpacked:
            raise refused("contradiction", f"evidence of {row.node!r:.80} says otherwise how it was unpacked")
        return found

    def _prior(self, order: Order) -> Prior | None:
        if not order.prior:
            return None
        try:
            data = self.objects.get_blob(order.prior, MOST_PRIOR)
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error
        return prior_of(data)

    def _fetch(self, sha256: str, most: int) -> bytes:
        try:
            return self.objects.get_blob(sha256, most)
        except (ObjectMissingError, ObjectDamagedError) as error:
            raise refused("digest", f"the evidence {sha256} is not in the object store: {error}"[:400]) from error
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error


def _not_sealed(row: Row, trust: Trust) -> Handover:
    envelope = row.data["handover"]
    try:
        payload, keys = attest.unverified(envelope)
        if len(keys) != 1:
            raise refused("malformed", f"the handover has {len(keys)} signatures, one is meant")
        handed = Handover.read(payload, row)
        trust.node(keys[0], "intake", handed.node)
        attest.verify(envelope, TYPE, trust.known(keys[0], "the handover"), NODE)
    except LoaderError as error:
        cause = "malformed" if isinstance(error, MalformedError) else "bad-signature"
        raise refused(cause, f"the handover: {error}"[:400]) from error
    return handed
