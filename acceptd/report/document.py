"""The one JSON object that says how a submission was judged. Pure: the same facts give the same object.

Everything else of this package renders this object; ``check --json`` and ``verdict.json`` are it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.evidence import JobRecord, Snapshot, Submission, ValueInfo
from acceptd.judge import independent, regression, successor
from acceptd.judge.codes import CODES
from acceptd.judge.finding import SEVERITY_ORDER, Finding, Judgement
from acceptd.judge.words import one_line
from acceptd.policy.manifest import Manifest, ValueSpec
from acceptd.policy.policy import Policy
from acceptd.report.declared import declared
from acceptd.report.golden import goldens
from acceptd.report.graph import graph
from acceptd.report.oracle import proofs
from acceptd.report.parity import rows_of
from acceptd.report.probed import probed
from acceptd.report.profiles import for_team as team_profiles
from acceptd.report.regression import for_team as regression_for_team
from acceptd.report.speed import performance, placements

_UNCHANGED: Final = frozenset({str, bool})
_EXACT: Final = 2**53 - 1  # RFC 8785 knows no integer beyond; those become decimal strings
_ROWS: Final = 500
PUBLIC_JOBS: Final = frozenset(
    {"unpack", "manifest", "signature", "inspect", "assets", "vectors", "run", "reference"}
)
"""Jobs whose use of resources a team may see. That of a held-out run would leak the held-out inputs."""


def document(
    submission: Submission,
    judgement: Judgement,
    manifest: Manifest | None,
    *,
    policy_digest: str,
    policy_name: str = "",
    profile: str = "",
    profiles: Sequence[Mapping[str, Any]] = (),
    contract_digest: str = "",
    timings_ms: Mapping[str, float] | None = None,
    release: Mapping[str, Any] | None = None,
    ledger: str = "unanchored",
    policy: Policy | None = None,
    observed: bool = False,
) -> dict[str, Any]:
    """Return the report of one judgement, for a reviewer; :func:`for_team` makes the team's from it.

    ``timings_ms`` maps a stage to milliseconds of wall clock; ``runtime`` is the record of
    what the runs were forked from, ``runtime_said`` what a job said of it; ``release`` is there once
    the bundle is promoted; ``observed`` says that it never is, whatever the verdict. All values are JSON data:
    integers beyond 2**53 - 1 are decimal strings, non-finite numbers strings.
    """
    sealed = submission.sealed
    jobs = [_job(record) for record in submission.jobs if record.variant != "heldout"]
    result: dict[str, Any] = {
        "schema": 1,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "observed": observed,
        "submission": submission.id,
        "team": submission.team,
        "judged_at": judgement.judged_at,
        "bundle_id": manifest.bundle.id if manifest else None,
        "bundle_version": manifest.bundle.version if manifest else None,
        "bundle_digest": sealed.digest if sealed else None,
        "policy": policy_name,
        "policy_digest": policy_digest,
        "contract_digest": contract_digest or None,
        "profile": profile,
        "profiles": [dict(row) for row in profiles],
        "runtime_identity": submission.runtime_identity,
        "runtime": _runtime(submission),
        "runtime_said": _said(submission),
        "findings": [_finding(finding) for finding in judgement.findings],
        "withheld_findings": 0,
        "inferred": list(submission.inferred),
        "walls": dict(sorted(submission.walls.items())),
        "wall_notes": dict(sorted(submission.wall_notes.items())),
        "timings_ms": {stage: round(value, 3) for stage, value in (timings_ms or {}).items()},
        "resources": _resources(jobs),
        "declared": declared(manifest),
        "difference": successor.document(submission.prior, manifest, _snapshots(submission, manifest)),
        "regression": regression.document(manifest, policy, submission),
        "models": _models(submission, manifest),
        "goldens": goldens(submission, manifest),
        "parity": _parity(submission, judgement),
        "reference": proofs(submission, manifest, judgement.findings),
        "probed": probed(submission.jobs),
        "performance": performance(submission),
        "placement": placements(submission),
        "heldout": _heldout(submission),
        "files": [file.model_dump(exclude_defaults=True) for file in sealed.files] if sealed else [],
        "total_bytes": sealed.total_bytes if sealed else 0,
        "ledger": ledger,
    }
    if release is not None:
        result["release"] = dict(release)
    plain: dict[str, Any] = _plain(result)
    return plain


def brief(judgement: Judgement) -> dict[str, Any]:
    """Return what a list of bundles needs of a report: verdict, reason, findings, as :func:`document` has them."""
    findings = [_finding(finding) for finding in judgement.findings]
    plain: dict[str, Any] = _plain(
        {"verdict": judgement.verdict, "reason": judgement.reason, "findings": findings}
    )
    return plain


def for_team(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report as the submitting team may see it.

    Without findings for reviewers (only their number), and without the resources of jobs that saw
    held-out vectors. Where a withheld finding decided, the reason says no more than that.
    """
    seen = [finding for finding in report["findings"] if finding["audience"] == "team"]
    withheld = [finding for finding in report["findings"] if finding["audience"] != "team"]
    jobs = [job for job in report["resources"]["jobs"] if job["kind"] in PUBLIC_JOBS]
    result = {**report, "findings": seen, "withheld_findings": len(withheld)}
    result.pop("sources", None)  # a team is told nothing of the machines
    result["resources"] = _resources(jobs)
    result["profiles"] = team_profiles(report.get("profiles") or [])
    if "difference" in report:
        # What is new beside the current release is for the reviewer, as the findings about it are.
        result["difference"] = {**report["difference"], "models": [], "bundle": None}
    result["heldout"] = None
    if "regression" in report:
        result["regression"] = regression_for_team(report["regression"])
    if report.get("heldout") or len(jobs) < len(report["resources"]["jobs"]):
        # The sum would give away what the stages that are left out took.
        shown = PUBLIC_JOBS | {"seal", "judge", "record", "promote", "queue"}
        result["timings_ms"] = {stage: took for stage, took in report["timings_ms"].items() if stage in shown}
    if withheld and report["verdict"] != "accepted":
        hidden = _tells(report["reason"], withheld) and not _tells(report["reason"], seen)
        if hidden or _worst(withheld) < _worst(seen):
            # Of two that weigh the same, the team is told the one that it may see.
            equal = [one for one in seen if SEVERITY_ORDER[one["severity"]] <= _worst(withheld)]
            result["reason"] = one_line(equal[0]) if equal else "decided by findings that only a reviewer may see"
    return result


