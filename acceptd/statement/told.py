"""From an outcome to the parts of its verdict's statement. Pure; hostile text is made printable and cut to size.

What saw held-out vectors has no part here: neither its times nor its memory, jobs or names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from acceptd.cell.limits import KINDS, job_limits
from acceptd.evidence import JobRecord, Submission, ValueInfo
from acceptd.judge.model_signature import verified
from acceptd.judge.profiles import Target
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec, ValueSpec
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.record.canonical import document_digest
from acceptd.statement.parts import (
    MAX_MODELS,
    MAX_RUNS,
    MAX_VALUES,
    dimension,
    milliseconds,
    whole,
    word,
)
from sandbox import entries

_PROBE: Final = "probe:"
_POOLS: Final = ("intra", "inter")
_INTERFACE: Final = ("name", "type", "dtype", "shape")


def sections(
    submission: Submission,
    manifest: Manifest | None,
    policy: Policy,
    targets: Sequence[Target],
    stages: Mapping[str, float],
) -> dict[str, Any]:
    """Return what a statement says beside the ledger's entry; ``stages`` are ms by stage, in order, the team's."""
    written = manifest if manifest is not None and manifest.declared else None
    preprocessing = written.preprocessing if written else None
    signed = verified(policy, submission)
    return {
        "signature": None if signed is None
        else {"signer": word(signed.name), "key": sha256(signed.key.encode()).hexdigest()},
        "models": list(_models(submission, manifest)),
        "preprocessing": None if preprocessing is None
        else {"version": word(preprocessing.version), "sha256": preprocessing.sha256},
        "labels": {"schema_version": word(written.labels.schema_version)} if written and written.labels else None,
        "session_options": [_options(target.profile) for target in targets],
        "runs": [_run(record, submission) for record in _shown_runs(submission)],
        "limits": _limits(policy, submission),
        "stages": [
            {"stage": word(stage), "ms": milliseconds(spent) or 0.0} for stage, spent in list(stages.items())[:64]
        ],
    }  # fmt: skip


def _shown_runs(submission: Submission) -> list[JobRecord]:
    """Return the runs with goldens and probes: never one of the current release, or of held-out vectors."""
    return [one for one in submission.jobs if one.kind == "run" and not one.variant][:MAX_RUNS]


# -- models ---------------------------------------------------------------------------------------------


def _models(submission: Submission, manifest: Manifest | None) -> Iterator[dict[str, Any]]:
    digests = {file.path: file.sha256 for file in submission.sealed.files} if submission.sealed else {}
    written = manifest is not None and manifest.declared
    named: list[tuple[str, str, ModelSpec | None]] = []
    if manifest is not None:
        named += [(model.name, model.file, model) for model in manifest.models]
    else:
        found = dict.fromkeys(one.model for one in submission.jobs if one.kind == "inspect" and one.model)
        named += [(name, name, None) for name in found]
    for name, file, spec in named[:MAX_MODELS]:
        yield {
            "name": word(name),
            "file": word(file, 4000) if file in digests or spec is not None else None,
            "sha256": digests.get(file),
            "declared": _declared(spec) if spec is not None and written else None,
            "told_by_cell": _seen(name, submission),
        }


def _declared(spec: ModelSpec) -> dict[str, Any]:
    return {
        "ir_version": spec.ir_version,
        "opsets": None if spec.opsets is None else _opsets(spec.opsets),
        "inputs": _interface([_spec(value) for value in spec.inputs]),
        "outputs": _interface([_spec(value) for value in spec.outputs], spec.outputs),
    }


def _seen(name: str, submission: Submission) -> dict[str, Any] | None:
    own = [one for one in submission.jobs if one.model == name]
    facts = next((one.facts for one in own if one.facts is not None), None)
    schema = next((one.schema_ for one in _shown_runs(submission) if one.model == name and one.schema_), None)
    source = schema or facts
    if source is None:
        return None
    return {
        "by": "runtime" if schema is not None else "inspection",
        "ir_version": None if facts is None else whole(facts.ir_version),
        "opsets": None if facts is None else _opsets(facts.opsets),
        "nodes": None if facts is None else whole(facts.nodes),
        "inputs": _interface([_info(value) for value in source.inputs]),
        "outputs": _interface([_info(value) for value in source.outputs]),
    }


def _opsets(opsets: Mapping[str, int]) -> dict[str, int | str]:
    return {word(domain): whole(version) for domain, version in list(opsets.items())[:64]}


def _spec(value: ValueSpec) -> dict[str, Any]:
    return {"name": value.name, "type": value.type, "dtype": value.dtype, "shape": value.shape}


def _info(value: ValueInfo) -> dict[str, Any]:
    return {"name": value.name, "type": value.kind, "dtype": value.dtype, "shape": value.shape}


def _interface(values: Sequence[dict[str, Any]], outputs: Sequence[OutputSpec] = ()) -> dict[str, Any]:
    """Return all values by count and digest, and the first of them as they can be shown."""
    shown: list[dict[str, Any]] = [
        {
            "name": word(value["name"]),
            "type": word(value["type"]),
            "dtype": word(value["dtype"]),
            "shape": None if value["shape"] is None else [dimension(one) for one in value["shape"]],
        }
        for value in values[:MAX_VALUES]
    ]
    for row, output in zip(shown, outputs, strict=False):
        if output.labels is not None:
            row["labels"] = {"count": len(output.labels), "sha256": document_digest(output.labels)}
    whole_list = [{key: value[key] for key in _INTERFACE} for value in values]
    return {"count": len(values), "sha256": document_digest(whole_list), "values": shown}


# -- how it was run ---------------------------------------------------------------------------------------


def _options(profile: Profile) -> dict[str, Any]:
    level = profile.optimisation
    return {
        "profile": profile.name,
        "requested": {
            "providers": list(profile.providers),
            "provider_options": {
                name: {word(key): word(value, 4000) for key, value in own.items()}
                for name, own in profile.provider_options.items()
            },
            "allow_cpu_fallback": profile.allow_cpu_fallback,
        },
        "session": {
            "optimisation": level,
            "intra_op_threads": profile.intra_op_threads,
            "inter_op_threads": profile.inter_op_threads,
            # sandbox/session.py, plan_memory; a test holds the two together.
            "arena": False,
            "memory_pattern": False,
            "spinning": any(entries.FIXED[f"session.{pool}_op.allow_spinning"] != "0" for pool in _POOLS),
            "entries": {
                word(key): word(value, 4000) for key, value in (profile.session_entries | entries.FIXED).items()
            },
        },
    }  # fmt: skip


def _run(record: JobRecord, submission: Submission) -> dict[str, Any]:
    return {
        "profile": word(record.profile or submission.profile),
        "model": word(record.model),
        "seen": {
            "ending": record.ending,
            "cause": word(record.cause),
            "attempts": max(record.attempts, 0),
            "wall_ms": milliseconds(record.wall_s * 1000) or 0.0,
            "cpu_ms": milliseconds(record.cpu_s * 1000) or 0.0,
            "peak_memory_bytes": max(record.peak_rss_bytes, 0),
        },
        "told_by_cell": _told(record),
    }


def _told(record: JobRecord) -> dict[str, Any] | None:
    schema, placement = record.schema_, record.placement
    if schema is None:
        return None
    nodes: dict[str, int] = {}
    for one in placement.nodes if placement is not None else ():
        name = word(one.provider)
        if name in nodes or len(nodes) < 64:
            nodes[name] = nodes.get(name, 0) + one.count
    selected = (placement.selected_provider if placement is not None else "") or "".join(schema.providers[:1])
    return {
        "load_ms": milliseconds(schema.load_ms),
        "selected_provider": word(selected) if selected else None,
        "providers": [word(name) for name in schema.providers],
        "used_cpu_fallback": placement.used_cpu_fallback if placement is not None else None,
        "nodes": {name: whole(count) for name, count in nodes.items()},
        "warm_up": _warm_up(record),
    }


def _warm_up(record: JobRecord) -> dict[str, Any] | None:
    first = next((case for case in record.cases if not case.set.startswith(_PROBE)), None)
    if first is None:
        return None
    return {
        "set": word(first.set, 400),
        "ok": not first.error,
        "error": word(first.error, 400),
        "ms": milliseconds(first.wall_ms),
    }


# -- walls and limits ---------------------------------------------------------------------------------------


def _limits(policy: Policy, submission: Submission) -> dict[str, Any]:
    ran = {record.kind for record in submission.jobs}
    return {
        "required_walls": list(policy.required_walls),
        "policy": policy.limits.model_dump(),
        "jobs": {kind: _bounds(policy, kind) for kind in KINDS if kind in ran},
    }


def _bounds(policy: Policy, kind: str) -> dict[str, int]:
    found = job_limits(kind, policy.limits)
    return {
        "cpu_seconds": found.inner.cpu_seconds,
        "wall_seconds": int(found.wall_seconds),
        "memory_bytes": found.memory_bytes,
        "output_bytes": found.inner.output_bytes,
        "stderr_bytes": found.stderr_bytes,
        "open_files": found.inner.open_files,
        "threads": found.inner.threads,
    }
