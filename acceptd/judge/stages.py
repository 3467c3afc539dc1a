"""Which stages an acceptance needs, and which of them left no complete evidence. Pure."""

from __future__ import annotations

from acceptd.evidence import Submission, Vectors
from acceptd.judge import assets, oracle
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import Inventory
from acceptd.judge.jobs import Jobs
from acceptd.judge.words import make, printable
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

REPEATS = 2
"""Each golden set is run this often in one process."""


def walls_missing(policy: Policy, submission: Submission) -> list[Finding]:
    """Return one finding per required wall that did not stand, for the host or for any one job.

    A submission for which nothing ever ran in the cell (its seal failed) needs no wall.
    """
    if not submission.jobs and not submission.walls:
        return []
    findings = []
    for wall in sorted(set(policy.required_walls)):
        states = {"host": submission.walls.get(wall, "absent")}
        notes = submission.wall_notes.get(wall, "")
        for record in submission.jobs:
            if record.walls is not None and wall in record.walls.states:
                states[f"{record.kind} {record.model}".strip()] = record.walls.states[wall]
                notes = notes or record.walls.notes.get(wall, "")
        broken = {who: state for who, state in states.items() if state != "enforced"}
        if broken:
            message = f"{wall} is required by policy {policy.name} and is {next(iter(broken.values()))}"
            if notes:
                message += f": {notes}"
            findings.append(make("cell/wall-missing", "cell", wall, message, broken))
    return findings


def required_cases(model: ModelSpec, vectors: Vectors | None) -> set[tuple[str, int]]:
    """Return the (set, repeat) pairs that the run of one model owes."""
    if vectors is None:
        return set()
    return {(one.name, repeat) for one in vectors.sets if one.model == model.name for repeat in range(REPEATS)}


def missing(
    manifest: Manifest | None, policy: Policy, submission: Submission, inventory: Inventory | None
) -> list[str]:
    """Return the required stages without complete evidence, in the order of the acceptance."""
    if submission.sealed is None or inventory is None:
        return ["seal"]
    if manifest is None:
        return ["manifest"]
    jobs = Jobs(tuple(submission.jobs))
    gaps: list[str] = []
    if not submission.inferred:
        record = jobs.last("manifest")
        if record is None or record.ending != "done" or record.manifest is None:
            gaps.append("manifest")
    gaps += [f"inspect {model.name}: {gap}" for model in manifest.inspected for gap in _inspect(jobs, model)]
    gaps += assets.missing(manifest, submission.sealed, inventory, jobs)
    record = jobs.last("vectors")
    vectors = record.vectors if record is not None else None
    if inventory.sets:
        if record is None or record.ending != "done" or vectors is None:
            gaps.append("vectors")
        else:
            given = {(one.model, one.name) for one in vectors.sets}
            owed = {(one.model, one.name) for one in inventory.sets}
            gaps += [f"vectors: set {printable(name)} of {model}" for model, name in sorted(owed - given)]
    for model in manifest.models:
        gaps += [f"run {model.name}: {gap}" for gap in _run(jobs, model, vectors)]
        gaps += [f"compare {model.name}: {gap}" for gap in _compare(submission, model, vectors)]
        if policy.probes.unoptimised and required_cases(model, vectors):
            gaps += [f"run {model.name} unoptimised: {gap}" for gap in _unoptimised(jobs, model, vectors)]
    if policy.reference.required and manifest.declared:
        gaps += oracle.missing(manifest, jobs, submission.sealed, inventory, policy)
    return gaps


def _inspect(jobs: Jobs, model: ModelSpec) -> list[str]:
    record = jobs.last("inspect", model)
    if record is None:
        return ["no job"]
    frames = {
        "wire": record.wire,
        "facts": record.facts,
        "structure": record.structure,
        "checker": record.checker,
        "shapes": record.shapes,
    }
    gaps = [name for name, frame in frames.items() if frame is None]
    return gaps or ([] if record.ending == "done" else [f"ended by {record.ending}"])


def _run(jobs: Jobs, model: ModelSpec, vectors: Vectors | None) -> list[str]:
    record = jobs.last("run", model)
    if record is None:
        return ["no job"]
    owed = required_cases(model, vectors)
    gaps = [name for name, frame in (("schema", record.schema_), ("placement", record.placement)) if frame is None]
    given = {(case.set, case.repeat) for case in record.cases}
    short = sorted(owed - given)
    if short:
        name, repeat = short[0]
        gaps.append(f"{len(short)} of {len(owed)} golden runs, first {printable(name)} repeat {repeat}")
    if record.ending != "done":
        gaps.append(f"ended by {record.ending}")
    elif record.done is None:
        gaps.append("done")
    return gaps


def _unoptimised(jobs: Jobs, model: ModelSpec, vectors: Vectors | None) -> list[str]:
    """The second process must have been tried; a refusal of its own is a finding, not a gap."""
    record = jobs.last("run", model, "unoptimised")
    if record is None:
        return ["no job"]
    if record.ending in {"lost", "unavailable"}:
        return [f"ended by {record.ending}"]
    owed = {(name, repeat) for name, repeat in required_cases(model, vectors) if repeat == 0}
    given = {(case.set, case.repeat) for case in record.cases}
    return ["golden runs"] if record.ending == "done" and not owed <= given else []


def _compare(submission: Submission, model: ModelSpec, vectors: Vectors | None) -> list[str]:
    """Statistics are owed as soon as anything ran: probes and constant outputs are judged by them too."""
    owed = [one for one in vectors.sets if one.model == model.name] if vectors is not None else []
    if submission.statistics is None:
        ran = any(job.kind == "run" and job.model == model.name for job in submission.jobs)
        return ["no statistics"] if owed or ran else []
    counted: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str, str]] = set()
    for row in submission.statistics.outputs:
        if row.model == model.name and row.against == "golden" and (row.set, row.output, row.model) not in seen:
            seen.add((row.set, row.output, row.model))
            counted[row.set, row.model] = counted.get((row.set, row.model), 0) + 1
    gaps = []
    for one in owed:
        found = counted.get((one.name, one.model), 0)
        if found < len(one.expected):
            gaps.append(f"statistics of set {printable(one.name)}: {found} of {len(one.expected)} outputs")
    return gaps
