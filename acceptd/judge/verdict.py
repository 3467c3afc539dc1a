"""The verdict: everything that is known about one submission, weighed by one fixed precedence. Pure.

Precedence (design, rule 4): a mandatory wall missing → inconclusive; else any ``reject`` → rejected;
else a stage missing → inconclusive; else any ``hold`` → held; else accepted. ``accepted`` is reached
only past all four, so no failure path ends in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import JobRecord, Sealed, Submission
from acceptd.judge import (
    assets,
    behaviour,
    cost,
    coverage,
    graph,
    independent,
    parity,
    placement,
    provenance,
    quantisation,
    resources,
    stages,
    successor,
    target,
)
from acceptd.judge import schema as interfaces
from acceptd.judge.codes import CODES
from acceptd.judge.finding import Finding, Judgement, Stage, Verdict
from acceptd.judge.inventory import MANIFEST_FILE, Inventory, check_lock, take
from acceptd.judge.jobs import Jobs, ending, place
from acceptd.judge.native import native_libraries
from acceptd.judge.runtimes import runtimes
from acceptd.judge.structure import structure
from acceptd.judge.words import finish, make, with_policy
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
    raw = list(_before_run(manifest, contract, policy, submission, inventory, reduced))
    if manifest is not None and inventory is not None:
        raw += _after_run(manifest, contract, policy, submission, profile or Profile())
    walls = stages.walls_missing(policy, submission)
    gaps = stages.missing(manifest, policy, submission, inventory)
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
        return "inconclusive", f"a required stage is missing: {gaps[0]}{more}"
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
    raw = _before_run(manifest, contract, policy, submission, inventory, reduced)
    return finish(with_policy(raw, policy))


def _line(finding: Finding) -> str:
    return (
        f"{finding.code} at {finding.where}: {finding.message}"
        if finding.where
        else f"{finding.code}: {finding.message}"
    )


def _before_run(
    manifest: Manifest | None,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    inventory: Inventory | None,
    reduced: Reduced | None,
) -> Iterator[Finding]:
    if submission.seal_failure is not None:
        failure = submission.seal_failure
        yield _registered(failure.code, "seal", failure.where, failure.message)
    jobs = Jobs(tuple(submission.jobs))
    for record in submission.jobs:
        if record.kind not in {"run", "reference"}:
            yield from ending(record, superseded=jobs.superseded(record), limits=policy.limits)
    if submission.sealed is None or inventory is None:
        return
    yield from native_libraries(submission.sealed)
    yield from _manifest(manifest, policy, submission, inventory)
    if manifest is None:
        return
    yield from check_lock(submission.sealed, manifest)
    yield from provenance.provenance(manifest, policy)
    if contract is None:
        code = "contract/missing" if policy.contracts.missing == "hold" else "contract/none"
        yield make(code, "judge", manifest.bundle.id, "no contract for this model")
    facts = jobs.facts(manifest)
    for model in manifest.inspected:
        for finding in structure(model, jobs.last("inspect", model), policy, submission.sealed, inventory):
            told = not manifest.declared and finding.code == "structure/overridable-initializer"
            yield finding.model_copy(update={"severity": "warn"}) if told else finding
        if model.name in facts:
            yield from graph.graph(manifest, model, facts[model.name], policy)
            yield from cost.cost(model, facts[model.name], policy)
            yield from quantisation.quantisation(manifest, model, facts[model.name])
    for model in manifest.models:
        if reduced is not None and model.name in facts:
            yield from target.unavailable(model, facts[model.name], reduced)
    now = successor.snapshots(manifest, submission.jobs, submission.sealed)
    yield from independent.findings(independent.comparisons(manifest, submission.sealed, now), manifest)
    yield from successor.findings(submission.prior, manifest, now)
    yield from _beside_the_models(manifest, policy, submission.sealed, inventory, jobs)
    yield from interfaces.schema(manifest, contract, facts)
    yield from parity.goldens(manifest, inventory, policy)
    vectors = jobs.last("vectors")
    if vectors is not None and vectors.vectors is not None:
        yield from parity.decoded(manifest, inventory, vectors.vectors, policy)
        yield from parity.capped(manifest, vectors.vectors, contract, policy)


def _beside_the_models(
    manifest: Manifest, policy: Policy, sealed: Sealed, inventory: Inventory, jobs: Jobs
) -> Iterator[Finding]:
    """Yield what is wrong with external data as a whole, and with files that no model reads."""
    facts = jobs.facts(manifest)
    record = jobs.last("assets")
    found = record.assets if record is not None else None
    yield from coverage.external_data(manifest, facts, sealed, policy, found)
    task = coverage.owed(manifest, facts, sealed, inventory)
    if task is not None:
        yield from assets.undeclared(manifest, sealed, inventory, task)
    yield from assets.found(record)


def _manifest(
    manifest: Manifest | None, policy: Policy, submission: Submission, inventory: Inventory
) -> Iterator[Finding]:
    if submission.manifest_error is not None:
        error = submission.manifest_error
        yield _registered(error.code, "manifest", error.where or MANIFEST_FILE, error.message)
    carries = bool(inventory.manifest)
    if not carries and (
        policy.manifest.inferred == "refuse" or (manifest is not None and not submission.inferred)
    ):
        yield make("manifest/missing", "manifest", MANIFEST_FILE, "the bundle has no bundle.toml")
    if not carries and not inventory.models:
        yield make("manifest/no-model", "manifest", "model.onnx", "no file of the bundle could be its model")
    if manifest is None:
        if not carries and policy.manifest.inferred != "refuse" and inventory.models:
            message = "the bundle has no bundle.toml, and none could be inferred from its model"
            yield make("manifest/missing", "manifest", MANIFEST_FILE, message)
        return
    if submission.inferred:
        if carries:
            message = "the bundle carries a bundle.toml, so none may be inferred"
            yield make("manifest/invalid", "manifest", MANIFEST_FILE, message)
        elif policy.manifest.inferred != "refuse":
            message = f"inferred: {'; '.join(submission.inferred[:8])}"
            finding = make(
                "manifest/inferred", "manifest", MANIFEST_FILE, message, {"inferred": submission.inferred[:64]}
            )
            accepted = policy.manifest.inferred == "accept"
            yield finding.model_copy(update={"severity": "info"}) if accepted else finding
    elif not manifest.declared:
        message = f"bundle.version {manifest.bundle.version!r} is reserved"
        yield make("manifest/reserved-version", "manifest", "bundle.version", message)
    team = manifest.bundle.id.partition("/")[0]
    if team != submission.team:
        message = f"bundle.id names the team {team!r}; the drop came through the inbox of {submission.team!r}"
        yield make("manifest/team-mismatch", "manifest", "bundle.id", message)
    present = frozenset(inventory.models)
    for model in manifest.inspected:
        if model.file not in present:
            where = f"models.{model.name}.file"
            yield make("manifest/file-missing", "manifest", where, f"no file {model.file!r} in the bundle")


def _after_run(
    manifest: Manifest,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    profile: Profile,
) -> Iterator[Finding]:
    jobs = Jobs(tuple(submission.jobs))
    vectors_record = jobs.last("vectors")
    vectors = vectors_record.vectors if vectors_record is not None else None
    facts = jobs.facts(manifest)
    for one in submission.jobs:
        if one.kind in {"run", "reference"}:
            yield from _run_ending(manifest, jobs, one, policy)
    for model in manifest.models:
        record = jobs.last("run", model)
        if record is not None:
            if record.schema_ is not None:
                yield from interfaces.runtime(manifest, model, record.schema_)
            yield from behaviour.cases(manifest, model, record, vectors)
            yield from placement.placement(record, profile)
        plain = jobs.last("run", model, "unoptimised")
        if plain is not None:
            yield from behaviour.cases(manifest, model, plain, vectors)
        if submission.sealed is not None:
            yield from resources.ceilings(model, record, facts.get(model.name), submission.sealed, contract)
    if submission.statistics is not None:
        statistics = submission.statistics
        for problem in statistics.problems:
            yield _registered(problem.code, "compare", problem.where, problem.message)
        yield from parity.parity(manifest, statistics.outputs, policy, contract)
        yield from behaviour.comparisons(manifest, statistics.outputs, statistics.insensitive)
    yield from runtimes(submission, profile)


def _run_ending(manifest: Manifest, jobs: Jobs, record: JobRecord, policy: Policy) -> Iterator[Finding]:
    model = next((one for one in manifest.models if record.model == one.name), None)
    if model is None:
        message = "a run of a model that the manifest does not name"
        yield make("sandbox/protocol-violation", "run", place(record), message)
        return
    yield from ending(record, superseded=jobs.superseded(record), limits=policy.limits)


def _registered(code: str, stage: Stage, where: str, message: str) -> Finding:
    """Return the finding for a code of the trusted side; one that is not registered holds."""
    if code in CODES:
        return make(code, stage, where, message)
    return make("sandbox/unknown-code", stage, where, f"unknown code {code}: {message}", {"code": code})