def _tells(reason: str, findings: list[dict[str, Any]]) -> bool:
    """Say whether a verdict's reason is one of these findings, perhaps under a profile's name."""
    return any(one["code"] in reason and reason.endswith(one["message"]) for one in findings)


def _worst(findings: list[dict[str, Any]]) -> int:
    return min((SEVERITY_ORDER[finding["severity"]] for finding in findings), default=len(SEVERITY_ORDER))


def _finding(finding: Finding) -> dict[str, Any]:
    known = CODES.get(finding.code)
    return {
        **finding.model_dump(),
        "meaning": known.meaning if known else "",
        "reason": known.reason if known else "",
        "references": [one.id for one in known.references] if known else [],
        "remedy": known.remedy if known else "",
    }


def _job(record: JobRecord) -> dict[str, Any]:
    peak = record.peak_rss_bytes
    baseline = record.done.baseline_rss_bytes if record.done else 0
    return {
        "kind": record.kind,
        "model": record.model,
        "profile": record.profile,
        "variant": record.variant,
        "ending": record.ending,
        "cause": record.cause,
        "stage": record.stage,
        "attempts": record.attempts,
        "wall_ms": round(record.wall_s * 1000, 3),
        "cpu_ms": round(record.cpu_s * 1000, 3),
        "peak_memory_bytes": peak,
        "baseline_memory_bytes": baseline,
        "load_ms": round(record.schema_.load_ms, 3) if record.schema_ else None,
        "run_ms": _median([case.wall_ms for case in record.cases if not case.error]),
        "resource_profile": _profile(record),
    }


def _profile(record: JobRecord) -> dict[str, Any] | None:
    """Return memory over time, faults and threads; of a job that saw held-out vectors nobody is told."""
    profile = record.resource_profile
    return profile.model_dump() if profile is not None and record.kind in PUBLIC_JOBS else None


