"""What the decisions about one verdict come to, by the policy's rules. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from acceptd.policy.policy import ApprovalsTable
from acceptd.policy.reviewers import Reviewer
from acceptd.record.canonical import digest, plain
from acceptd.review.decision import Decision

OBSERVED: Final = "judged in observe mode: no decision promotes it; it has to be submitted again"


@dataclass(frozen=True, slots=True)
class Given:
    """One recorded decision: its entry's number, who signed it, what it says."""

    seq: int
    reviewer: Reviewer
    decision: Decision


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether the bundle may be promoted now. ``reason`` says why, or what is missing; ``by`` are the entries."""

    allowed: bool
    reason: str
    by: tuple[int, ...] = ()
    broken_glass: bool = False
    rejected: bool = False
    """Whether a person's rejection stands."""


@dataclass(frozen=True, slots=True)
class Case:
    """One verdict as far as decisions go: the word, its team, who dropped it, and what holds it."""

    verdict: str
    team: str
    uid: int | None
    holds: frozenset[str]
    """Codes of the findings that hold."""
    unknown_holds: bool
    """Whether findings for reviewers alone may hold of which nothing is known here: no waiver names those."""
    inferred: bool
    observed: bool = False
    """Whether the verdict was made in observe mode."""

    @classmethod
    def of(cls, body: Mapping[str, Any], uid: int | None, reviewers: Sequence[Mapping[str, Any]] = ()) -> Case:
        """Return the case of a verdict's entry body; ``uid`` is the drop's, where the body says none.

        ``reviewers`` are the findings for reviewers alone, as the report has them. The entry binds their digest;
        others are not believed.
        """
        bound = body.get("reviewer_findings")
        due = bound.get("digest") if isinstance(bound, Mapping) else None
        known = due == digest(plain(list(reviewers)))
        findings = [*body.get("findings", ()), *(reviewers if known else ())]
        signed = body.get("uid")
        return cls(
            verdict=str(body.get("verdict")),
            team=str(body.get("team")),
            uid=signed if type(signed) is int else uid,
            holds=frozenset(str(one["code"]) for one in findings if one["severity"] == "hold"),
            unknown_holds=not known,
            inferred=bool(body.get("inferred")),
            observed=bool(body.get("observed")),
        )


def standing(
    case: Case,
    given: Sequence[Given],
    waivers: Sequence[Given],
    rules: ApprovalsTable,
    channel: str,
    now: str,
    least: int = 0,
) -> Standing:
    """Weigh decisions about one verdict, and earlier waivers for the same model, for ``channel`` at ``now``.

    A decision counts once a person, until it expires, for its own channel, and never from the submitting team
    or from who dropped the bundle. What is rejected, not judged or only observed no decision promotes.
    ``least`` is how many people must approve for this channel whatever the verdict.
    """
    if case.verdict not in {"accepted", "held"}:
        return Standing(False, f"the verdict is {case.verdict}: no decision promotes it")
    own = [one for one in _counted(case, given, rules, now) if one.decision.channel == channel]
    refused = [one for one in own if one.decision.decision == "reject"]
    if refused:
        return Standing(False, f"rejected by {_names(refused)}", _seqs(refused), rejected=True)
    if case.observed:
        return Standing(False, OBSERVED)
    broken = [one for one in own if one.decision.decision == "break-glass"]
    if broken and rules.break_glass:
        return Standing(True, f"BROKEN GLASS by {_names(broken)}", _seqs(broken), broken_glass=True)
    attested, missing = _attested(own, rules)
    if missing:
        return Standing(False, f"not attested: {', '.join(missing)}", _seqs(attested))
    approvals = _by_person([one for one in own if one.decision.decision == "approve"])
    needed = least if case.verdict == "accepted" and not case.inferred else max(rules.required, least)
    if not needed:
        return Standing(True, "accepted", _seqs(attested))
    if len(approvals) >= needed:
        return Standing(True, f"approved by {_names(approvals)}", _seqs([*attested, *approvals]))
    earlier = [one for one in _counted(case, waivers, rules, now) if one.decision.channel == channel]
    waived, left = _waived(case, [*own, *earlier], rules)
    if not left and case.holds and not case.unknown_holds and not case.inferred:
        if len(approvals) >= least:
            return Standing(True, f"waived by {_names(waived)}", _seqs([*attested, *waived, *approvals[:least]]))
        needed = least
    short = f"{needed - len(approvals)} more of {needed} approvals needed"
    return Standing(False, short, _seqs([*attested, *approvals]))


def _counted(case: Case, given: Sequence[Given], rules: ApprovalsTable, now: str) -> Iterator[Given]:
    for one in given:
        if one.decision.expires_at <= now or (one.reviewer.left and one.decision.decision != "reject"):
            continue
        if one.reviewer.team == case.team or (case.uid is not None and one.reviewer.uid == case.uid):
            continue
        if not rules.teams or one.reviewer.team in rules.teams:
            yield one


def approvers(case: Case, given: Sequence[Given], channel: str, at: str) -> list[Given]:
    """Return who had approved for a channel at a time: for the audit, which knows no policy of then.

    Who has left since counted then.
    """
    here = [one for one in given if one.decision.channel == channel and one.decision.decision == "approve"]
    stayed = [replace(one, reviewer=one.reviewer.model_copy(update={"left": False})) for one in here]
    return _by_person(list(_counted(case, stayed, ApprovalsTable(), at)))


def _attested(own: Sequence[Given], rules: ApprovalsTable) -> tuple[list[Given], list[str]]:
    attested = [one for one in own if one.decision.decision == "attest"]
    said = {what for one in attested for what in one.decision.attestations}
    return attested, [what for what in rules.attestations if what not in said]


def _waived(case: Case, given: Sequence[Given], rules: ApprovalsTable) -> tuple[list[Given], list[str]]:
    """Return the waivers that count, and the holding codes that too few people have waived."""
    waivers = [one for one in given if one.decision.decision == "waive"]
    used: dict[int, Given] = {}
    left = []
    for code in sorted(case.holds):
        people = _by_person([one for one in waivers if code in one.decision.codes])
        if len(people) < rules.required:
            left.append(code)
        used |= {one.seq: one for one in people}
    return list(used.values()), left


def _by_person(given: Sequence[Given]) -> list[Given]:
    """Return the last decision of each person: two signatures of one are one."""
    return list({one.reviewer.name: one for one in given}.values())


def _names(given: Sequence[Given]) -> str:
    return ", ".join(dict.fromkeys(one.reviewer.name for one in given))


def _seqs(given: Sequence[Given]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(one.seq for one in given))
