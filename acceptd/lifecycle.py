"""One submission from claimed to done, each step durable before the next (design, sections 5 to 8).

States: ``claimed`` (ours, nothing read yet) -> ``sealed`` -> ``judged`` (the verdict entry is in the
ledger, exactly one) -> ``promoted`` -> ``done``. A kill at any point leaves a state from which the
same code goes on; two daemon deaths in one state end in quarantine with an ``inconclusive`` verdict.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from acceptd import outcomes
from acceptd.acceptance import Acceptance, Drop, Outcome
from acceptd.advisories import register as advisories
from acceptd.config import Paths
from acceptd.contracts.force import Agreed, in_force
from acceptd.errors import AcceptdError, ConfigError, InternalError, ReleaseError, StateError
from acceptd.evidence import JobRecord, Prior, Sealed, SealFailure
from acceptd.heldout.stage import Keeper
from acceptd.intake import files
from acceptd.intake.claims import Claim
from acceptd.kept import KeptOutputs
from acceptd.known_rules import KnownRules
from acceptd.metrics.counting import Counting
from acceptd.ordering import Shelf
from acceptd.policy.contract import Contract
from acceptd.promotions import KEPT, Promoted, Promotions
from acceptd.record import evaluations
from acceptd.record.entry import Appended
from acceptd.record.failpoint import failpoint
from acceptd.record.key_command import PROBE
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger, Transaction
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.release.layout import store_lock
from acceptd.release.prior import prior_release
from acceptd.release.signers import ReleaseKeys
from acceptd.release.store import put, verify_some
from acceptd.report.logs import bound
from acceptd.report.outbox import write_outbox
from acceptd.report.verification import place
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.verdicts import entry_body, observed, promotable, release_options, released_profiles
from acceptd.work.budget import Share
from acceptd.work.lease import Reason
from acceptd.work.need import need
from acceptd.work.workers import Hold

MAX_DEATHS = 2
EXAMINED = frozenset({"claimed", "sealed"})
"""The states whose work needs the machine; all later ones only record."""
GIVEN_UP: dict[Reason, tuple[str, str]] = {
    "deadline": ("cell/deadline", "the submission's deadline passed while it was examined; its jobs were ended"),
    "withdrawn": ("cell/withdrawn", "the drop was taken out of the inbox before a verdict; its jobs were ended"),
}
log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Works submissions; shared by all worker threads."""

    paths: Paths
    ledger: Ledger
    queue: Queue
    tools: Tools
    capacity: Share
    """Of the machine, for all submissions."""
    rules: Callable[[], Rules]
    ledger_signer: Signer
    release_keys: ReleaseKeys
    on_verdict: Callable[[], None] = lambda: None
    count: Counting = field(default_factory=Counting)
    standing: Callable[[], str] = lambda: "unanchored"
    """Whether a place outside the state keeps the ledger's checkpoints; each verdict says so."""
    discard: Callable[[Claim], list[str]] = lambda _claim: []
    on_stage: Callable[[Row, str], None] = lambda _row, _stage: None
    """Told which stage of a submission begins."""
    promotions: Promotions = field(init=False)
    _known: KnownRules = field(init=False)

    def __post_init__(self) -> None:
        made = Promotions(self.paths.state, self.ledger, self.release_keys, self.rules)
        object.__setattr__(self, "promotions", made)
        object.__setattr__(self, "_known", KnownRules(self.ledger))

    def claim(self, claim: Claim) -> None:
        """Make a claimed drop durable in the queue; an id that is known already is left as it is."""
        if self.queue.get(claim.id) is not None:
            return
        refusal = claim.refusal.model_dump() if claim.refusal else None
        self.queue.add(
            claim.id,
            team=claim.team,
            name=claim.name,
            path=str(claim.path),
            kind=claim.kind,
            uid=claim.uid,
            refusal=refusal,
        )

    def process(self, submission: str, hold: Hold | None = None) -> Share | None:
        """Work one submission until it is final. Safe to call again after a kill at any point.

        ``hold`` is the lease; without one only what needs no examination is done. Returns None when it is
        final, or the lease that it needs to go on where that does not fit now. Raises GivenUpError when
        the work is cancelled: :meth:`given_up` says what becomes of it.
        """
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            while not row.final:
                rules = self.rules()
                if row.state not in EXAMINED:
                    if hold is not None:
                        hold.finish()
                elif hold is None:
                    raise InternalError(f"submission {submission} cannot be examined without a lease")
                elif not hold.fit(wanted := self._need(row, rules)):
                    return wanted
                with bound(row.id, row.team, row.model):  # the model as soon as one is known
                    lost = self.queue.note_start(submission, row.state) >= MAX_DEATHS
                    self._quarantine(row) if lost else self._step(row, rules, hold)
                row = self._row(submission)
        return None

    def given_up(self, submission: str, reason: Reason) -> None:
        """End a submission whose work was cancelled; after a stop it is taken up at the next start instead."""
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            if reason not in GIVEN_UP:
                self.queue.clear(submission)  # nobody's death
                log.info("put back", reason=reason, state=row.state)
                return
            code, message = GIVEN_UP[reason]
            if row.state in EXAMINED:
                self._without_evidence(row, code, message, "judged")
        self.process(submission)

    def expire(self, submission: str) -> None:
        """End a submission whose deadline passed before it was started: ``inconclusive``."""
        row = self._row(submission)
        with bound(row.id, row.team, row.model):
            if row.state in EXAMINED:
                message = "the submission's deadline passed before its turn came; nothing was examined"
                self._without_evidence(row, "cell/deadline", message, "judged")
        self.process(submission)

    def _row(self, submission: str) -> Row:
        row = self.queue.get(submission)
        assert row is not None, submission
        return row

    def _need(self, row: Row, rules: Rules) -> Share:
        """Return the lease for the next step: from sealing on the bundle's size bounds what a run may map."""
        mapped = Sealed.model_validate(row.data["sealed"]).total_bytes if row.data.get("sealed") else 0
        return need(rules, mapped=mapped, capacity=self.capacity)

    def _step(self, row: Row, rules: Rules, hold: Hold | None) -> None:
        failpoint(f"lifecycle.{row.state}.begin")
        if row.state in EXAMINED:
            self._known.enter(rules)
        if row.state == "claimed":
            assert hold is not None
            self._seal(row, rules, hold)
        elif row.state == "sealed":
            assert hold is not None
            self._judge(row, rules, hold)
        elif row.state == "judged":
            self._promote(row)
        else:
            self._finish(row)

    # -- claimed -> sealed ----------------------------------------------------------------------------

    def _drop(self, row: Row) -> Drop:
        kind: Any = row.kind if row.kind in {"zip", "tar", "tar.gz"} else "directory"
        return Drop(id=row.id, team=row.team, name=row.name, source=Path(row.path), kind=kind)

    def _acceptance(self, row: Row, rules: Rules, hold: Hold) -> Acceptance:
        def prior(model_id: str, digest: str) -> Prior:
            channel = rules.policy.release.channel
            return prior_release(self.ledger, self.release_keys, model_id, channel, digest)

        def shelf(prior: Prior) -> Shelf | None:
            digest = prior.bundle_digest
            verify = partial(verify_some, self.paths.state, digest)
            return Shelf("store", digest, verify) if digest else None

        def spend(contract: Contract, digest: str) -> int:
            return evaluations.spend(self.ledger, row.id, contract, digest, most=rules.policy.heldout.evaluations)

        def contract(chosen: Rules, model_id: str) -> Agreed:
            agreed = in_force(chosen, model_id, self.ledger)
            self._known.enter(chosen, agreed)  # before anything is judged by it
            return agreed

        keeper = Keeper(self.paths.heldout, spend)
        return Acceptance(
            self._drop(row), rules, self.tools, hold, progress=partial(self.on_stage, row),
            find_prior=prior, find_shelf=shelf, find_advisories=partial(advisories.standing, self.ledger),
            find_contract=contract, keeper=keeper, keep=KeptOutputs(self.paths.outputs).keep,
        )  # fmt: skip

    def _seal(self, row: Row, rules: Rules, hold: Hold) -> None:
        if row.data.get("refusal"):
            self._record(row, rules, outcomes.refused(rules, row.id, row.team, SealFailure(**row.data["refusal"])))
            return
        # A kill while sealing leaves a torn copy: it never had a name that counts, and goes.
        files.remove_tree(self.paths.sealed, row.id)
        acceptance = self._acceptance(row, rules, hold)
        self.on_stage(row, "seal")
        start = time.monotonic()
        sealed, failure = acceptance.seal()
        spent = round((time.monotonic() - start) * 1000, 3)
        if sealed is None:
            if failure is None:  # the unpack job ended badly: its record is the evidence
                outer = self.tools.cell.outer_states
                failure_outcome = outcomes.not_unpacked(rules, row.id, row.team, acceptance.jobs, outer)
            else:
                failure_outcome = outcomes.refused(rules, row.id, row.team, failure)
            self._record(row, rules, failure_outcome)
            return
        log.info("sealed", digest=sealed.digest, files=len(sealed.files), bytes=sealed.total_bytes)
        self.queue.advance(
            row.id,
            "sealed",
            bundle_digest=sealed.digest,
            sealed=sealed.model_dump(mode="json"),
            unpack=[record.model_dump(mode="json", by_alias=True) for record in acceptance.jobs],
            seal_ms=spent,
        )

    # -- sealed -> judged -----------------------------------------------------------------------------

    def _judge(self, row: Row, rules: Rules, hold: Hold) -> None:
        if self._lost(row):
            return
        self.ledger_signer.sign(PROBE)  # nothing is examined while nobody could sign what comes of it
        acceptance = self._acceptance(row, rules, hold)
        acceptance.jobs += [JobRecord.model_validate(record) for record in row.data.get("unpack", ())]
        acceptance.timings_ms["seal"] = float(row.data.get("seal_ms", 0.0))
        try:
            outcome = acceptance.run(Sealed.model_validate(row.data["sealed"]))
        except ConfigError as error:  # a broken contract is not a missing one: nothing is judged without it
            log.error("not judged: the contract is refused", reason=str(error))  # noqa: TRY400 - the place is in it
            model = acceptance.manifest.bundle.id if acceptance.manifest else row.name
            message = f"the acceptor's contract for {model} is refused"
            self._without_evidence(row, "contract/refused", message, "judged")
            return
        hold.finish()
        if self._lost(row):  # whatever jobs said of files that somebody took away
            return
        failpoint("lifecycle.sealed.before-record")
        self._record(row, rules, outcome)

    def _lost(self, row: Row) -> bool:
        """Whether the sealed copy is gone (sealed/ was removed or made anew): then that is put on record."""
        if (self.paths.sealed / row.id / "bundle").is_dir():
            return False
        if not self.paths.sealed.is_dir():
            raise StateError(f"{self.paths.sealed} is gone", remedy=f"acceptd init --state {self.paths.state}")
        self._without_evidence(row, "cell/copy-lost", "the sealed copy was removed before it was judged", "judged")
        return True

    def _record(self, row: Row, rules: Rules, outcome: Outcome, state: str = "judged") -> None:
        """Append the one verdict entry and move the submission on, in one transaction."""
        prepared = entry_body(row.team, row.name, rules, outcome, self.ledger_signer, self.standing(), row.uid)
        agreed = Agreed(outcome.contract, outcome.contract_digest, outcome.submission.contract)
        fresh = self._known.fresh(rules, agreed)  # rules that were loaded anew meanwhile
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
            document=prepared.document,
            promote=promotable(rules.policy, outcome),
            observed=only,
            manifest=outcome.manifest.model_dump(mode="json", by_alias=True) if outcome.manifest else None,
            options=release_options(rules, outcome),
            profiles=released_profiles(rules, outcome),
        )
        self._known.note(fresh)
        told = {"observed": True} if only else {}
        log.info("judged", verdict=outcome.judgement.verdict, model=model, reason=outcome.judgement.reason, **told)
        if only and outcome.judgement.verdict == "inconclusive":  # its submitter's command ends with 0
            log.error("observed without a judgement: see to this host", reason=outcome.judgement.reason)
        self.on_verdict()
        self.count.judged(row.id, outcome)

    # -- judged -> promoted ---------------------------------------------------------------------------

    def _promote(self, row: Row) -> None:
        """Keep an accepted bundle in the store, and promote it to every channel that it comes to by itself.

        What was only observed is promoted by nobody, so its bytes are not kept.
        """
        done = Promoted()
        if row.data.get("verdict") == "accepted" and not row.data.get("observed"):
            self.on_stage(row, "promote")
            try:
                with store_lock(self.paths.state, shared=True):  # what is found there is not removed meanwhile
                    sealed = Sealed.model_validate(row.data["sealed"])
                    put(self.paths.state, self.paths.sealed / row.id / "bundle", sealed)
                    failpoint("lifecycle.judged.stored")
                    done = self.promotions.accepted(row, sealed.digest)
            except ReleaseError as error:
                done = Promoted(trouble=str(error))
                log.warning("not promoted", reason=str(error))
        self.queue.advance(row.id, "promoted", **done.kept())
        if done.releases:
            self.count.promoted(row.id)

    # -- promoted -> done -----------------------------------------------------------------------------

    def _finish(self, row: Row) -> None:
        document, statement = self._told(row, row.data["document"])
        document |= {key: row.data[key] for key in KEPT if row.data.get(key)}
        write_outbox(self.paths.outbox, row.team, row.id, document, statement)
        failpoint("lifecycle.promoted.outbox")
        self._clean(row)
        self.queue.advance(row.id, "done", document=document)

    def _told(self, row: Row, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return a report with the drop's name and where it stands in the ledger, and the signed statement."""
        told = {**document, "drop": row.name}
        entry = next(self.ledger.entries(kind="verdict", submission=row.id), None)
        if entry is None:
            return told, None
        return told | {"entry": place(entry, self.ledger.origin)}, entry.body.get("statement")

    def _discard(self, row: Row) -> None:
        claim = Claim(row.team, row.name, Path(row.path), row.id, row.kind, row.uid or 0)  # type: ignore[arg-type]
        with contextlib.suppress(FileNotFoundError):
            self.discard(claim)

    def _clean(self, row: Row) -> None:
        self._discard(row)
        sealed = self.paths.sealed / row.id
        held = row.data.get("verdict") == "held" and not row.data.get("observed")
        if held and sealed.is_dir():  # a person may still approve it
            sealed.rename(self.paths.quarantine / row.id)  # without a quarantine it waits here for the operator
        if left := files.remove_tree(self.paths.sealed, row.id):
            log.warning("left behind", places=left[:3])

    # -- the ways that are no acceptance ----------------------------------------------------------------

    def _without_evidence(self, row: Row, code: str, message: str, state: str) -> None:
        """Record ``inconclusive`` for a submission that could not be examined, with the reason."""
        sealed = Sealed.model_validate(row.data["sealed"]) if row.data.get("sealed") else None
        outcome = outcomes.without_evidence(row.id, row.team, sealed, code, row.name, message)
        self._record(row, self.rules(), outcome, state)

    def _quarantine(self, row: Row) -> None:
        """Two daemon deaths in one state: keep the bytes aside, say ``inconclusive``, go on with the others."""
        log.error("quarantined", state=row.state)
        message = f"acceptd died or failed {MAX_DEATHS} times in state {row.state!r} of this submission"
        with contextlib.suppress(OSError):
            target = self.paths.quarantine / row.id
            (self.paths.sealed / row.id).rename(target)
        if row.state in EXAMINED:
            self._without_evidence(row, "cell/daemon-died", message, "quarantined")
        else:
            self.queue.advance(row.id, "quarantined", trouble=message)
        if (self.paths.quarantine / row.id / "bundle").is_dir():
            self._discard(row)  # its bytes are in quarantine
        elif os.path.lexists(row.path):
            log.warning("left in the inbox: nothing of it was sealed, so it is all there is", place=row.path)
        final = self._row(row.id)
        document, statement = self._told(row, final.data.get("document") or {})
        with contextlib.suppress(AcceptdError, OSError):
            write_outbox(self.paths.outbox, row.team, row.id, document, statement)
