"""One evaluation, from the current releases to what is done about it: counted, decided, recorded, carried out.

Files of receipts may take minutes and are read without a lock. Then, under the model's lock: both releases are
still the ones that were evaluated, or nothing happens; the evaluation becomes a ledger entry; only then the
channel moves, by the ordinary promotion or rollback. A kill between leaves an evaluation that nobody carried out:
the daemon does (:mod:`acceptd.canary.resume`), unless ``canary-refused`` says that the channel did not take it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd.canary.decide import decide
from acceptd.canary.figures import Evaluation, Side
from acceptd.canary.reading import read
from acceptd.canary.tally import Expected, Tally
from acceptd.errors import ReleaseError, UsageError
from acceptd.policy.canary import CanaryTable
from acceptd.policy.channels import Rule
from acceptd.record.canonical import plain
from acceptd.record.entry import Entry
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release.advance import Release
from acceptd.release.book import Row, read_book
from acceptd.release.held import names
from acceptd.release.layout import model_lock, revocation_lock
from acceptd.release.model import Decided
from acceptd.release.promote import promote, rollback_locked
from acceptd.release.settle import Terms, settle
from acceptd.release.signers import ReleaseKeys, Verifying
from acceptd.release.trust import ReleaseFacts

REFUSED: Final = "canary-refused"
_AGAIN: Final = "evaluate again, with receipts of the releases that are current now"


@dataclass(frozen=True, slots=True)
class Basis:
    """The two releases that are compared, each verified."""

    canary: Row
    canary_facts: ReleaseFacts
    against: Row
    against_facts: ReleaseFacts


@dataclass(frozen=True, slots=True)
class People:
    """What people and the policy say of a channel: may a verdict be promoted, who rejected it, the rule."""

    decided: Callable[[str], Callable[[Entry], Decided]]
    rejected: Callable[[str], Callable[[Entry], str]]
    rule: Callable[[str], Rule] = Rule


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an evaluation: its entry, the new release where there is one, or why there is none."""

    seq: int
    release: Release | None = None
    refused: str = ""
    """Why the channel did not take what was decided."""


def basis(state: Path, ledger: Ledger, keys: Verifying, model_id: str, canary: str, against: str) -> Basis:
    """Return the current releases of both channels; raise UsageError where there is nothing to compare.

    Raises ReleaseError where a ``release.json`` does not verify.
    """
    if canary == against:
        raise UsageError(f"{canary} is compared with itself", remedy="name two channels")
    book = read_book(ledger)
    rows = []
    for channel in (canary, against):
        row = book.current(model_id, channel)
        if row is None:
            remedy = f"promote one: acceptd release promote {model_id} --channel {channel} --digest DIGEST"
            raise UsageError(f"{model_id} has no release on {channel}", remedy=remedy)
        if row.digest in book.revoked:
            raise UsageError(f"the release on {channel} is revoked", remedy="promote or roll back first")
        rows.append(row)
    if rows[0].digest == rows[1].digest:
        problem = f"{canary} and {against} have the same bundle, {rows[0].digest[:12]}"
        raise UsageError(problem, remedy=f"promote another one to {canary} first")
    facts = [channels.verified_release(state, keys, row, row.release_digest) for row in rows]
    return Basis(rows[0], facts[0], rows[1], facts[1])


def evaluate(
    compared: Basis,
    paths: Sequence[Path],
    limits: CanaryTable,
    policy_digest: str,
    *,
    by: str = "",
    told: Callable[[str], None] = lambda _text: None,
) -> Evaluation:
    """Read the receipts and return the evaluation; nothing is written. Raises UsageError for files as
    :func:`read`.
    """
    if not paths:
        raise UsageError("no file of receipts", remedy="give one or more with --receipts")
    sides = [_expected(row, facts) for row, facts in (
        (compared.canary, compared.canary_facts), (compared.against, compared.against_facts),
    )]  # fmt: skip
    tally = Tally(sides[0], sides[1])
    try:
        files, counts = read(paths, tally, told)
        figures = tally.compared(limits.confidence)
    finally:
        tally.close()
    judged = decide(figures, limits)
    return Evaluation(
        model=compared.canary.model_id, canary=sides[0].side, against=sides[1].side, decision=judged.decision,
        reasons=judged.reasons, limits=limits, policy_digest=policy_digest, files=files, counts=counts,
        compared=figures, by=by,
    )  # fmt: skip


