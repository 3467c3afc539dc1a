"""The third step: what was judged becomes the one verdict entry of its submission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from acceptd import outcomes
from acceptd.acceptance import Outcome
from acceptd.contracts.force import Agreed
from acceptd.evidence import Sealed
from acceptd.known_rules import KnownRules
from acceptd.metrics.counting import Counting
from acceptd.record.entry import Appended
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.rules import Rules
from acceptd.steps.ends import End
from acceptd.verdicts import entry_body, observed, promotable, release_options, released_profiles

log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Recording:
    """Writes verdicts; it needs the ledger's key and no cell."""

    ledger: Ledger
    queue: Queue
    signer: Signer
    known: KnownRules
    standing: Callable[[], str] = lambda: "unanchored"
    """Whether a place outside the state keeps the ledger's checkpoints; each verdict says so."""
    on_verdict: Callable[[], None] = lambda: None
    count: Counting = field(default_factory=Counting)

    def record(self, row: Row, rules: Rules, outcome: Outcome, state: str = "judged") -> None:
        """Append the one verdict entry and move the submission on, in one transaction.

        Raises DuplicateEntryError where the submission has its verdict: then nothing has changed.
        """
        prepared = entry_body(row.team, row.name, rules, outcome, self.signer, self.standing(), row.uid)
        agreed = Agreed(outcome.contract, outcome.contract_digest, outcome.submission.contract)
        fresh = self.known.fresh(rules, agreed)  # rules that were loaded anew meanwhile
        log_name = self.ledger.origin
        expected = self.ledger.tree().size + len(fresh.entries)
        signed = prepared.body(log_name, expected)

        def entries(change: Transaction) -> list[Appended]:
            for blob in prepared.blobs:
                change.put_evidence(blob)
            fresh.enter(change)
            # Signed before the log was locked, for the number that the entry was to have; again where another
            # entry came first.
            number = change.next_seq
            body = signed if number == expected else prepared.body(log_name, number)
            return [change.append("verdict", body, submission=row.id)]

        model = outcome.manifest.bundle.id if outcome.manifest else None
        only = observed(rules.policy, outcome)
        self.queue.advance(
            row.id,
            state,
            entries=entries,
            model=model,
            verdict=outcome.judgement.verdict,
            reason=outcome.judgement.reason,
            document=prepared.written,
            promote=promotable(rules.policy, outcome),
            observed=only,
            manifest=outcome.manifest.model_dump(mode="json", by_alias=True) if outcome.manifest else None,
            options=release_options(rules, outcome),
            profiles=released_profiles(rules, outcome),
        )
        self.known.note(fresh)
        told = {"observed": True} if only else {}
        log.info("judged", verdict=outcome.judgement.verdict, model=model, reason=outcome.judgement.reason, **told)
        if only and outcome.judgement.verdict == "inconclusive":  # its submitter's command ends with 0
            log.error("observed without a judgement: see to this host", reason=outcome.judgement.reason)
        self.on_verdict()
        self.count.judged(row.id, outcome)

    def end(self, row: Row, rules: Rules, end: End, state: str = "judged") -> None:
        """Record ``inconclusive`` for a submission that could not be examined, with the reason."""
        sealed = Sealed.model_validate(row.data["sealed"]) if row.data.get("sealed") else None
        outcome = outcomes.without_evidence(row.id, row.team, sealed, end.code, row.name, end.message)
        self.record(row, rules, outcome, state)
