"""One stored submission, judged again. Nothing is run; comparisons are repeated where tolerances changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from acceptd.compare.task import CompareTask
from acceptd.compare.whole import files_of, whole_task
from acceptd.evidence import KeptFile, Statistics, Submission
from acceptd.heldout import pairs
from acceptd.judge.finding import Finding, Judgement
from acceptd.judge.heldout import parts
from acceptd.judge.inventory import take
from acceptd.judge.profiles import Target, judge_all
from acceptd.policy.policy import Policy
from acceptd.record.canonical import canonical, digest, plain
from acceptd.replay.needs import reasons
from acceptd.replay.stored import Stored
from acceptd.report.escape import printable_data

Status = Literal["unchanged", "changed", "needs-rerun", "not-replayable"]
Compare = Callable[[CompareTask, Mapping[str, KeptFile]], Statistics | None]
"""Compares kept bytes; None where they are not kept any more."""
_KEYS = ("code", "severity", "audience", "stage", "where", "message", "count")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one submission. ``added`` and ``removed`` count findings by code."""

    submission: str
    team: str
    model: str
    judged_at: str
    status: Status
    old: str
    new: str = ""
    reason: str = ""
    added: Mapping[str, int] | None = None
    removed: Mapping[str, int] | None = None
    drifted: bool = False
    """This version of acceptd judges the same evidence under the same policy otherwise than the record says."""


class RerunError(Exception):
    """Why stored evidence does not answer for the new policy."""


def again(stored: Stored, policy: Policy, compare: Compare) -> Replayed:
    """Judge a stored submission under ``policy``, with manifest, contract and profiles as they were."""
    before = judged(stored, stored.policy, stored.submission, stored.targets)
    known = recorded(before)
    head = _head(stored, drifted=not agrees(known, stored.body))
    old = [*_team(stored.body), *(one for one in known if one["audience"] != "team")]
    try:
        targets = _targets(stored, policy)
        told = list(reasons(stored.policy, policy, stored.submission, stored.contract))
        if told:
            raise RerunError("; ".join(told))
        submission = _compared(stored, policy, targets, compare)
        after = judged(stored, policy, submission, targets)
        new = recorded(after)
        _whole(before, after)
    except RerunError as error:
        return replace(head, status="needs-rerun", reason=str(error))
    added, removed = _difference(old, new)
    changed = bool(added or removed) or after.verdict != head.old
    return replace(
        head,
        status="changed" if changed else "unchanged",
        new=after.verdict,
        reason=after.reason if after.verdict != head.old else "",
        added=added,
        removed=removed,
    )


def judged(stored: Stored, policy: Policy, submission: Submission, targets: Sequence[Target]) -> Judgement:
    """Return the judgement of stored evidence under a policy, at the time at which it was judged first."""
    at = str(stored.body["judged_at"])
    return judge_all(stored.manifest, stored.contract, policy, submission, at, targets)


def recorded(judgement: Judgement) -> list[dict[str, Any]]:
    """Return findings as the ledger holds them."""
    return [_row(finding) for finding in judgement.findings]


def _row(finding: Finding) -> dict[str, Any]:
    table = finding.model_dump()
    row = {key: table[key] for key in _KEYS} | ({"profile": finding.profile} if finding.profile else {})
    found: dict[str, Any] = plain(printable_data(row))
    return found


