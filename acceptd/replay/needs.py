"""What a stored submission cannot tell of another policy, because something else would have been run. Pure.

Most keys of a policy are read by the judge alone: evidence answers those. The rest decides what is run, and how
far: there evidence answers only where nothing came near the limit, and else a rerun must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from acceptd.evidence import JobRecord, Submission
from acceptd.judge import model_signature
from acceptd.policy.contract import Contract
from acceptd.policy.policy import LimitsTable, Policy

JUDGED: Final = (
    "name", "profile", "profiles", "optional_profiles", "required_walls", "manifest", "vectors.required",
    "vectors.require_origin", "operators", "opsets", "parity", "contracts", "export", "licenses",
    "release.automatic", "release.channel_valid_seconds", "severity", "evidence", "performance.least_samples",
    "performance.busy_pressure", "performance.busy_steal", "placement.cpu_operators", "reference.required",
    "advisories", "reference.default", "reference.probabilities", "reference.logits", "approvals", "channels",
)  # fmt: skip
"""Keys, or tables, that only the judge reads. What is not here decides what is run."""

_BESIDE: Final = frozenset({"regression.enabled", "regression.timing_rounds"})
"""Whether and how the current release was run; the other keys of its table are limits."""
_UNKNOWN: Final = float("inf")
_LEAVE_OUT: Final = {
    "threads": frozenset({"limits.threads", "no thread to be had"}),
    "memory_bytes": frozenset({"memory"}),
    "output_bytes": frozenset({"outputs"}),
}
"""Reasons by which a run leaves probes and relations out, by the limit that they come from."""
_INSPECTED: Final = ("manifest", "signature", "inspect", "vectors", "unpack")


def differing(old: Policy, new: Policy) -> Iterator[str]:
    """Yield the dotted keys, limits aside, in which two policies differ and that decide what is run."""
    one, other = _flat(old.model_dump(mode="json")), _flat(new.model_dump(mode="json"))
    for key in sorted(one.keys() | other.keys()):
        judged = any(key == name or key.startswith(f"{name}.") for name in JUDGED)
        if one.get(key) != other.get(key) and not judged and not key.startswith("limits."):
            yield key


def reasons(old: Policy, new: Policy, submission: Submission, contract: Contract | None) -> Iterator[str]:
    """Yield why the evidence of a submission does not answer for the new policy."""
    timed = contract is not None and contract.ceilings.timed
    for key in differing(old, new):
        if key == "release.channel" and submission.prior is None:
            continue
        if key.startswith("signatures.") and not model_signature.present(submission.sealed):
            continue  # there is none to be read
        if key.startswith("heldout.") and submission.heldout is None:
            continue  # nothing was held out, or it did not come so far: then the stage is missing
        if key.startswith("regression.") and (key not in _BESIDE or not _beside(submission)):
            continue
        if key.startswith("performance.") and not timed:
            continue  # what was timed is told, and nothing is judged by it
        yield f"{key} changed: it decides what is run or compared"
    stopped = submission.seal_failure is not None or any(
        job.ending in {"limit", "refused"} and job.kind != "reference"  # it has a cost cap of its own
        for job in _jobs(submission)
    )
    left_out = {part.reason for job in _jobs(submission) for one in job.probed for part in one.left_out}
    for key in LimitsTable.model_fields:
        before, after = getattr(old.limits, key), getattr(new.limits, key)
        if before == after or key not in _USES:
            continue
        if after > before and stopped:
            yield f"limits.{key} was raised: what stopped then may pass now"
        elif after > before and left_out & _LEAVE_OUT.get(key, frozenset()):
            yield f"limits.{key} was raised: what was left out for want of it would be tried now"
        elif after < before and submission.sealed is not None and (used := _used(key, submission, new)) > after:
            much = "" if used == _UNKNOWN else f": {used:g} were used, {after} are allowed"
            yield f"limits.{key} was lowered{much}"


def _jobs(submission: Submission) -> list[JobRecord]:
    """Return all jobs, those on held-out sets too: a limit stops any of them."""
    return [*submission.jobs, *(submission.heldout.jobs if submission.heldout is not None else ())]


def _beside(submission: Submission) -> bool:
    return submission.prior is not None and submission.prior.status == "found"


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _used(key: str, submission: Submission, new: Policy) -> float:
    if key == "wall_factor":
        return max((_walls(job, new) for job in _jobs(submission)), default=0.0)
    return max(_USES[key](submission), default=0.0)


def _walls(job: JobRecord, new: Policy) -> float:
    """Return how many times its CPU limit a job took by the wall clock."""
    own = {"assets": "inspect", "reference": "run", "signature": "manifest"}.get(job.kind, job.kind)
    seconds = getattr(new.limits, f"{own}_cpu_seconds", None)
    return job.wall_s / seconds if seconds else 0.0


def _of_files(measure: Callable[[str, int], float]) -> Callable[[Submission], Iterator[float]]:
    def each(submission: Submission) -> Iterator[float]:
        for file in submission.sealed.files if submission.sealed else ():
            yield measure(file.path, file.size)

    return each


def _of_jobs(*kinds: str, measure: Callable[[JobRecord], float]) -> Callable[[Submission], Iterator[float]]:
    return lambda submission: (measure(job) for job in _jobs(submission) if job.kind in kinds)


def _of_wire(name: str) -> Callable[[Submission], Iterator[float]]:
    return lambda submission: (float(getattr(job.wire, name)) for job in submission.jobs if job.wire is not None)


def _constant(value: float) -> Callable[[Submission], Iterator[float]]:
    return lambda _submission: iter([value])


def _memory(job: JobRecord) -> float:
    return max(0, job.peak_rss_bytes - job.baseline_rss_bytes)


def _scopes(submission: Submission) -> Iterator[float]:
    for job in submission.jobs:
        if job.facts is not None:
            yield job.facts.scopes


def _total(submission: Submission) -> Iterator[float]:
    if submission.sealed is not None:
        yield submission.sealed.total_bytes


def _cpu(*kinds: str) -> Callable[[Submission], Iterator[float]]:
    return _of_jobs(*kinds, measure=lambda job: job.cpu_s)


_USES: Final[dict[str, Callable[[Submission], Iterator[float]]]] = {
    "files": lambda submission: iter([float(len(submission.sealed.files)) if submission.sealed else 0.0]),
    "bundle_bytes": _total,
    "file_bytes": _of_files(lambda _path, size: size),
    "path_bytes": _of_files(lambda path, _size: len(path.encode("utf-8", "surrogatepass"))),
    "path_depth": _of_files(lambda path, _size: path.count("/") + 1),
    "manifest_bytes": _of_files(lambda path, size: size if path == "bundle.toml" else 0),
    # How long sealing took and how far an archive unfolded is not in the evidence.
    "seal_seconds": _constant(_UNKNOWN),
    "archive_ratio": _constant(_UNKNOWN),
    "model_bytes": _of_wire("bytes"),
    "metadata_bytes": _of_wire("metadata_bytes"),
    "nodes": _of_wire("nodes"),
    "initializers": _of_wire("initializers"),
    "wire_depth": _of_wire("depth"),
    "scopes": _scopes,
    "manifest_cpu_seconds": _cpu("manifest", "signature"),
    "unpack_cpu_seconds": _cpu("unpack"),
    "inspect_cpu_seconds": _cpu("inspect", "assets"),
    "vectors_cpu_seconds": _cpu("vectors"),
    "run_cpu_seconds": _cpu("run"),
    "wall_factor": _constant(0.0),
    "memory_bytes": _of_jobs("run", measure=_memory),
    "inspect_memory_bytes": _of_jobs(*_INSPECTED, "assets", measure=_memory),
    "output_bytes": _constant(_UNKNOWN),
    "stderr_bytes": _of_jobs("run", "reference", *_INSPECTED, "assets", measure=lambda job: len(job.stderr_tail)),
    "threads": _of_jobs(
        "run", "reference", *_INSPECTED,
        measure=lambda job: job.resource_profile.threads if job.resource_profile is not None else _UNKNOWN,
    ),
}  # fmt: skip
"""What a submission used of each limit that ends work; the other limits are read by the judge alone."""
