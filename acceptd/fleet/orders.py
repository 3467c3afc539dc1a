"""The promoter's orders: what is examined next, written into the record, signed, and put into the queues."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from acceptd.contracts.effective import Agreed
from acceptd.errors import ConfigError, FleetAwayError, LoaderError, ObjectStoreError
from acceptd.fleet.examined import MAX_BYTES, Examined
from acceptd.fleet.handover import Handover
from acceptd.fleet.order import Order, queue_of
from acceptd.fleet.tasks import Offered, Tasks
from acceptd.judge.infer import sanitise
from acceptd.known_rules import KnownRules
from acceptd.objectstore.objects import Objects
from acceptd.record.canonical import plain_bytes
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Keyring, Signer
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.rules import Rules
from acceptd.steps.ends import CONTRACT_REFUSED, REFUSED, End
from acceptd.steps.lookups import Lookups

MANIFEST_FILE: Final = "bundle.toml"
log = structlog.get_logger("acceptd.fleet")


@dataclass(frozen=True, slots=True)
class Orders:
    """Writes orders. ``keyring`` has the keys that may have signed earlier ones, ``secret`` makes probe seeds."""

    ledger: Ledger
    queue: Queue
    tasks: Tasks
    objects: Objects
    lookups: Lookups
    known: KnownRules
    signer: Signer
    keyring: Callable[[], Keyring]
    rules: Callable[[], Rules]
    secret: bytes
    most: int
    """Orders of one submission."""

    def current(self, row: Row) -> Order | None:
        """Return the order that stands; None where there is none that we have signed, for this submission."""
        envelope = row.data.get("order")
        if envelope is None:
            return None
        try:
            order = Order.opened(envelope, self.keyring())
        except LoaderError as error:
            log.error("an order in the record is none of ours", submission=row.id, reason=str(error))  # noqa: TRY400
            return None
        return order if order.submission == row.id else None

    def examination(self, row: Row, handed: Handover, rules: Rules) -> Order | End:
        """Order the examination under every profile: the first one, or anew under other rules."""
        assert handed.sealed is not None
        number = self._next(row)
        if number > self.most:
            return REFUSED.of(f"ordered {self.most} times, and no evidence that counts came of it")
        self.known.enter(rules)
        model = handed.model if handed.model.partition("/")[0] == row.team else ""
        inferred = all(file.path != MANIFEST_FILE for file in handed.sealed.files)
        try:
            agreed = self.lookups.contract(rules, model) if model else Agreed()
        except ConfigError as error:  # a broken contract is not a missing one: nothing is judged without it
            log.error("not ordered: the contract is refused", reason=str(error))  # noqa: TRY400 - the place is in it
            return CONTRACT_REFUSED.of(model)
        compared = f"{sanitise(row.team)}/{sanitise(row.name)}" if inferred else model
        prior = self.lookups.prior(rules, compared, handed.sealed.digest) if compared else None
        contract = agreed.contract
        order = Order(
            submission=row.id,
            round=number,
            model=model,
            bundle=handed.sealed.digest,
            policy=rules.policy_digest,
            profiles={target.profile.name: target.digest for target in rules.targets},
            contract=contract.model_dump(mode="json", by_alias=True) if contract is not None else None,
            contract_digest=agreed.digest,
            standing=agreed.standing,
            seed=hmac.digest(self.secret, handed.sealed.digest.encode(), "sha256").hex(),
            prior=self._blob(prior.model_dump(mode="json", by_alias=True)) if prior is not None else "",
        )
        return self._give(row, order, rules)

    def held_out(
        self,
        row: Row,
        order: Order,
        rules: Rules,
        examined: Examined,
        evaluation: int,
        nodes: list[dict[str, str]],
    ) -> Order | End:
        """Order an evaluation that was spent, under every required profile. A kill before leaves it spent."""
        number = self._next(row)
        if number > self.most:
            return REFUSED.of(f"ordered {self.most} times, and no evidence that counts came of it")
        required = {target.profile.name: target.digest for target in rules.targets if target.required}
        found = self._put(examined.to_bytes())
        changes = {"round": number, "profiles": required, "heldout": evaluation, "examined": found, "nodes": nodes}
        return self._give(row, order.model_copy(update=changes), rules)

    def again(self, row: Row, order: Order, rules: Rules) -> Order | None:
        """Order the same once more, since evidence was refused; None where that was done often enough."""
        number = self._next(row)
        return None if number > self.most else self._give(row, order.model_copy(update={"round": number}), rules)

    def blob(self, digest: str) -> Examined:
        """Return the examination that an order of ours names. Raises FleetAwayError, MalformedError."""
        try:
            return Examined.from_bytes(self.objects.get_blob(digest, MAX_BYTES))
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error

    def offer(self, row: Row, order: Order, rules: Rules, profiles: Iterable[str] | None = None) -> Offered:
        """Put examinations of an order into the queues of its profiles; ``full`` where one found no place."""
        targets = {target.profile.name: target for target in rules.targets}
        worst: Offered = "known"
        for name in order.profiles if profiles is None else profiles:
            if name not in targets:
                continue  # of other rules: ordered anew when that is seen
            lock = order.model or row.id
            offered = self.tasks.examine(
                row.id, order.round, name, queue_of(targets[name].profile), lock, team=row.team
            )
            worst = offered if offered == "full" or (worst != "full" and offered == "queued") else worst
        return worst

    def _next(self, row: Row) -> int:
        """Return the number of the next order."""
        before = self.current(row)
        return before.round + 1 if before is not None else 1

    def _give(self, row: Row, order: Order, rules: Rules) -> Order:
        self.queue.advance(row.id, "sealed", order=order.signed(self.signer), model=order.model or None)
        failpoint("fleet.order.written")
        self.offer(row, order, rules)
        log.info("ordered", submission=row.id, round=order.round, heldout=order.heldout, bundle=order.bundle)
        return order

    def _blob(self, document: dict[str, Any]) -> str:
        return self._put(plain_bytes(document))

    def _put(self, data: bytes) -> str:
        try:
            return self.objects.put_blob(data)
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error
