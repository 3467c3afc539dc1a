"""One submission under several profiles: a verdict each, and the whole one. Pure.

Each profile is judged for itself, over its own runs and what belongs to none (:meth:`Submission.under`). What
is said alike under every profile is said once; the rest names its profile. The whole verdict follows the same
precedence over the required profiles; what an optional one has to say is told and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from acceptd.evidence import Submission
from acceptd.judge.finding import Finding, Judgement, ProfileVerdict, Verdict
from acceptd.judge.verdict import judge, pre_run
from acceptd.judge.words import ordered, printable
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import Reduced


@dataclass(frozen=True, slots=True)
class Target:
    """A profile to be judged under, with its digest and what its onnxruntime was built with (None: everything)."""

    profile: Profile
    digest: str
    reduced: Reduced | None = None
    required: bool = True
    source: bytes = b""
    """The required-operators file that ``reduced`` was read from."""


def judge_all(
    manifest: Manifest | None,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    judged_at: str,
    targets: Sequence[Target],
) -> Judgement:
    """Return the verdict over all ``targets`` (at least one of them required), with one for each in it."""
    each: list[tuple[Target, Judgement]] = []
    for target in targets:
        name = target.profile.name
        found = judge(
            manifest, contract, policy.under(name), submission.under(name), judged_at,
            profile=target.profile, reduced=target.reduced,
        )  # fmt: skip
        each.append((target, found))
    verdicts = tuple(
        ProfileVerdict(
            profile=target.profile.name,
            required=target.required,
            verdict=one.verdict,
            reason=one.reason,
            decided_by=_decider(one),
        )
        for target, one in each
    )
    if len(each) == 1:
        return each[0][1].model_copy(update={"profiles": verdicts})
    verdict, reason = _whole(each)
    findings = ordered(_joined(each))
    return Judgement(verdict=verdict, findings=findings, judged_at=judged_at, reason=reason, profiles=verdicts)


def runnable(
    manifest: Manifest, contract: Contract | None, policy: Policy, known: Submission, targets: Sequence[Target]
) -> Iterator[Target]:
    """Yield the profiles under which the bundle is to be run: those where nothing rejects it before."""
    for target in targets:
        own = policy.under(target.profile.name)
        view = known.under(target.profile.name)
        before = pre_run(manifest, contract, own, view, reduced=target.reduced)
        if all(finding.severity != "reject" for finding in before):
            yield target


def _decider(judgement: Judgement) -> str:
    """Return the audience of the finding that decided; empty where none did."""
    wanted = {"rejected": "reject", "held": "hold"}.get(judgement.verdict)
    return next((one.audience for one in judgement.findings if one.severity == wanted), "")


def _whole(each: Sequence[tuple[Target, Judgement]]) -> tuple[Verdict, str]:
    """Apply the precedence of :mod:`acceptd.judge.verdict` to the verdicts of the required profiles."""
    required = [(target.profile.name, one) for target, one in each if target.required]
    unwalled = [pair for pair in required if any(found.code == "cell/wall-missing" for found in pair[1].findings)]
    order: tuple[Verdict, ...] = ("rejected", "inconclusive", "held", "accepted")
    deciding = unwalled or next(
        found for verdict in order if (found := [pair for pair in required if pair[1].verdict == verdict])
    )
    name, worst = deciding[0]
    if worst.verdict == "accepted" or len(deciding) == len(required) == len(each):
        same = all(one.reason == worst.reason for _, one in deciding)
        return worst.verdict, worst.reason if same else f"under profile {name}: {worst.reason}"
    return worst.verdict, f"under profile {name}: {worst.reason}"


def _joined(each: Sequence[tuple[Target, Judgement]]) -> Iterator[Finding]:
    """Yield what all profiles say alike once, and the rest with its profile's name."""
    common = [one for one in each[0][1].findings if all(one in other.findings for _, other in each[1:])]
    yield from common
    for target, judgement in each:
        for finding in judgement.findings:
            # What an optional profile lacks is in its verdict's reason: a list of it would hide what decides.
            if finding not in common and (target.required or finding.code != "cell/stage-missing"):
                yield _named(finding, target)


def _named(finding: Finding, target: Target) -> Finding:
    name = target.profile.name
    where = printable(f"{name}: {finding.where}" if finding.where else name)
    changes: dict[str, object] = {"profile": name, "where": where}
    if not target.required and finding.severity in {"reject", "hold"}:
        # It weighs on its own profile's verdict alone: an accepted bundle has nothing that rejects or holds it.
        changes |= {"severity": "warn", "evidence": {**finding.evidence, "under_profile": finding.severity}}
    return finding.model_copy(update=changes)
