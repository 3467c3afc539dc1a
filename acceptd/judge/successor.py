"""A submission beside the current release of the same model: findings for the reviewer. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from acceptd.evidence import (
    Declared,
    JobRecord,
    Prior,
    Sealed,
    Snapshot,
    Submission,
    data_digest,
    declared_by,
    placements_in,
    pruned,
    released_files,
)
from acceptd.judge.difference import Change, Difference, NewSelection, compare
from acceptd.judge.finding import Finding
from acceptd.judge.meaning import Said, of_bundle, of_model
from acceptd.judge.words import make, printable, safe
from acceptd.policy.manifest import Manifest, ModelSpec

SHOWN: Final = 8
SIDE: Final = 130
MANIFEST: Final = "bundle.toml"


def snapshot(model: ModelSpec, record: JobRecord | None, files: Mapping[str, str]) -> Snapshot | None:
    """Return what one model is compared by; None where its inspection did not come so far.

    ``files`` gives the digests of the sealed files by path.
    """
    if record is None or record.wire is None or record.facts is None or record.structure is None:
        return None
    return Snapshot(
        name=model.name,
        file=model.file,
        bytes=record.wire.bytes,
        facts=record.facts,
        structure=record.structure,
        sha256=files.get(model.file, ""),
        data_sha256=data_digest(model.file, record.facts.external, record.facts.external_count, files),
    )


def snapshots(manifest: Manifest, records: Sequence[JobRecord], sealed: Sealed | None) -> dict[str, Snapshot]:
    """Return the snapshots of all inspected models by name, independent exports under their jobs' names."""
    last = {record.model: record for record in records if record.kind == "inspect"}
    files = {file.path: file.sha256 for file in sealed.files} if sealed is not None else {}
    taken = ((model.name, snapshot(model, last.get(model.name), files)) for model in manifest.inspected)
    return {name: one for name, one in taken if one is not None}


def as_prior(manifest: Manifest | None, submission: Submission, reason: str) -> Prior:
    """Return a bundle that was judged as what another one is compared with, in place of a release.

    ``reason`` says why its judgement ended as it did, for the case that it did not come so far.
    """
    found = snapshots(manifest, submission.jobs, submission.sealed) if manifest is not None else {}
    if manifest is None or submission.sealed is None or any(model.name not in found for model in manifest.models):
        words = f"the bundle to compare with could not be inspected: {reason}"
        return Prior(status="unknown", reason=words[:1000])
    sized = {file.path: (file.sha256, file.size) for file in submission.sealed.files}
    jobs = [job.model_dump(mode="json") for job in submission.jobs if job.kind == "run"]
    kept = []
    for one in (found[model.name] for model in manifest.models):
        files = released_files(one.file, one.facts.external, one.facts.external_count, sized)
        update = {"facts": pruned(one.facts), "files": files, "placements": placements_in(jobs, one.name)}
        kept.append(one.model_copy(update=update))
    digest = submission.sealed.digest
    return Prior(
        status="found",
        bundle_digest=digest,
        version=manifest.bundle.version,
        models=kept,
        declared=declared_by(manifest),
    )


def differences(prior: Prior | None, manifest: Manifest, now: Mapping[str, Snapshot]) -> list[Difference]:
    """Return the difference of every model that both the prior release and the submission have, by name."""
    if prior is None or prior.status != "found":
        return []
    return _compared(
        prior,
        {model.name: now[model.name] for model in manifest.models if model.name in now},
        declared_by(manifest),
    )


def _compared(prior: Prior, now: Mapping[str, Snapshot], declared: Declared | None) -> list[Difference]:
    older = {one.name: one for one in prior.models}
    before = {one.name: one for one in prior.declared.models} if prior.declared is not None else {}
    after = {one.name: one for one in declared.models} if declared is not None else {}
    found = []
    for name in (name for name in now if name in older):
        one = compare(older[name], now[name])
        said = of_model(before[name], after[name]) if name in before and name in after else Said()
        found.append(replace(one, meaning=said.meaning, terms=said.terms))
    return found


def between(first: Prior, second: Prior) -> dict[str, Any]:
    """Return what differs between two releases as :func:`document` has it; ``unknown`` with a reason for each.

    Both as :mod:`acceptd.release.prior` finds them. Of one bundle under two numbers the status is ``same``.
    """
    whole: dict[str, Any] = {"status": "found", "reason": "", "release": None, "models": [], "bundle": None}
    if first.bundle_digest == second.bundle_digest:
        return whole | {"status": "same", "reason": "both are of one bundle"}
    if unknown := [one.reason for one in (first, second) if one.status != "found"]:
        return whole | {"status": "unknown", "reason": "; ".join(printable(reason) for reason in unknown)}
    models = _compared(first, {one.name: one for one in second.models}, second.declared)
    sides = first.declared, second.declared
    said = Said() if sides[0] is None or sides[1] is None else of_bundle(sides[0], sides[1])
    whole["models"] = [one.document() for one in models]
    whole["bundle"] = safe(asdict(said)) | {"compared": None not in sides}
    return whole


def _bundle(prior: Prior, manifest: Manifest) -> Said:
    """Return what is declared otherwise about the whole bundle; nothing where the older one is not known."""
    if prior.status != "found" or prior.declared is None:
        return Said()
    return of_bundle(prior.declared, declared_by(manifest))


