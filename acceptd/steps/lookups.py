"""What the record knows that an examination and its judgement need: who holds the ledger answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acceptd.advisories import register as advisories
from acceptd.advisory_facts import AdvisoryStanding
from acceptd.contracts.force import Agreed, in_force
from acceptd.evidence import Prior
from acceptd.known_rules import KnownRules
from acceptd.policy.contract import Contract
from acceptd.record import evaluations
from acceptd.record.keys import Keys
from acceptd.record.log import Ledger
from acceptd.release.prior import prior_release
from acceptd.rules import Rules
from acceptd.runtime.identity import RuntimeRecord


@dataclass(frozen=True, slots=True)
class Lookups:
    """Answers from one ledger, whose signatures ``keys`` checks."""

    ledger: Ledger
    keys: Keys
    known: KnownRules

    def prior(self, rules: Rules, model_id: str, digest: str) -> Prior:
        """Return the current release that a submission of the bundle ``digest`` is compared with."""
        return prior_release(self.ledger, self.keys, model_id, rules.policy.release.channel, digest)

    def contract(self, rules: Rules, model_id: str) -> Agreed:
        """Return the contract in force, on record before anything is judged by it. Raises ConfigError."""
        agreed = in_force(rules, model_id, self.ledger)
        self.known.enter(rules, agreed)
        return agreed

    def spend(self, rules: Rules, submission: str, contract: Contract, digest: str) -> int:
        """Return the number of the submission's held-out evaluation, counted for good; 0 where none is left."""
        return evaluations.spend(self.ledger, submission, contract, digest, most=rules.policy.heldout.evaluations)

    def advisories(self, rules: Rules, records: Sequence[RuntimeRecord]) -> AdvisoryStanding | None:
        """Return what the list of advisories in force says of these runtimes; None where there is none."""
        return advisories.standing(self.ledger, rules, records)
