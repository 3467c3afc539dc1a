"""The verdict: everything that is known about one submission, weighed by one fixed precedence. Pure.

Precedence (design, rule 4): a mandatory wall missing → inconclusive; else any ``reject`` → rejected;
else a stage missing → inconclusive; else any ``hold`` → held; else accepted. ``accepted`` is reached
only past all four, so no failure path ends in it.
"""

from __future__ import annotations

from acceptd.evidence import Submission
from acceptd.judge import advisories, contracts, heldout, stages
from acceptd.judge.after import after_run
from acceptd.judge.before import before_run
from acceptd.judge.finding import Finding, Judgement, Verdict
from acceptd.judge.inventory import take
from acceptd.judge.words import finish, make, one_line, with_policy
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reduced import Reduced


def judge(
    manifest: Manifest | None,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    judged_at: str,
    *,
    profile: Profile | None = None,
    reduced: Reduced | None = None,
) -> Judgement:
    """Return the verdict with all findings.

    The same arguments give the same bytes, so a stored submission can be judged again under
    another policy. ``judged_at`` is UTC, RFC 3339. ``profile`` is the one the policy names, None
    for the plain CPU profile; ``reduced`` what its onnxruntime was built with, None for all of it.
    """
    inventory = take(submission.sealed, manifest) if submission.sealed is not None else None
    raw = list(before_run(manifest, contract, policy, submission, inventory, reduced))
    if manifest is not None and inventory is not None:
        raw += contracts.findings(manifest.bundle.id, contract, policy, submission.contract, judged_at)
        raw += after_run(manifest, contract, policy, submission, profile or Profile())
        raw += advisories.findings(submission, policy, judged_at)
        raw += heldout.findings(manifest, contract, policy, submission)
    walls = stages.walls_missing(policy, submission)
    gaps = stages.missing(manifest, policy, submission, inventory)
    findings = finish(with_policy([*raw, *walls], policy))
    severities = {one.severity for one in findings}
    owed = heldout.owed(contract, submission)
    if heldout.gap(submission.heldout) or (owed and "hold" not in severities):
        gaps.append(heldout.STAGE)
    elif owed and not gaps and not walls and "reject" not in severities:
        raw.append(make("heldout/not-evaluated", heldout.STAGE, heldout.STAGE, "something else holds the bundle"))
        findings = finish(with_policy([*raw, *walls], policy))
    if walls or all(one.severity != "reject" for one in findings):
        # after a reject the later stages were not run on purpose: their absence says nothing
        missing = [make("cell/stage-missing", "judge", gap, "no complete evidence of this stage") for gap in gaps]
        findings = finish(with_policy([*raw, *walls, *missing], policy))
    verdict, reason = decide(findings, walls=[one.where for one in walls], gaps=gaps)
    return Judgement(verdict=verdict, findings=findings, judged_at=judged_at, reason=reason)


def decide(findings: tuple[Finding, ...], *, walls: list[str], gaps: list[str]) -> tuple[Verdict, str]:
    """Apply the precedence; return the verdict and what decided, in one line.

    ``findings`` are sorted, so the first of a severity is the one that is named.
    """
    if walls:
        return "inconclusive", f"a required wall is missing: {', '.join(walls)}"
    rejecting = next((one for one in findings if one.severity == "reject"), None)
    if rejecting is not None:
        return "rejected", _line(rejecting)
    if gaps:
        more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
        lost = next((one for one in findings if one.code == "cell/lost"), None)
        cause = f": {_line(lost)}" if lost is not None else ""
        return "inconclusive", f"a required stage is missing: {gaps[0]}{more}{cause}"
    holding = next((one for one in findings if one.severity == "hold"), None)
    if holding is not None:
        return "held", _line(holding)
    return "accepted", "every required stage is complete, and nothing rejects or holds"


def pre_run(
    manifest: Manifest | None,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    *,
    reduced: Reduced | None = None,
) -> tuple[Finding, ...]:
    """Return what is known before anything is run. If any of it rejects, the model is not to be run."""
    inventory = take(submission.sealed, manifest) if submission.sealed is not None else None
    raw = before_run(manifest, contract, policy, submission, inventory, reduced)
    return finish(with_policy(raw, policy))


def _line(finding: Finding) -> str:
    return one_line(finding.model_dump(include={"code", "where", "message"}))