def agrees(known: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> bool:
    """Say whether the findings for the team are byte for byte those on record, and the others as many."""
    team = [dict(one) for one in known if one["audience"] == "team"]
    others = len(known) - len(team)
    return canonical(team) == canonical(_team(body)) and others == body["reviewer_findings"]["count"]


def _team(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(one) for one in body["findings"]]


def _head(stored: Stored, *, drifted: bool) -> Replayed:
    body = stored.body
    return Replayed(
        submission=stored.id,
        team=str(body.get("team") or ""),
        model=str(body.get("model") or ""),
        judged_at=str(body["judged_at"]),
        status="unchanged",
        old=str(body["verdict"]),
        drifted=drifted,
    )


def _targets(stored: Stored, policy: Policy) -> list[Target]:
    """Return the new policy's profiles, each as it was; one that nothing was run under needs a rerun."""
    there = {target.profile.name: target for target in stored.targets}
    found = []
    for name in (*policy.profiles, *policy.optional_profiles):
        if name not in there:
            raise RerunError(f"it was never run under profile {name}")
        found.append(replace(there[name], required=name in policy.profiles))
    return found


def _compared(stored: Stored, policy: Policy, targets: Sequence[Target], compare: Compare) -> Submission:
    """Return the submission with statistics for the new policy: the stored ones where the task is the same."""
    submission = stored.submission
    if stored.manifest is None:
        return submission
    for target in targets:
        name = target.profile.name
        view = submission.under(name)
        if view.statistics is None:
            continue
        tasks = [_task(stored, rules.under(name), view) for rules in (stored.policy, policy)]
        if tasks[0] == tasks[1]:
            continue
        statistics = _again(tasks[1], view.kept, compare)
        submission = submission.with_statistics(name, statistics)
    return _held_out(stored, policy, submission, compare)


def _held_out(stored: Stored, policy: Policy, submission: Submission, compare: Compare) -> Submission:
    """Return the submission with statistics of the held-out sets for the new policy."""
    held, contract, manifest = submission.heldout, stored.contract, stored.manifest
    if held is None or held.statistics is None or contract is None or manifest is None:
        return submission
    vectors = next((job.vectors for job in held.jobs if job.vectors is not None), None)
    if vectors is None:
        return submission
    found: list[Statistics | None] = []
    for _, one in parts(held):
        before, after = (
            pairs.task(manifest, contract, rules, vectors, one.jobs) for rules in (stored.policy, policy)
        )
        same = one.statistics is None or before == after
        found.append(one.statistics if same else pairs.as_heldout(_again(after, one.kept, compare)))
    further = [
        one.model_copy(update={"statistics": statistics})
        for one, statistics in zip(held.further, found[1:], strict=True)
    ]
    whole = held.model_copy(update={"statistics": found[0], "further": further})
    return submission.model_copy(update={"heldout": whole})


def _again(task: CompareTask, kept: Mapping[str, KeptFile], compare: Compare) -> Statistics:
    needed = set(files_of(task))
    if not needed <= kept.keys():
        raise RerunError("what is compared changed, and the outputs of this submission were not kept")
    statistics = compare(task, {key: kept[key] for key in sorted(needed)})
    if statistics is None:
        raise RerunError("what is compared changed, and the outputs of this submission are not kept any more")
    return statistics


def _task(stored: Stored, policy: Policy, view: Submission) -> CompareTask:
    assert stored.manifest is not None
    assert view.sealed is not None
    vectors = next((job.vectors for job in view.jobs if job.vectors is not None), None)
    sets = take(view.sealed, stored.manifest).sets
    return whole_task(stored.manifest, stored.contract, policy, vectors, view.jobs, sets, view.prior)


def _whole(before: Judgement, after: Judgement) -> None:
    """Raise RerunError where the new policy asks for what was not run."""
    missing = {one.where for one in after.findings if one.code == "cell/stage-missing"}
    known = {one.where for one in before.findings if one.code == "cell/stage-missing"}
    if missing - known:
        raise RerunError(f"the new policy asks for what was not run: {min(missing - known)}")
    if missing and before != after:
        raise RerunError(f"it could not be judged then: {min(missing)} is missing")


def _difference(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return by code how many findings the new ones have that the old ones had not, and the reverse."""
    one, other = (Counter((row["code"], digest(dict(row))) for row in rows) for rows in (old, new))
    added, removed = (Counter[str](), Counter[str]())
    for (code, _), count in (other - one).items():
        added[code] += count
    for (code, _), count in (one - other).items():
        removed[code] += count
    return dict(sorted(added.items())), dict(sorted(removed.items()))
