"""What the runs of a submission show, and what the comparer measured of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import JobRecord, Submission
from acceptd.judge import behaviour, oracle, parity, performance, placement, quality, relations, resources
from acceptd.judge import schema as interfaces
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import Jobs, ending, place
from acceptd.judge.regressed import regression
from acceptd.judge.regression import VARIANTS
from acceptd.judge.runtimes import runtimes
from acceptd.judge.words import make, registered
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile


def after_run(
    manifest: Manifest,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    profile: Profile,
) -> Iterator[Finding]:
    """Yield what runs and comparisons say."""
    assert submission.sealed is not None  # what was never sealed was never run
    jobs = Jobs(tuple(submission.jobs))
    vectors_record = jobs.last("vectors")
    vectors = vectors_record.vectors if vectors_record is not None else None
    facts = jobs.facts(manifest)
    for one in submission.jobs:
        if one.kind in {"run", "reference"} and one.variant not in VARIANTS:
            yield from _run_ending(manifest, jobs, one, policy)
    for model in manifest.models:
        record = jobs.last("run", model)
        if record is not None:
            if record.schema_ is not None:
                yield from interfaces.runtime(manifest, model, record.schema_)
            yield from behaviour.cases(manifest, model, record, vectors)
            yield from relations.told(manifest, model, record)
            yield from placement.placement(jobs, model, profile, policy, submission.prior)
        plain = jobs.last("run", model, "unoptimised")
        if plain is not None:
            yield from behaviour.cases(manifest, model, plain, vectors)
            yield from relations.told(manifest, model, plain)
        yield from resources.ceilings(model, record, facts.get(model.name), submission.sealed, contract)
        yield from performance.ceilings(model, jobs, contract, policy)
    if submission.statistics is not None:
        statistics = submission.statistics
        for problem in statistics.problems:
            yield registered(problem.code, "compare", problem.where, problem.message)
        told = parity.forms(manifest, vectors, jobs)
        yield from parity.parity(manifest, statistics.outputs, policy, contract, told)
        yield from quality.measured(manifest, contract, statistics)
        yield from behaviour.comparisons(manifest, statistics.outputs, statistics.insensitive, contract, policy)
        yield from relations.comparisons(manifest, statistics.outputs, facts, contract, policy)
        yield from oracle.findings(manifest, jobs, statistics.outputs, submission.sealed, contract, policy)
    yield from regression(manifest, policy, submission)
    yield from runtimes(submission, profile)


def _run_ending(manifest: Manifest, jobs: Jobs, record: JobRecord, policy: Policy) -> Iterator[Finding]:
    model = next((one for one in manifest.models if record.model == one.name), None)
    if model is None:
        message = "a run of a model that the manifest does not name"
        yield make("sandbox/protocol-violation", "run", place(record), message)
        return
    if record.variant == "profiled" and record.ending not in {"done", "violation"} and record.cause != "SIGSYS":
        # It only measures: what ends it under the profiler did not end it before.
        message = record.refused.message if record.refused is not None else record.cause or record.message
        told = f"the run under the profiler did not end: {record.ending}: {message}"
        yield make("placement/not-profiled", "run", place(record), told)
        return
    superseded = jobs.superseded(record)
    if record.kind == "reference":
        yield from oracle.job_ending(record, superseded=superseded)
    else:
        yield from ending(record, superseded=superseded, limits=policy.limits)
