"""What one acceptance came to, and the outcomes of drops that were never examined whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acceptd.contracts.effective import Agreed
from acceptd.evidence import JobRecord, Sealed, SealFailure, Submission
from acceptd.fleet.examined import Examined
from acceptd.judge.finding import Judgement
from acceptd.judge.profiles import judge_all
from acceptd.judge.words import make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.record.entry import utc_now
from acceptd.rules import Rules


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one acceptance found out."""

    submission: Submission
    manifest: Manifest | None
    contract: Contract | None
    contract_digest: str
    judgement: Judgement
    timings_ms: dict[str, float]
    nodes: tuple[Mapping[str, str], ...] = ()
    """In a fleet: whose evidence each profile rests on (:attr:`acceptd.fleet.statement.Evidence.source`)."""


def judge(rules: Rules, examined: Examined, agreed: Agreed) -> Outcome:
    """Return what an examination comes to under the acceptor's rules and the contract in force, judged now."""
    submission, manifest = examined.submission, examined.manifest
    judgement = judge_all(manifest, agreed.contract, rules.policy, submission, utc_now(), rules.targets)
    return Outcome(submission, manifest, agreed.contract, agreed.digest, judgement, dict(examined.timings_ms))


def refused(rules: Rules, submission: str, team: str, failure: SealFailure) -> Outcome:
    """Return the outcome of a drop that could not be sealed."""
    return _judged(rules, Submission(id=submission, team=team, sealed=None, seal_failure=failure))


def not_unpacked(
    rules: Rules, submission: str, team: str, jobs: Sequence[JobRecord], outer: Mapping[str, str]
) -> Outcome:
    """Return the outcome of an archive whose ``unpack`` job ended badly: its record is the evidence."""
    walls = dict(outer)
    for record in jobs:
        walls |= record.walls.states if record.walls else {}
    return _judged(rules, Submission(id=submission, team=team, sealed=None, jobs=list(jobs), walls=walls))


def without_evidence(
    submission: str, team: str, sealed: Sealed | None, code: str, where: str, message: str
) -> Outcome:
    """Return ``inconclusive`` for a submission that could not be examined, with the reason."""
    finding = make(code, "cell", where, message)
    judgement = Judgement(verdict="inconclusive", findings=(finding,), judged_at=utc_now(), reason=message)
    return Outcome(Submission(id=submission, team=team, sealed=sealed), None, None, "", judgement, {})


def _judged(rules: Rules, submission: Submission) -> Outcome:
    judgement = judge_all(None, None, rules.policy, submission, utc_now(), rules.targets)
    return Outcome(submission, None, None, "", judgement, {})
