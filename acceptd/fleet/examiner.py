"""A worker's step: one sealed bundle is examined under one profile, and what was found is signed and handed over.

Nothing here is believed by who judges: he checks the signature, the trust, and that it was made for his order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import structlog

from acceptd.acceptance import BUNDLE, Acceptance
from acceptd.config import Paths
from acceptd.contracts.effective import Agreed
from acceptd.errors import FleetAwayError, FleetRulesError, FleetTrustError, ObjectStoreError
from acceptd.evidence import JobRecord, Prior, Sealed
from acceptd.fleet import kept, rows
from acceptd.fleet.bridge import work_here
from acceptd.fleet.examined import MAX_BYTES, Examined, prior_of
from acceptd.fleet.host import this_node
from acceptd.fleet.order import Order
from acceptd.fleet.rows import EvidenceRow
from acceptd.fleet.statement import sign_evidence
from acceptd.fleet.task import Cancel, FleetTask
from acceptd.fleet.trust import Trust
from acceptd.heldout.stage import Keeper
from acceptd.judge.heldout import due, gap
from acceptd.judge.profiles import Target
from acceptd.kept import KeptOutputs
from acceptd.objectstore.cache import BundleCache
from acceptd.objectstore.objects import Objects
from acceptd.ordering import Shelf
from acceptd.outcomes import judge
from acceptd.prior import NO_LEDGER
from acceptd.record.entry import utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.report.logs import bound
from acceptd.rules import Rules
from acceptd.steps.sealing import drop_of
from acceptd.tools import Tools
from acceptd.work.budget import Share
from acceptd.work.hold import Hold
from acceptd.work.need import need
from acceptd.work.workers import Workers

log = structlog.get_logger("acceptd.fleet")


@dataclass(frozen=True, slots=True)
class Examiner:
    """Examines for orders. It may read submissions and insert evidence; it can sign nothing but evidence."""

    node: str
    paths: Paths
    ledger: Ledger
    queue: Queue
    objects: Objects
    cache: BundleCache
    tools: Tools
    workers: Workers
    capacity: Share
    rules: Callable[[], Rules]
    signer: Signer
    decide: Callable[[str, str, str], object]
    """Submission, model and team: the promoter is to look whether all evidence is there."""
    place: str
    """Of the cache, below the tools' ``sealed``."""
    deadline: Callable[[Row], float]
    """The monotonic time at which a submission is over."""

    def examine(self, task: FleetTask, cancel: Cancel) -> Literal["inconclusive"] | None:
        """Do what a task asks for, if the record still asks for it.

        Raises StateError where this node's rules are others, or something shared is away: it is tried again later.
        """
        row = self.queue.get(task.submission)
        if row is None or row.state != "sealed" or not row.data.get("order"):
            return None
        with bound(row.id, row.team, row.model):
            order = Order.told(row.data["order"])
            if order.round != task.round or task.profile not in order.profiles:
                return None  # ordered anew meanwhile
            if not rows.given(self.ledger, row.id, order.round, task.profile, self.node):
                rules = self.rules()
                try:
                    target = _target(rules, order, task.profile)
                except FleetRulesError:
                    # The promoter may have other rules by now as well, or the order may be none of his: he looks.
                    self.decide(row.id, order.model, row.team)
                    raise
                self._trusted(rules, order, task.profile)
                return self._under_lease(row, order, rules, target, task, cancel)
            self.decide(row.id, order.model, row.team)
        return None

    def _trusted(self, rules: Rules, order: Order, profile: str) -> None:
        """Raise FleetRulesError where what this node finds would not count: each costs the submission an order."""
        trust = Trust.of(rules.policy, utc_now())
        try:
            trust.worker(self.signer.key_id, self.node, profile, heldout=order.heldout > 0)
        except FleetTrustError as error:
            raise FleetRulesError(
                f"the policy trusts this node with no evidence under profile {profile}: {error.message}",
                remedy="`acceptd key node` prints its table for the policy; or give it other queues",
            ) from error

    def _under_lease(
        self, row: Row, order: Order, rules: Rules, target: Target, task: FleetTask, cancel: Cancel
    ) -> Literal["inconclusive"] | None:
        sealed = Sealed.model_validate(row.data["sealed"])
        share = need(rules, mapped=sealed.total_bytes, capacity=self.capacity)
        came: list[Literal["inconclusive"] | None] = []

        def work(hold: Hold) -> Share | None:
            if not hold.fit(share):
                return share
            with bound(row.id, row.team, row.model):
                came.append(self._work(row, order, rules, target, sealed, hold, last=task.last_try))
            return None

        try:
            work_here(
                self.workers,
                cancel,
                name=f"{row.id}/{target.profile.name}",
                team=row.team,
                profile=target.profile.name,
                share=share,
                deadline=self.deadline(row),
                work=work,
            )
        except ObjectStoreError as error:  # whatever it is, it says nothing about the submission
            raise FleetAwayError(f"objects: {error}") from error
        return came[0]

    def _work(
        self, row: Row, order: Order, rules: Rules, target: Target, sealed: Sealed, hold: Hold, *, last: bool
    ) -> Literal["inconclusive"] | None:
        failpoint("fleet.examine.begin")
        started = utc_now()
        keeping = kept.Uploading(KeptOutputs(self.paths.outputs), self.objects)
        with ExitStack() as stack:
            stack.enter_context(self.cache.hold("sealed", order.bundle))
            acceptance = self._acceptance(row, order, rules, hold, keeping, stack)
            if order.heldout:
                examined = self._held_out(order, acceptance, target)
            else:
                acceptance.jobs += [JobRecord.model_validate(record) for record in row.data.get("unpack", ())]
                acceptance.timings_ms["seal"] = float(row.data.get("seal_ms", 0.0))
                examined = acceptance.examine(sealed, [target])
        if not last and self._inconclusive(rules, target, order.agreed, examined):
            log.warning("inconclusive here: tried again", profile=target.profile.name)
            return "inconclusive"
        hold.finish()
        keeping.upload()
        envelope, data = sign_evidence(
            self.signer,
            this_node(self.node),
            order,
            target.profile.name,
            examined,
            started=started,
            ended=utc_now(),
        )
        digest = self.objects.put_blob(data)
        failpoint("fleet.examine.uploaded")
        given = EvidenceRow(
            row.id, order.round, target.profile.name, self.node, self.signer.key_id, envelope, digest
        )
        rows.put(self.ledger, given)
        failpoint("fleet.examine.given")
        self.decide(row.id, order.model, row.team)
        log.info("examined", profile=target.profile.name, round=order.round, evidence=digest)
        return None

    def _acceptance(
        self, row: Row, order: Order, rules: Rules, hold: Hold, keeping: kept.Uploading, stack: ExitStack
    ) -> Acceptance:
        prior = self._prior(order)
        agreed = order.agreed

        def contract(_rules: Rules, model_id: str) -> Agreed:
            return (
                agreed if model_id == order.model else Agreed()
            )  # else the promoter finds another model than ordered

        def shelf(found: Prior) -> Shelf | None:
            digest = found.bundle_digest
            if not digest:
                return None

            def verify(_paths: list[str]) -> None:
                stack.enter_context(self.cache.hold("approved", digest))  # which hashes every file

            return Shelf("sealed", f"{self.place}/{digest}/{BUNDLE}", verify)

        keeper = Keeper(self.paths.heldout, lambda _contract, _digest: order.heldout)
        return Acceptance(
            drop_of(row), rules, self.tools, hold, find_prior=lambda _model, _digest: prior, find_shelf=shelf,
            find_contract=contract, keeper=keeper, seed=order.seed, keep=keeping.keep, agreed=agreed,
            place=f"{self.place}/{order.bundle}/{BUNDLE}",
        )  # fmt: skip

    def _prior(self, order: Order) -> Prior:
        if not order.prior:
            return NO_LEDGER
        return prior_of(self.objects.get_blob(order.prior, MAX_BYTES))

    def _held_out(self, order: Order, acceptance: Acceptance, target: Target) -> Examined:
        """Evaluate what is held out, by what the promoter put together before: no fact is found out again."""
        before = Examined.from_bytes(self.objects.get_blob(order.examined, MAX_BYTES))
        return acceptance.evaluate(before, [target])

    def _inconclusive(self, rules: Rules, target: Target, agreed: Agreed, examined: Examined) -> bool:
        """Whether another try may say more: judged under this profile alone, as far as a worker can judge."""
        held = examined.submission.heldout
        if held is not None:
            return bool(gap(held))
        outcome = judge(rules.under(target), examined, agreed)
        owed = due(agreed.contract, outcome.submission, outcome.judgement)
        return outcome.judgement.verdict == "inconclusive" and not owed


def _target(rules: Rules, order: Order, profile: str) -> Target:
    """Return the profile as the order means it; raise FleetRulesError where this node's rules are others."""
    found = next((one for one in rules.targets if one.profile.name == profile), None)
    if rules.policy_digest != order.policy or found is None or found.digest != order.profiles[profile]:
        mine = f"policy {rules.policy_digest[:16]}, profile {found.digest[:16] if found else 'none'}"
        raise FleetRulesError(
            f"the rules of this node are others than the order's: {mine} here; policy {order.policy[:16]}, "
            f"profile {profile} {order.profiles[profile][:16]} ordered",
            remedy="bring the same policies directory to every node, and reload (SIGHUP)",
        )
    return found
