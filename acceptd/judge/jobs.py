"""The jobs of one submission, found by what they were for, and what their endings mean. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from acceptd.evidence import Facts, JobRecord
from acceptd.judge.codes import CODES
from acceptd.judge.finding import Finding, Stage
from acceptd.judge.words import from_job, make
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import LimitsTable

STAGES: Final[dict[str, Stage]] = {
    "unpack": "unpack",
    "manifest": "manifest",
    "signature": "manifest",
    "inspect": "inspect",
    "assets": "inspect",
    "vectors": "vectors",
    "run": "run",
    "reference": "run",
}

_LIMITS: Final = {
    "cpu": "resources/cpu-limit",
    "memory": "resources/memory-limit",
    "output": "resources/output-limit",
    "stderr": "resources/stderr-limit",
    "wall": "resources/wall-limit",
    "threads": "resources/thread-limit",
}

_SIGNALS: Final = {
    "SIGFPE": "as after an integer division by zero",
    "SIGSEGV": "memory that is not its own",
    "SIGBUS": "memory that is not there",
    "SIGABRT": "it ended itself, as after a failed assertion",
    "SIGILL": "an instruction that the processor does not have",
}
_REACHED: Final = {
    "walls": "before it had looked at a file",
    "entry": "while it unpacked",
    "wire": "after it had read the file's bytes",
    "facts": "after it had read the graph",
    "structure": "after it had read the graph",
    "checker": "after onnx.checker",
    "shapes": "after shape inference",
    "schema": "after the model was loaded",
    "placement": "after the model was loaded, before the first inference",
    "timing": "while it timed inferences",
    "probed": "while it tried other inputs",
    "done": "after it had finished",
}
"""How far a job came, by the type of its last frame; see ``TYPES`` of sandbox/messages.py."""

RUNTIME_CAUSES: Final = frozenset(
    {"runtime/library-mismatch", "runtime/version-mismatch", "runtime/custom-operator-mismatch"}
)
"""Causes of a run that did not start because its runtime is not the profile's: the codes of the findings."""


def stage_of(record: JobRecord) -> Stage:
    """Return the stage of the acceptance that a job belongs to."""
    return STAGES.get(record.kind, "cell")


def place(record: JobRecord) -> str:
    """Name a job in a finding: kind, model and variant."""
    return " ".join(part for part in (record.kind, record.model, record.variant) if part)


@dataclass(frozen=True, slots=True)
class Jobs:
    """All records. Where one task has several records, the last one counts; the endings of all do."""

    records: tuple[JobRecord, ...]

    def last(self, kind: str, model: ModelSpec | None = None, variant: str = "") -> JobRecord | None:
        """Return the last record of a kind (for one model, by its name), or None."""
        for record in reversed(self.records):
            fits = model is None or record.model == model.name
            if fits and record.kind == kind and record.variant == variant:
                return record
        return None

    def facts(self, manifest: Manifest) -> dict[str, Facts]:
        """Return the facts of all inspected models by the models' names, as far as there are any."""
        records = {model.name: self.last("inspect", model) for model in manifest.inspected}
        return {name: one.facts for name, one in records.items() if one is not None and one.facts is not None}

    def superseded(self, record: JobRecord) -> bool:
        """Say whether a later record of the same task counts instead of this one."""
        task = (record.kind, record.model, record.variant)
        last = next(one for one in reversed(self.records) if (one.kind, one.model, one.variant) == task)
        return last is not record


