"""The promoter's decision: whether all evidence of an order is there, what it comes to, and what follows.

The flow of one submission, as the record says where it stands: ordered -> evidence under every profile -> (with
held-out vectors: ordered again) -> the one verdict entry -> promoted -> the intake finishes. Each step looks first
whether it is done; the ledger takes one verdict of a submission, whoever is killed when.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from acceptd.contracts.effective import Agreed
from acceptd.errors import ConfigError, FleetTrustError
from acceptd.evidence import HeldOut
from acceptd.fleet import rows
from acceptd.fleet.examined import Examined
from acceptd.fleet.handover import Handover
from acceptd.fleet.merge import merge, with_heldout
from acceptd.fleet.order import Order
from acceptd.fleet.orders import Orders
from acceptd.fleet.rows import EvidenceRow
from acceptd.fleet.statement import Evidence
from acceptd.judge.heldout import due
from acceptd.metrics.counting import Counting
from acceptd.outcomes import Outcome, judge
from acceptd.record.queue import Submission as Row
from acceptd.rules import Rules
from acceptd.steps.ends import CONTRACT_REFUSED, REFUSED, End
from acceptd.steps.lookups import Lookups

log = structlog.get_logger("acceptd.fleet")


class Opening(Protocol):
    """Says what another node's signed words are worth. Raises FleetTrustError for what does not count."""

    def handover(self, row: Row, rules: Rules) -> Handover:
        """Return what an intake of the policy's handed over."""

    def evidence(self, row: EvidenceRow, order: Order, handed: Handover, rules: Rules) -> Evidence:
        """Return what a worker that the policy trusts with this profile found for this order."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Nothing to decide yet. ``profiles``: whose evidence is missing; ``reason``: what is wrong, if anything."""

    profiles: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A new order stands."""

    order: Order


Decision = Outcome | End | Waits | Ordered


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decides about submissions that were sealed. ``opening`` knows whom the policy trusts."""

    orders: Orders
    opening: Opening
    lookups: Lookups
    count: Counting

    def decide(self, row: Row, rules: Rules) -> Decision:
        """Return what is due for a sealed submission: an order, a verdict's outcome, an end, or to wait.

        Raises FleetAwayError where something that is needed is away.
        """
        try:
            handed = self.opening.handover(row, rules)
        except FleetTrustError as error:
            self.count.refused(error.cause)
            return Waits(reason=f"the handover does not count: {error.message}")
        if handed.ended is not None:
            return End(handed.ended.code, handed.ended.message)
        if handed.sealed is None:
            return handed.not_sealed.outcome(rules, row.id, row.team)
        order = self.orders.current(row)
        if order is None or not self._stands(order, handed, rules):
            return self._ordered(self.orders.examination(row, handed, rules))
        return self._evidence(row, order, handed, rules)

    def believed(self, row: Row, rules: Rules) -> Row:
        """Return a submission without what is said of sealed bytes, unless an intake that counts said it."""
        try:
            sealed = self.opening.handover(row, rules).sealed
        except FleetTrustError:
            sealed = None
        data = {key: value for key, value in row.data.items() if key != "sealed"}
        return replace(row, data=data if sealed is None else data | {"sealed": sealed.model_dump(mode="json")})

    def _stands(self, order: Order, handed: Handover, rules: Rules) -> bool:
        """Whether an order is still what would be ordered now, as far as the rules go."""
        assert handed.sealed is not None
        named = {target.profile.name: target.digest for target in rules.targets}
        return (
            order.policy == rules.policy_digest
            and order.bundle == handed.sealed.digest
            and all(named.get(name) == digest for name, digest in order.profiles.items())
        )

    def _ordered(self, order: Order | End) -> Decision:
        return order if isinstance(order, End) else Ordered(order)

    def _evidence(self, row: Row, order: Order, handed: Handover, rules: Rules) -> Decision:
        parts, why = self._open(row, order, handed, rules)
        missing = tuple(name for name in order.profiles if name not in parts)
        if missing:
            told = [(name, why[name]) for name in missing if name in why]
            if not told:
                return Waits(missing)
            name, reason = told[0]
            again = self.orders.again(row, order, rules)
            return REFUSED.of(f"evidence under profile {name}: {reason}") if again is None else Ordered(again)
        try:
            agreed = self.lookups.contract(rules, order.model) if order.model else Agreed()
        except ConfigError as error:
            log.error("not judged: the contract is refused", reason=str(error))  # noqa: TRY400 - the place is in it
            return CONTRACT_REFUSED.of(order.model)
        if agreed.digest != order.contract_digest:  # another version came into force meanwhile
            return self._ordered(self.orders.examination(row, handed, rules))
        try:
            examined = self._whole(order, {name: one.examined for name, one in parts.items()}, rules)
        except FleetTrustError as error:
            return End(error.code, error.message)
        sources = [parts[name].source for name in order.profiles]
        return self._judged(row, order, examined, agreed, rules, [*order.nodes, *sources])

    def _judged(
        self,
        row: Row,
        order: Order,
        examined: Examined,
        agreed: Agreed,
        rules: Rules,
        nodes: list[dict[str, str]],
    ) -> Decision:
        outcome = self._outcome(examined, agreed, rules, nodes)
        if not due(agreed.contract, outcome.submission, outcome.judgement):
            return outcome
        assert agreed.contract is not None
        number = self.lookups.spend(rules, row.id, agreed.contract, agreed.digest)
        if not number:
            return self._outcome(examined.with_heldout(HeldOut(status="spent")), agreed, rules, nodes)
        return self._ordered(self.orders.held_out(row, order, rules, examined, number, nodes))

    def _outcome(self, examined: Examined, agreed: Agreed, rules: Rules, nodes: list[dict[str, str]]) -> Outcome:
        began = time.monotonic()
        known = self.lookups.advisories(rules, examined.submission.every_runtime())
        outcome = judge(rules, examined.advised(known), agreed)
        spent = {"judge": round((time.monotonic() - began) * 1000, 3)}
        return replace(outcome, nodes=tuple(nodes), timings_ms=outcome.timings_ms | spent)

    def _open(
        self, row: Row, order: Order, handed: Handover, rules: Rules
    ) -> tuple[dict[str, Evidence], dict[str, str]]:
        """Return the first evidence that counts under each profile, and why that of others does not."""
        parts: dict[str, Evidence] = {}
        why: dict[str, str] = {}
        for one in rows.of(self.orders.ledger, row.id, order.round):
            if one.profile not in order.profiles or one.profile in parts:
                continue
            try:
                parts[one.profile] = self.opening.evidence(one, order, handed, rules)
            except FleetTrustError as error:
                self.count.refused(error.cause)
                why[one.profile] = f"of node {one.node!r:.80}: {error.message}"
                log.warning("evidence refused", submission=row.id, node=one.node[:80], reason=error.message)
        return parts, why

    def missing(self, row: Row, order: Order) -> list[str]:
        """Return the profiles of an order under which nobody has given evidence, whatever it is worth."""
        given = {one.profile for one in rows.of(self.orders.ledger, row.id, order.round)}
        return [name for name in order.profiles if name not in given]

    def _whole(self, order: Order, parts: dict[str, Examined], rules: Rules) -> Examined:
        """Return all parts as one examination; of held-out vectors, the one before with what came of them."""
        if not order.heldout:
            return merge(list(parts.values()), rules.targets)
        return with_heldout(self.orders.blob(order.examined), list(parts.values()), rules.targets)