def document(prior: Prior | None, manifest: Manifest | None, now: Mapping[str, Snapshot]) -> dict[str, Any]:
    """Return the report's section: which release it was compared with, and what differs by model."""
    if prior is None:
        return {"status": "none", "reason": "nothing was compared", "release": None, "models": [], "bundle": None}
    release = None
    if prior.status != "none":
        keys = ("channel", "number", "bundle_digest", "version")
        release = {key: getattr(prior, key) for key in keys}
    found = differences(prior, manifest, now) if manifest is not None else []
    models = [one.document() for one in found]
    whole = {"status": prior.status, "reason": prior.reason, "release": release, "models": models, "bundle": None}
    if prior.status == "found" and manifest is not None:
        said = _bundle(prior, manifest)
        whole["bundle"] = safe(asdict(said)) | {"compared": prior.declared is not None}
    return whole


def findings(prior: Prior | None, manifest: Manifest, now: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Yield what a reviewer should know of the way from the current release to this submission."""
    if prior is None or prior.status in {"none", "same"}:
        return
    named = f"release {prior.number} ({prior.channel})" if prior.number else "the bundle to compare with"
    if prior.status == "unknown":
        yield make("difference/unknown", "judge", named, prior.reason or "its facts could not be had")
        return
    before, after = {one.name for one in prior.models}, {model.name for model in manifest.models}
    if before != after:
        message = f"models added: {_names(after - before)}; removed: {_names(before - after)}; since {named}"
        yield make("difference/models-changed", "judge", "models", message)
    if prior.declared is None:
        message = f"not compared with {named}: what its manifest declares, as it is no valid manifest any more"
        yield make("difference/unknown", "judge", MANIFEST, message)
    said = _bundle(prior, manifest)
    yield from _declared(said.meaning, said.terms, MANIFEST, named)
    files = {model.name: model.file for model in manifest.models}
    for one in differences(prior, manifest, now):
        yield from _model(one, files[one.model], named)


def _declared(meaning: Sequence[Change], terms: Sequence[Change], where: str, named: str) -> Iterator[Finding]:
    for code, changes in (("difference/meaning-changed", meaning), ("difference/terms-changed", terms)):
        for change in changes:
            sides = [printable(side, SIDE) for side in (change.before, change.after)]  # so that both have room
            message = f"{change.what}: {sides[0]} in {named}, now {sides[1]}"
            yield make(code, "judge", f"{where}: {change.what}", message, asdict(change))


def _model(one: Difference, file: str, named: str) -> Iterator[Finding]:
    yield from _declared(one.meaning, one.terms, file, named)
    for selection in one.selections_new:
        yield _selection(selection, file, named)
    if one.domains_added:
        message = f"operators of {_names(one.domains_added)}, which {named} has not"
        yield make("difference/new-domain", "judge", file, message, {"domains": list(one.domains_added[:32])})
    for code, names, words in (
        ("difference/new-operator", one.operators_added, "operators that are new since"),
        ("difference/operator-gone", one.operators_removed, "operators that are gone since"),
    ):
        if names:
            yield make(code, "judge", file, f"{words} {named}: {_names(names)}", {"operators": list(names[:32])})
    for change in one.interface:
        message = f"{change.what}: {change.before} in {named}, now {change.after}"
        yield make("difference/interface-changed", "judge", f"{file}: {change.what}", message)
    if one.versions:
        yield make("difference/version-changed", "judge", file, f"since {named}: {_changes(one.versions)}")
    if one.initializers_added_count or one.initializers_removed_count:
        message = (
            f"{one.initializers_added_count} initializers added ({_names(one.initializers_added)}), "
            f"{one.initializers_removed_count} removed ({_names(one.initializers_removed)}) since {named}"
        )
        yield make("difference/initializers-changed", "judge", file, message)
    if one.sizes:
        yield make("difference/size-changed", "judge", file, f"since {named}: {_changes(one.sizes)}")
    if one.selections_changed:
        message = f"{one.selections_changed} selections are decided by something that is computed otherwise"
        yield make("difference/selection-changed", "judge", file, f"{message} than in {named}")
    if one.not_compared:
        yield make("difference/unknown", "judge", file, f"not compared with {named}: {_names(one.not_compared)}")


def _selection(one: NewSelection, file: str, named: str) -> Finding:
    where, condition = one.places[0] if one.places else ("", "")
    decided = {"input": f"by the input {one.input!r}", "unknown": "by a name that leads nowhere"}.get(
        one.driven, "by no input"
    )
    way = f": {' → '.join(one.path)}" if one.path else ""
    among = f", among {len(one.places)} places" if len(one.places) > one.count else ""
    message = f"{one.count} {one.op_type} on {condition!r}, decided {decided}{way}; not in {named}{among}"
    code = "difference/new-branch" if one.driven == "none" else "difference/new-selection"
    shows = {"places": [place for place, _ in one.places], "path": list(one.path), "input": one.input}
    return make(code, "judge", f"{file}: {where}", message, shows | {"count": one.count})


def _names(names: tuple[str, ...] | set[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return (", ".join(one[:80] for one in listed[:SHOWN]) or "none") + more


def _changes(changes: tuple[Change, ...]) -> str:
    return "; ".join(f"{change.what} {change.before} → {change.after}" for change in changes)
