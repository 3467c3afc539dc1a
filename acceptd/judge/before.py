"""What is known of a submission before anything of it is run: seal, manifest, structure, schema, goldens. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Sealed, Submission
from acceptd.judge import (
    artifacts,
    assets,
    cost,
    coverage,
    goldens,
    graph,
    independent,
    model_signature,
    parity,
    provenance,
    quantisation,
    successor,
    target,
)
from acceptd.judge import schema as interfaces
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import MANIFEST_FILE, Inventory, check_lock
from acceptd.judge.jobs import Jobs, ending
from acceptd.judge.native import native_libraries
from acceptd.judge.structure import structure
from acceptd.judge.words import make, registered
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from acceptd.policy.reduced import Reduced


def before_run(
    manifest: Manifest | None,
    contract: Contract | None,
    policy: Policy,
    submission: Submission,
    inventory: Inventory | None,
    reduced: Reduced | None,
) -> Iterator[Finding]:
    """Yield what seal, manifest, inspection and decoded goldens say; nothing of the model has run."""
    if submission.seal_failure is not None:
        failure = submission.seal_failure
        yield registered(failure.code, "seal", failure.where, failure.message)
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
    yield from model_signature.findings(manifest, policy, submission)
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
            yield from artifacts.artifacts(model, facts[model.name])
    for model in manifest.models:
        if reduced is not None and model.name in facts:
            yield from target.unavailable(model, facts[model.name], reduced)
    now = successor.snapshots(manifest, submission.jobs, submission.sealed)
    yield from independent.findings(independent.comparisons(manifest, submission.sealed, now), manifest)
    yield from successor.findings(submission.prior, manifest, now)
    yield from _beside_the_models(manifest, policy, submission.sealed, inventory, jobs)
    yield from interfaces.schema(manifest, contract, facts)
    yield from goldens.goldens(manifest, inventory, policy)
    vectors = jobs.last("vectors")
    if vectors is not None and vectors.vectors is not None:
        yield from goldens.decoded(manifest, inventory, vectors.vectors, policy)
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
        yield registered(error.code, "manifest", error.where or MANIFEST_FILE, error.message)
    carries = MANIFEST_FILE in inventory.manifest
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