def _median(values: list[float]) -> float | None:
    return round(sorted(values)[len(values) // 2], 3) if values else None


def _resources(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "peak_memory_bytes": max((int(job["peak_memory_bytes"]) for job in jobs), default=0),
        "cpu_ms": round(sum(job["cpu_ms"] for job in jobs), 3),
        "jobs": jobs,
    }


def _runtime(submission: Submission) -> dict[str, Any]:
    """Return the runtime record of the runs, as it was measured; of several the last, and then no identity."""
    return submission.runtimes[-1].model_dump(mode="json", by_alias=True) if submission.runtimes else {}


def _said(submission: Submission) -> dict[str, str]:
    """Return what the last run job said of its runtime: a statement of the cell, not a measurement."""
    runs = [one for one in submission.jobs if one.kind == "run" and one.variant not in regression.VARIANTS]
    schemas = [record.schema_ for record in runs if record.schema_]
    return dict(schemas[-1].runtime) if schemas else {}


def _models(submission: Submission, manifest: Manifest | None) -> list[dict[str, Any]]:
    """Return interface and operators by model: as the runtime saw it, else as the manifest declares it."""
    declared = {model.name: model for model in manifest.models} if manifest else {}
    others = {model.name for model in manifest.inspected} if manifest else set()
    names = [*declared, *sorted({record.model for record in submission.jobs if record.model} - others)]
    seconds = _independent(submission, manifest)
    models = []
    for name in names:
        own = [one for one in submission.jobs if one.variant not in regression.VARIANTS]
        records = [record for record in own if record.model == name]
        facts = next((record.facts for record in records if record.facts), None)
        schema = next((record.schema_ for record in records if record.schema_), None)
        spec = declared.get(name)
        entry: dict[str, Any] = {"name": name, "file": spec.file if spec else None, "seen_by": "manifest"}
        if schema or facts:
            entry["seen_by"] = "runtime" if schema else "inspection"
            source = schema or facts
            assert source is not None
            entry["inputs"] = [_info(value) for value in source.inputs]
            entry["outputs"] = [_info(value) for value in source.outputs]
        elif spec:
            entry["inputs"] = [_spec(value) for value in spec.inputs]
            entry["outputs"] = [_spec(value) for value in spec.outputs]
        if facts:
            entry |= {"ir_version": facts.ir_version, "opsets": dict(facts.opsets), "nodes": facts.nodes}
            used = sorted(facts.operators, key=lambda use: (-use.count, use.domain, use.op_type))
            entry["operators"] = [use.model_dump(exclude={"where", "types"}) for use in used[:_ROWS]]
            entry["graph"] = graph(facts)
        placement = next((record.placement for record in records if record.placement), None)
        if placement:
            entry["placement"] = _providers([(node.provider, node.count) for node in placement.nodes])
        if name in seconds:
            entry["independent_export"] = seconds[name]
        models.append(entry)
    return models


def _snapshots(submission: Submission, manifest: Manifest | None) -> dict[str, Snapshot]:
    return successor.snapshots(manifest, submission.jobs, submission.sealed) if manifest else {}


def _independent(submission: Submission, manifest: Manifest | None) -> dict[str, dict[str, Any]]:
    if manifest is None or submission.sealed is None:
        return {}
    found = independent.comparisons(manifest, submission.sealed, _snapshots(submission, manifest))
    return {one.model: one.document() for one in found}


def _providers(nodes: list[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for provider, count in nodes:
        counts[provider] = counts.get(provider, 0) + count
    return counts


def _info(value: ValueInfo) -> dict[str, Any]:
    return {"name": value.name, "type": value.kind, "dtype": value.dtype, "shape": value.shape}


def _spec(value: ValueSpec) -> dict[str, Any]:
    return {"name": value.name, "type": value.type, "dtype": value.dtype, "shape": value.shape}


def _heldout(submission: Submission) -> dict[str, Any] | None:
    """Return what became of held-out vectors, for reviewers; None where nothing has."""
    held = submission.heldout
    if held is None:
        return None
    return {
        "status": held.status,
        "reason": held.reason,
        "evaluation": held.number,
        "sets": dict(held.names),
        "jobs": [_job(record) for record in held.jobs],
        "rows": rows_of([("", held.statistics), *((one.profile, one.statistics) for one in held.further)]),
    }


def _parity(submission: Submission, judgement: Judgement) -> list[dict[str, Any]]:
    several = bool(submission.others)
    each = [(submission.profile if several else "", submission.statistics)]
    each += [(one.profile, one.statistics) for one in submission.others]
    return rows_of(each, judgement.findings)


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict | Mapping):  # dict first: the other is asked through its class, which is dear
        return {
            str(key): item if item is None or type(item) in _UNCHANGED else _plain(item)
            for key, item in value.items()
        }
    return [_plain(item) for item in value]
