"""Held-out vectors: when they are owed, and one bit of what came of them. Pure.

Everything that a team hears of is a constant: the same code, place and words, whatever the model did. What
happened is one finding for reviewers, there on success as on failure, so that its presence says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acceptd.evidence import HeldOut, JobRecord, OutputStats, Submission, Vectors
from acceptd.judge import behaviour, parity
from acceptd.judge.codes import group
from acceptd.judge.finding import Finding, Judgement
from acceptd.judge.jobs import ending
from acceptd.judge.words import make, with_policy
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

STAGE: Final = "heldout"
"""Where of every finding that a team may see, and the name of the stage where it is missing."""
DECISIVE: Final = frozenset({"reject", "hold"})
_MISSING: Final = ("cell/stage-missing", STAGE)
_SHOWN: Final = 64


def owed(contract: Contract | None, submission: Submission) -> bool:
    """Say whether the contract holds vectors out and nothing has become of them yet."""
    return contract is not None and contract.holds_out and submission.heldout is None


def due(contract: Contract | None, submission: Submission, judgement: Judgement) -> bool:
    """Say whether the evaluation may start: it is owed, and is the only thing that is missing or not in order.

    Nothing rejects, no other stage is missing, nothing holds: an evaluation is spent on a bundle only that
    would be accepted otherwise.
    """
    # Under several profiles a place may begin with a profile's name.
    places = {(one.code, one.where.rpartition(": ")[2]) for one in judgement.findings if one.severity in DECISIVE}
    return owed(contract, submission) and places == {_MISSING}


def view(manifest: Manifest, contract: Contract) -> Manifest:
    """Return the manifest with the contract's outputs: kinds and tolerances are the acceptor's, not the team's."""
    agreed = {model.name: model.outputs for model in contract.models}
    models = [
        model.model_copy(update={"outputs": agreed.get(model.name, model.outputs)}) for model in manifest.models
    ]
    return manifest.model_copy(update={"models": models})


def decoded(held: HeldOut) -> Vectors | None:
    """Return the decoded sets; None where the job left none."""
    return next((job.vectors for job in held.jobs if job.kind == "vectors" and job.vectors is not None), None)


def parts(held: HeldOut) -> list[tuple[str, HeldOut]]:
    """Return the evaluation under each profile by itself, with the profile's name (empty: the first).

    The job that decoded belongs to all of them.
    """
    names = {one.profile for one in held.further}
    first = [job for job in held.jobs if job.kind != "run" or job.profile not in names]
    found = [("", held.model_copy(update={"jobs": first, "further": []}))]
    for one in held.further:
        jobs = [job for job in held.jobs if job.kind != "run" or job.profile == one.profile]
        own = {"jobs": jobs, "statistics": one.statistics, "kept": one.kept, "further": []}
        found.append((one.profile, held.model_copy(update=own)))
    return found


def gap(held: HeldOut | None) -> str:
    """Return why the evaluation left no complete evidence, for a reviewer; empty where it did, or none is owed.

    Nothing of it is the model's fault: what is, is a failure and no gap.
    """
    if held is None or held.status in {"spent", "local"}:
        return ""
    if held.status == "refused":
        return held.reason or "it could not be started"
    return next((reason for _, one in parts(held) if (reason := _gap(one))), "")


def _gap(held: HeldOut) -> str:
    for job in held.jobs:
        if job.ending in {"lost", "unavailable"} or _starved(job):
            return f"{job.kind} ended by {job.ending}: {job.cause or job.message}"
    vectors = decoded(held)
    given = {one.name for one in vectors.sets} if vectors is not None else set()
    if set(held.names) - given:
        told = [f"{one.where}: {one.message}" for one in vectors.problems][:4] if vectors is not None else []
        return f"held-out sets that cannot be decoded: {'; '.join(told) or 'all of them'}"
    if held.statistics is None:
        return "no statistics" if any(job.ending == "done" for job in _runs(held)) else ""
    return "; ".join(f"{one.where}: {one.message}" for one in held.statistics.problems[:4])


