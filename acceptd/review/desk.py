"""Where decisions are recorded and carried out: the ledger, the kept bytes of held bundles, the release."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from acceptd.errors import ConfigError, DuplicateEntryError, LedgerError, LoaderError, ReleaseError, UsageError
from acceptd.evidence import Sealed
from acceptd.policy import channels
from acceptd.policy.load import load_reviewers
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewers
from acceptd.record.attest import Envelope
from acceptd.record.audit import Difference
from acceptd.record.entry import Appended, Entry, utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.record.tables import FINAL_STATES
from acceptd.release.book import read_book
from acceptd.release.gone import refuse_removed
from acceptd.release.layout import model_lock, store_lock
from acceptd.release.model import Decided
from acceptd.release.promote import Release, promote
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.release.store import digests, put, verify
from acceptd.review import decision as decisions
from acceptd.review.decision import Decision
from acceptd.review.standing import Case, Given, Standing, approvers, standing
from acceptd.rules import Rules


@dataclass(frozen=True)
class Desk:
    """One instance with the people who may decide. ``now`` is UTC, RFC 3339."""

    state: Path
    ledger: Ledger
    policy: Policy
    reviewers: Reviewers

    @cached_property
    def queue(self) -> Queue:
        """The submissions."""
        return Queue(self.ledger)

    def verdict(self, submission: str) -> Entry:
        """Return the verdict's entry of a submission; raise UsageError where there is none."""
        found = next(self.ledger.entries(kind="verdict", submission=submission), None)
        if found is None:
            raise UsageError(f"submission {submission} has no verdict yet", remedy="see `acceptd status`")
        return found

    def record(self, envelope: Envelope) -> tuple[Decision, Appended]:
        """Verify a signed decision against the verdict that it names, and put it on record.

        Raises SignatureError or MalformedError for one that does not count, UsageError where it speaks of
        another verdict than the ledger has, has expired, or is here already.
        """
        said, reviewer = decisions.opened(envelope, self.reviewers)
        if reviewer.left:
            raise UsageError(f"{reviewer.name} is no reviewer any more", remedy="somebody else has to decide")
        entry = self.verdict(said.submission)
        if entry.seq != said.verdict_seq:
            raise UsageError(f"the verdict of {said.submission} is entry {entry.seq}, not {said.verdict_seq}")
        for difference in decisions.differences(said, entry, self.ledger.origin):
            raise UsageError(f"the decision is about another verdict: {difference}", remedy="prepare it again")
        if said.expires_at <= utc_now():
            raise UsageError(f"the decision expired at {said.expires_at}", remedy="prepare it again")
        body = {
            "decision": said.decision,
            "verdict_seq": entry.seq,
            "model": entry.body.get("model"),
            "reviewer": reviewer.name,
            "reviewer_team": reviewer.team,
            "reason": said.reason,
            "nonce": said.nonce,
            "envelope": decisions.of_record(envelope, self.reviewers),
        }
        model = entry.body.get("model")
        # A promotion of this model that has weighed already ends first, or weighs this one too.
        with model_lock(self.state, model) if isinstance(model, str) else contextlib.nullcontext():
            return self._entered(said, body)

    def _entered(self, said: Decision, body: dict[str, object]) -> tuple[Decision, Appended]:
        try:
            return said, self.ledger.append("decision", body, submission=said.submission)
        except DuplicateEntryError as error:
            raise UsageError("this decision is on record already") from error

    def given(self, entry: Entry) -> list[Given]:
        """Return the recorded decisions about one verdict, each verified again."""
        found = (self._opened(one) for one in self.ledger.entries(kind="decision", submission=entry.submission))
        return [one for one in found if one is not None and one.decision.verdict_seq == entry.seq]

    def waivers(self, entry: Entry) -> list[Given]:
        """Return the recorded waivers of earlier verdicts about the same model."""
        model = entry.body.get("model")
        found = []
        for one in self.ledger.entries(kind="decision"):
            if one.body.get("decision") == "waive" and one.body.get("model") == model is not None:
                opened = self._opened(one)
                if opened is not None and opened.decision.verdict_seq != entry.seq:
                    found.append(opened)
        # Of the model of the verdict that was signed for: the entry beside it proves nothing.
        return [one for one in found if self._model(one) == model]

    def _rejections(self, entry: Entry) -> list[Given]:
        """Return the rejections of the same bytes under another verdict: dropped again, they are the same."""
        digest = entry.body.get("bundle_digest")
        words = (one for one in self.ledger.entries(kind="decision") if one.body.get("decision") == "reject")
        found = [one for one in map(self._opened, words) if one is not None]
        return [
            one
            for one in found
            if one.decision.decision == "reject"
            and one.decision.verdict_seq != entry.seq
            and one.decision.bundle_digest == digest is not None
        ]

    def _model(self, given: Given) -> object:
        return self.ledger.entry(given.decision.verdict_seq).body.get("model")

    def case(self, entry: Entry) -> Case:
        """Return the case of a verdict, with the findings for reviewers that its report holds."""
        row = self.queue.get(str(entry.submission))
        document = (row.data.get("document") or {}) if row is not None else {}
        hidden = [one for one in document.get("findings", ()) if one.get("audience") != "team"]
        return Case.of(entry.body, row.uid if row is not None else None, hidden)

    def weigh(self, entry: Entry, channel: str, now: str = "") -> Standing:
        """Return what the decisions about a verdict come to now."""
        case = self.case(entry)
        given, rules = [*self.given(entry), *self._rejections(entry)], self.policy.approvals
        # Waivers speak of what holds: a promotion of an accepted bundle need not open every one on record.
        waivers = self.waivers(entry) if case.verdict == "held" else []
        rule = channels.rule(channel, self.policy.release, self.policy.channels)
        least = rule.approvals if rule is not None else 0
        weighed = standing(case, given, waivers, rules, channel, now or utc_now(), least)
        if weighed.allowed and self._observes(entry):
            return Standing(False, f"the policy {self.policy.name} only observes it now ([observe])")
        return weighed

    def _observes(self, entry: Entry) -> bool:
        """Say whether the policy in force only observes what the verdict is about."""
        model = entry.body.get("model")
        return self.policy.observe.covers(str(entry.body.get("team")), model if isinstance(model, str) else None)

    def decided(self, channel: str) -> _Decide:
        """Return what a promotion to ``channel`` asks about the verdict that it rests on."""
        return _Decide(self, channel)

    def undecided(self) -> Iterator[tuple[Submission, Entry]]:
        """Yield the bundles that wait for a person, oldest first, with their verdicts.

        Those are held ones whose bytes are still kept, and accepted ones that nobody has vouched for yet.
        """
        asked = any(rule.approvals for rule in self.policy.all_channels())
        for row in self.queue.find(states=sorted(FINAL_STATES)):  # quarantined: the daemon died after its verdict
            word = row.data.get("verdict")
            if word == "held" and self._kept(row).is_dir():
                entry = self.verdict(row.id)
                if not entry.body.get("observed"):
                    yield row, entry
            elif word == "accepted" and (asked or not row.data.get("release")):
                entry = self.verdict(row.id)
                if self.waits_for(entry):
                    yield row, entry

    def waits_for(self, entry: Entry) -> str:
        """Return the first channel for which an accepted bundle lacks a person's word; empty where there is none.

        A channel that has it already, or has a bundle that was judged later, does not wait any more; what is only
        observed waits for nobody.
        """
        if entry.body.get("observed") or self._observes(entry):
            return ""
        book = read_book(self.ledger)
        model, digest = str(entry.body.get("model")), entry.body.get("bundle_digest")
        for rule in self.policy.all_channels():
            if not (rule.approvals or rule.name == self.policy.release.channel):
                continue
            rows = [row for row in book.rows(model, rule.name) if row.activated_seq >= 0]
            if any(row.digest == digest or row.verdict_seq > entry.seq for row in rows):
                continue
            if not self.weigh(entry, rule.name).allowed:
                return rule.name
        return ""

    def carry_out(
        self, submission: str, keys: ReleaseKeys, channel: str, reason: str, terms: Terms, by: str = ""
    ) -> Release:
        """Promote a bundle that people have decided about; its kept bytes go to the store first.

        Raises ReleaseError where the decisions do not allow it, or its bytes are not kept any more.
        """
        row, entry = self._row(submission), self.verdict(submission)
        weighed = self.weigh(entry, channel)
        if not weighed.allowed:
            remedy = f"see `acceptd review show {submission}`"
            raise ReleaseError(f"{submission} may not be promoted: {weighed.reason}", remedy=remedy)
        with store_lock(self.state, shared=True):  # what is kept, or found there, is not removed meanwhile
            self._store(row)
            made = promote(
                self.state,
                self.ledger,
                keys,
                model_id=str(row.model),
                channel=channel,
                digest=str(row.bundle_digest),
                manifest_json=row.data["manifest"],
                verdict_seq=entry.seq,
                options=row.data["options"],
                profiles=row.data.get("profiles", ()),
                reason=reason,
                decide=self.decided(channel),
                rule=self.policy.channel(channel),
                by=by,
                terms=terms,
            )
        with contextlib.suppress(OSError):
            self._kept(row).parent.rmdir()
            failpoint("review.kept.removed")
        return made

    def _store(self, row: Submission) -> None:
        """Bring a bundle's kept bytes to the store, and hash what is there: it lay about since it was judged.

        What is not what was judged goes back to where it was kept, so that it never counts as stored.
        """
        if row.bundle_digest in digests(self.state):
            verify(self.state, str(row.bundle_digest))
            return
        if not self._kept(row).is_dir():
            refuse_removed(self.state, self.ledger, str(row.bundle_digest), row.id)
            raise ReleaseError(f"the bytes of {row.id} are not kept any more", remedy="submit it again")
        sealed = Sealed.model_validate(row.data["sealed"])
        place = put(self.state, self._kept(row), sealed)
        try:
            verify(self.state, sealed.digest)
        except ReleaseError:
            with contextlib.suppress(OSError):
                place.rename(self._kept(row))
                failpoint("review.kept.back")
            raise

    def rejected(self, channel: str) -> Callable[[Entry], str]:
        """Return what a rollback to a release of ``channel`` asks about the verdict that it rests on.

        Approvals may have expired since; a rejection that stands is why it may not be.
        """

        def why(entry: Entry) -> str:
            weighed = self.weigh(entry, channel)
            return weighed.reason if weighed.rejected else ""

        return why

    def examine(self) -> list[Difference]:
        """Return the recorded decisions that do not verify, or speak of another verdict than their entry."""
        found = []
        for entry in self.ledger.entries(kind="decision"):
            where = f"entry {entry.seq}"
            try:
                said, reviewer = decisions.opened(entry.body.get("envelope"), self.reviewers)
                verdict = self.ledger.entry(said.verdict_seq)
            except (LoaderError, LedgerError) as error:
                found.append(Difference("decision", where, str(error)))
                continue
            found += [
                Difference("decision", where, text)
                for text in decisions.differences(said, verdict, self.ledger.origin)
            ]
            told = {
                "decision": said.decision,
                "nonce": said.nonce,
                "reviewer": reviewer.name,
                "reason": said.reason,
                "verdict_seq": said.verdict_seq,
                "model": verdict.body.get("model"),
            }
            for key, value in told.items():
                if entry.body.get(key) != value:
                    text = f"{key} is {entry.body.get(key)!r:.80}, the signed one is {value!r:.80}"
                    found.append(Difference("decision", where, text))
        return [*found, *self._against()]

    def _against(self) -> Iterator[Difference]:
        """Yield promotions that a rejection on record stood against, or that lacked approvals."""
        book = read_book(self.ledger)
        rows = [row for place in sorted(book.channels) for row in book.rows(*place) if row.kind == "promote"]
        for row in rows:
            try:
                verdict = self.ledger.entry(row.verdict_seq)
            except LedgerError:
                continue  # the audit of entries says it
            if row.release_digest and verdict.body.get("observed"):
                where = f"{row.model_id} {row.channel} number {row.number}"
                yield Difference("release", where, "was promoted by a verdict that was made in observe mode")
            before = [one for one in self.given(verdict) if one.seq < row.intent_seq]
            if (
                row.release_digest
                and standing(
                    self.case(verdict), before, [], self.policy.approvals, row.channel, row.intent_at
                ).rejected
            ):
                where = f"{row.model_id} {row.channel} number {row.number}"
                yield Difference("release", where, "was promoted while a person's rejection of it stood")
            if row.release_digest and row.rule.approvals and not row.glass:
                count = len(approvers(self.case(verdict), before, row.channel, row.intent_at))
                if count < row.rule.approvals:
                    where = f"{row.model_id} {row.channel} number {row.number}"
                    text = f"was promoted with {count} of the {row.rule.approvals} approvals that were asked for"
                    yield Difference("release", where, text)

    def _opened(self, entry: Entry) -> Given | None:
        """Return a recorded decision; None where it does not verify, or its reviewer is none any more."""
        try:
            said, reviewer = decisions.opened(entry.body.get("envelope"), self.reviewers)
            verdict = self.ledger.entry(said.verdict_seq)
        except (LoaderError, LedgerError):  # the second: it names an entry that is not here
            return None
        if said.submission != entry.submission or any(decisions.differences(said, verdict, self.ledger.origin)):
            return None
        return Given(entry.seq, reviewer, said)

    def _row(self, submission: str) -> Submission:
        row = self.queue.get(submission)
        if row is None:
            raise UsageError(f"there is no submission {submission}", remedy="see `acceptd status`")
        return row

    def _kept(self, row: Submission) -> Path:
        return self.state / "quarantine" / row.id / "bundle"


@dataclass(frozen=True)
class _Decide:
    """Asked by a promotion about the entry that it rests on."""

    desk: Desk
    channel: str

    def __call__(self, entry: Entry) -> Decided:
        weighed = self.desk.weigh(entry, self.channel)
        return Decided("" if weighed.allowed else weighed.reason, weighed.by, weighed.broken_glass)


def automatic(state: Path, ledger: Ledger, rules: Rules, channel: str) -> Callable[[Entry], Decided]:
    """Return what the daemon's own promotion asks: an accepted bundle may lack an attestation, or be rejected.

    Raises ReleaseError where the file of the reviewers is refused: then nobody knows who has rejected it.
    """
    try:
        reviewers = load_reviewers(rules.directory)
    except ConfigError as error:
        raise ReleaseError(f"the reviewers are refused: {error.message}", remedy=error.remedy) from error
    return Desk(state, ledger, rules.policy, reviewers).decided(channel)


def expiry(days: int, now: datetime | None = None) -> str:
    """Return the time ``days`` from now, as decisions hold it."""
    moment = (now or datetime.now(UTC)).timestamp() + days * 86_400
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