def ending(record: JobRecord, *, superseded: bool = False, limits: LimitsTable | None = None) -> list[Finding]:
    """Return what a job's ending means. ``done`` means nothing.

    ``lost`` and ``unavailable`` are never the model's fault; they leave the stage missing, and the
    verdict inconclusive unless something else rejects. A run of the variant ``outside`` died on an input
    that nobody promised, while the same run without those inputs passed. ``superseded``: a later
    record of the same task counts, so that a lost attempt is only told. ``limits``: the policy's, to
    name the one that was reached.
    """
    stage = stage_of(record)
    where = place(record)
    facts = {
        "ending": record.ending,
        "cause": record.cause,
        "after": record.stage,
        "attempts": record.attempts,
        "cpu_s": record.cpu_s,
        "wall_s": record.wall_s,
        "peak_rss_bytes": record.peak_rss_bytes,
    }
    reached = _reached(record)
    if record.ending == "done":
        if record.attempts > 1:
            return [make("cell/job-retried", stage, where, f"passed at attempt {record.attempts}")]
        return []
    if record.ending == "refused":
        return _refused(record, stage, where)
    if record.ending in {"lost", "unavailable"} and superseded:
        return [make("cell/job-retried", stage, where, f"{record.ending} once; another attempt counts")]
    if record.ending == "lost":
        return [make("cell/lost", "cell", where, f"lost {reached}: {record.cause or record.message}", facts)]
    if record.ending == "unavailable" and record.cause in RUNTIME_CAUSES:
        return [make(record.cause, stage, where, record.message, facts)]
    if record.ending == "unavailable":
        return [make("cell/unavailable", "cell", where, record.message or "no sandbox for this job", facts)]
    if record.ending == "violation":
        return [make("sandbox/protocol-violation", stage, where, record.message or "broke the protocol", facts)]
    if record.variant == "outside" and record.cause != "SIGSYS":
        last = f", the one after {record.cases[-1].set!r}" if record.cases else ""
        message = f"{_named(record.cause) or record.ending} on an input outside the declared domain{last}"
        return [make("behaviour/probe-crash-outside", stage, where, message, facts)]
    if record.ending == "limit":
        code = _LIMITS.get(record.cause, "resources/other-limit")
        message = f"reached its {record.cause or 'unnamed'} limit{_limit(record, limits)} {reached}"
        return [make(code, stage, where, message, facts)]
    if record.cause == "SIGSYS":
        return [
            make("sandbox/forbidden-call", stage, where, f"killed for a forbidden system call {reached}", facts)
        ]
    code = "run/crash" if record.kind in {"run", "reference"} else "sandbox/job-crash"
    return [make(code, stage, where, f"died of {_named(record.cause) or 'an unknown cause'} {reached}", facts)]


def _named(cause: str) -> str:
    """Return a signal's name with what it means."""
    meaning = _SIGNALS.get(cause)
    return f"{cause} ({meaning})" if meaning else cause


def _reached(record: JobRecord) -> str:
    """Say in words how far a job came, by the last frame that arrived of it."""
    if not record.stage:
        return "before it said anything"
    if record.stage == "step" and record.steps:
        return f"after step {record.steps[-1].name!r} of loading"
    if record.stage == "case" and record.cases:
        return f"after it had answered {record.cases[-1].set!r}"
    return _REACHED.get(record.stage, f"after {record.stage!r}")


def _limit(record: JobRecord, limits: LimitsTable | None) -> str:
    """Return `` of <value> (<key of the policy>)`` for the limit that a job reached, empty where none is known."""
    if limits is None:
        return ""
    own = {"assets": "inspect", "reference": "run", "signature": "manifest"}.get(record.kind, record.kind)
    cpu = f"{own}_cpu_seconds"
    key = {
        "cpu": cpu,
        "wall": cpu,
        "memory": "memory_bytes" if own == "run" else "inspect_memory_bytes",
        "output": "output_bytes",
        "stderr": "stderr_bytes",
        "threads": "threads",
    }.get(record.cause, "")
    value = getattr(limits, key, None) if key else None
    if value is None:
        return ""
    if record.cause == "wall":
        return f" of {value * limits.wall_factor} s (limits.{key} times limits.wall_factor)"
    unit = {"seconds": " s", "bytes": " bytes"}.get(key.rpartition("_")[2], "")
    return f" of {value}{unit} (limits.{key})"


def _refused(record: JobRecord, stage: Stage, where: str) -> list[Finding]:
    refused = record.refused
    if refused is None:
        return [make("sandbox/protocol-violation", stage, where, "refused without a reason")]
    if record.variant == "unoptimised" and refused.code.startswith(("load/", "run/")) and refused.code in CODES:
        message = f"{refused.code}: {refused.message}"
        return [make("behaviour/unoptimised-failed", stage, f"{where}: {refused.where}", message)]
    return [from_job(refused.code, stage, f"{where}: {refused.where}", refused.message)]