def _starved(job: JobRecord) -> bool:
    """Say whether a job met the wall clock without computing.

    Twice that counts against a model elsewhere, where minutes are allowed. Here it is seconds, and on a busy
    host a small model's whole run is less than the share that tells a sleeper from a job that was held up.
    """
    return job.ending == "limit" and job.cause == "wall" and job.cpu_s < job.wall_s / 2


def findings(
    manifest: Manifest, contract: Contract | None, policy: Policy, submission: Submission
) -> Iterator[Finding]:
    """Yield the one bit for the team, and everything for reviewers."""
    held = submission.heldout
    if held is None or contract is None:
        return
    if held.status == "local":
        yield make("heldout/not-here", STAGE, STAGE, "a check without a daemon has none")
        return
    if held.status == "spent":
        message = "no evaluation is left for this version of the contract"
        yield make("heldout/budget-spent", STAGE, STAGE, message)
        return
    missing = gap(held)
    found = [] if missing else list(_all_faults(manifest, contract, policy, held))
    failed = any(one.severity in DECISIVE for one in found)
    yield _told(held, missing, found, failed=failed)
    if failed:
        yield make("heldout/failed", STAGE, STAGE, "the acceptor's held-out vectors were not passed")


def _all_faults(manifest: Manifest, contract: Contract, policy: Policy, held: HeldOut) -> Iterator[Finding]:
    """Yield what is wrong under any of the profiles: one bit over all of them, the same whichever is judged."""
    for profile, one in parts(held):
        for finding in _faults(manifest, contract, policy, one):
            yield finding.model_copy(update={"where": f"{profile}: {finding.where}"}) if profile else finding


def _faults(manifest: Manifest, contract: Contract, policy: Policy, held: HeldOut) -> list[Finding]:
    agreed = view(manifest, contract)
    vectors = decoded(held)
    assert vectors is not None  # else there is a gap
    owners = {one.model for one in vectors.sets}
    raw: list[Finding] = []
    for model in (one for one in agreed.models if one.name in owners):
        record = next((job for job in _runs(held) if job.model == model.name), None)
        if record is None:
            raw.append(make("run/crash", "run", model.name, "no run of this model was recorded"))
            continue
        raw += ending(record, limits=policy.limits)
        raw += behaviour.cases(agreed, model, record, vectors)
        if record.ending == "done":
            raw += _silent(model, record, held, vectors)
    rows = [row.model_copy(update={"against": "golden"}) for row in _rows(held)]
    raw += parity.parity(agreed, rows, policy, contract)
    # What the policy's table of severities itself has wrong is told with the other findings.
    return [one for one in with_policy(raw, policy) if group(one.code) != "policy"]


def _silent(model: ModelSpec, record: JobRecord, held: HeldOut, vectors: Vectors) -> Iterator[Finding]:
    """A job that says it is done, and left a set or an output out without an error, lied."""
    measured = {(row.set, row.output) for row in _rows(held) if row.model == model.name}
    raised = {case.set for case in record.cases if case.error}
    for one in vectors.sets:
        if one.model != model.name or one.name in raised:
            continue
        short = [name for name in parity.expected_names(one, model) or () if (one.name, name) not in measured]
        if short:
            message = f"no result for {', '.join(short[:4])}"
            yield make("sandbox/protocol-violation", "run", f"{model.name}: {one.name}", message)


def _runs(held: HeldOut) -> list[JobRecord]:
    return [job for job in held.jobs if job.kind == "run"]


def _rows(held: HeldOut) -> Sequence[OutputStats]:
    return held.statistics.outputs if held.statistics is not None else ()


def _told(held: HeldOut, missing: str, found: Sequence[Finding], *, failed: bool) -> Finding:
    words = missing or (f"failed: {len(found)} findings" if failed else "passed")
    evidence = {
        "evaluation": held.number,
        "nonce": held.nonce,
        "result": "not evaluated" if missing else "failed" if failed else "passed",
        "findings": [
            {"code": one.code, "severity": one.severity, "where": _named(one.where, held), "message": one.message}
            for one in found[:_SHOWN]
        ],
    }
    return make("heldout/result", STAGE, STAGE, words, evidence)


def _named(where: str, held: HeldOut) -> str:
    """Return a place with the sets' own names in it."""
    parts = where.split(": ")
    return ": ".join(held.names.get(part, part) for part in parts)