def _expected(row: Row, facts: ReleaseFacts) -> Expected:
    side = Side(channel=row.channel, number=row.number, digest=row.digest, release_digest=row.release_digest)
    return Expected.of(row.model_id, side, facts.manifest, names(facts))


def carry_out(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    compared: Basis,
    evaluation: Evaluation,
    people: People,
    terms: Terms,
) -> Done:
    """Record the evaluation and do what it decided. Raises ReleaseError where a release moved meanwhile.

    A promotion goes the ordinary way: where people, a freeze or a rule of the channel keep the bundle out, the
    entry stands and :attr:`Done.refused` says why. A rollback goes to the newest older release there that nobody
    rolled back from; where there is none, the other channel's bundle is promoted there.
    """
    act = Act(state, ledger, keys, compared, evaluation, people, terms)
    if evaluation.decision == "hold":
        with model_lock(state, evaluation.model):
            return Done(act.record())
    return act.do()


def _moved() -> ReleaseError:
    return ReleaseError("a release moved while receipts were read: nothing was recorded or done", remedy=_AGAIN)


@dataclass(slots=True)
class Act:
    """The recording, and the act that follows it under the same lock; ``seq``: the entry, where there is one."""

    state: Path
    ledger: Ledger
    keys: ReleaseKeys
    compared: Basis
    evaluation: Evaluation
    people: People
    terms: Terms
    seq: int | None = None

    def do(self) -> Done:
        """Promote or roll back; enter it where the channel does not take that. Raises ReleaseError: it moved."""
        try:
            made = self.promote() if self.evaluation.decision == "promote" else self.roll_back()
        except ReleaseError as error:
            if self.seq is None:
                raise
            body = {"model": self.evaluation.model, "entry": self.seq, "reason": error.message[:2000]}
            self.ledger.append(REFUSED, body)
            return Done(self.seq, refused=error.message)
        if self.seq is None:  # somebody else has just promoted the same bundle there
            raise _moved()
        return Done(self.seq, made)

    def record(self) -> int:
        """Append the entry, under the model's lock; raise ReleaseError where a release moved."""
        book = read_book(self.ledger)
        for row in (self.compared.canary, self.compared.against):
            if book.current(row.model_id, row.channel) != row:
                raise _moved()
        if self.seq is not None:
            return self.seq
        body: dict[str, Any] = plain(self.evaluation.model_dump(mode="json"))
        self.seq = self.ledger.append("canary", body).seq
        failpoint("canary.recorded")
        return self.seq

    def promote(self) -> Release:
        return self._take(self.compared.canary, self.compared.canary_facts, self.compared.against.channel)

    def roll_back(self) -> Release:
        row = self.compared.canary
        refuge = read_book(self.ledger).refuge(row.model_id, row.channel)
        if refuge is None:
            return self._take(self.compared.against, self.compared.against_facts, row.channel)
        with revocation_lock(self.state, shared=True), model_lock(self.state, row.model_id):
            settle(self.state, self.ledger, self.keys, row.model_id, row.channel, self.terms)
            reason = f"canary evaluation, entry {self.record()}"
            return rollback_locked(
                self.state, self.ledger, self.keys, row.model_id, row.channel, reason,
                digest=refuge.digest, rejected=self.people.rejected(row.channel), by=self.evaluation.by,
                terms=self.terms,
            )  # fmt: skip

    def _take(self, row: Row, facts: ReleaseFacts, channel: str) -> Release:
        """Promote the bundle of a release to another channel; the entry is made when the promotion weighs it."""
        weigh = self.people.decided(channel)

        def decided(entry: Entry) -> Decided:
            self.record()
            return weigh(entry)

        return promote(
            self.state, self.ledger, self.keys, model_id=row.model_id, channel=channel, digest=row.digest,
            manifest_json=dict(facts.manifest), verdict_seq=row.verdict_seq, options=facts.options,
            profiles=facts.profiles, reason=f"canary evaluation of {self.compared.canary.release_digest}",
            decide=decided, rule=self.people.rule(channel), by=self.evaluation.by, terms=self.terms,
        )  # fmt: skip
