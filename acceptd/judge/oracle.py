"""What onnx's own evaluator shows beside onnxruntime: whether it is asked, what must agree, what it proved. Pure.

The evaluator has faults of its own, so that what it cannot do is told and is never the model's fault. A
disagreement counts only where it gave the output with the element type and shape that the run gave, which are
held against the declared ones elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from acceptd.evidence import Facts, JobRecord, OutputStats, Sealed
from acceptd.judge.agreement import TIE, Breach, apart
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import Inventory, run_files, take
from acceptd.judge.jobs import Jobs, ending
from acceptd.judge.tolerance import Resolved, promised
from acceptd.judge.words import make, printable
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy
from acceptd.policy.reference import Agreement

AGAINST: Final = "reference"
RANDOM: Final = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
PROBES: Final = tuple(f"probe:{name}" for name in ("draws-", "zeros", "ones", "low", "high", "mid", "dim"))
"""Beginnings of the names of probes that both make: draws, and bounds of the declared domain. What a run searches
for or varies by itself is known to no other process."""


def model_bytes(sealed: Sealed, files: Iterable[str]) -> int:
    """Return the size of a model with its external data, in bytes."""
    wanted = set(files)
    return sum(file.size for file in sealed.files if file.path in wanted)


def left_out(policy: Policy, facts: Facts, size: int) -> str:
    """Return why a model of ``size`` bytes is not evaluated, or an empty string.

    An evaluation costs time for each node and copies of all weights. What the file does not tell (the size of
    a dynamic dimension) is bounded by the job's own limits.
    """
    rules = policy.reference
    if not rules.enabled:
        return "switched off (reference.enabled)"
    drawn = sorted({use.op_type for use in facts.operators if use.domain == "ai.onnx"} & RANDOM)
    if drawn:
        return f"random numbers of {', '.join(drawn)} are no two times the same"
    cost = facts.cost
    if cost is None:
        return "its cost cannot be told from the file"
    if cost.steps > rules.max_steps:
        return f"{cost.steps} steps, reference.max_steps allows {rules.max_steps}"
    if size + cost.peak_bytes > rules.max_bytes:
        return (
            f"{size + cost.peak_bytes} bytes of weights and values, reference.max_bytes allows {rules.max_bytes}"
        )
    return ""


def tolerance(
    manifest: Manifest,
    model: str,
    output: OutputSpec | None,
    contract: Contract | None,
    policy: Policy,
    dtype: str,
) -> Resolved:
    """Return how far a run may lie from the evaluator: the policy's by kind, or what parity allows if more.

    What is declared of an output, within the caps of policy and contract, is how far any honest computation of
    it may lie from another.
    """
    held = promised(manifest, model, output, contract, policy, dtype)
    own = _by_kind(policy, output)
    top1 = None if held.top1 is None or own.top1 is None else min(held.top1, own.top1)
    rtol, atol = max(held.rtol, own.rtol), max(held.atol, own.atol)
    return Resolved(rtol, atol, top1, held.explicit, held.capped, held.limits)


def _by_kind(policy: Policy, output: OutputSpec | None) -> Agreement:
    rules = policy.reference
    kind = output.kind if output is not None else "values"
    return {"probabilities": rules.probabilities, "logits": rules.logits}.get(kind, rules.default)


@dataclass(frozen=True, slots=True)
class OutputProof:
    """One output over all inputs that both computed. ``inputs`` were compared, ``differing`` of them disagree."""

    output: str
    inputs: int
    elements: int
    max_abs: float | str
    top1_total: int
    top1_mismatches: int
    differing: int
    unlike: str
    """Why it could not be compared on some input (``shape``, ``dtype``, ...), else empty."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the evaluator showed of one model: how many inputs of each sort, of how many, and each output.

    ``reason`` says why there is nothing or less than all; empty where all was compared.
    """

    model: str
    reason: str
    sets: int
    of_sets: int
    draws: int
    of_draws: int
    outputs: tuple[OutputProof, ...]

    @property
    def silent(self) -> bool:
        """Whether no output was compared on any input."""
        return not any(one.inputs for one in self.outputs)

    def document(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self) | {"outputs": [asdict(one) for one in self.outputs]}


def proof(model: ModelSpec, jobs: Jobs, rows: Sequence[OutputStats], left: str) -> Proof:
    """Return what was proved of one model. ``rows`` are all statistics, ``left`` why it was not evaluated."""
    own = [row for row in rows if row.model == model.name and row.against == AGAINST]
    run, record = jobs.last("run", model), jobs.last("reference", model)
    vectors = jobs.last("vectors")
    known = vectors.vectors.sets if vectors is not None and vectors.vectors is not None else []
    golden = {one.name for one in known if one.model == model.name}
    drawn = {
        case.set
        for case in (run.cases if run is not None else [])
        if case.set.startswith(PROBES) and case.set not in golden and case.in_domain and case.outputs
    }
    compared = {row.set for row in own if row.comparable}
    return Proof(
        model=model.name,
        reason=left or _reason(record, golden | drawn, compared),
        sets=len(compared & golden),
        of_sets=len(golden),
        draws=len(compared & drawn),
        of_draws=len(drawn),
        outputs=tuple(_output(output, own) for output in model.outputs),
    )


def _reason(record: JobRecord | None, owed: set[str], compared: set[str]) -> str:
    if record is None:
        return "no job"
    if record.ending == "refused" and record.refused is not None:
        return f"{record.refused.where}: {record.refused.message}"
    if record.ending != "done":
        return f"ended by {record.cause or record.ending}"
    raised = next((case.error for case in record.cases if case.error), "")
    if raised:
        return raised
    if owed <= compared:
        return ""
    return "some inputs are beyond the budget, or have no output of one type and shape on both sides"


def _output(output: OutputSpec, rows: Sequence[OutputStats]) -> OutputProof:
    mine = [row for row in rows if row.output == output.name]
    fine = [row for row in mine if row.comparable]
    worst = max(fine, key=lambda row: _size(row.max_abs), default=None)
    return OutputProof(
        output=output.name,
        inputs=len(fine),
        elements=sum(row.n for row in fine),
        max_abs=worst.max_abs if worst is not None else 0.0,
        top1_total=sum(row.top1_total for row in fine),
        top1_mismatches=sum(row.top1_mismatches for row in fine),
        differing=sum(_differs(row, 1.0) for row in fine),
        unlike=next((row.note for row in mine if not row.comparable), ""),
    )


def _size(value: float | str) -> float:
    return math.inf if isinstance(value, str) else value


def _differs(row: OutputStats, top1: float | None) -> bool:
    """Say whether one output on one input disagrees; ``top1`` is the least share of rows that keep their class."""
    boxes = row.boxes  # those without a match have no element that could exceed
    shares = (boxes.share, boxes.class_share) if boxes is not None else ()
    if row.exceeding or any(share is not None and float(share) < 1 for share in shares):
        return True
    if top1 is None or not row.top1_mismatches or _size(row.max_abs) <= TIE:
        return False
    return 1.0 - row.top1_mismatches / max(row.top1_total, 1) < top1


def _whole(row: OutputStats, held: Resolved) -> list[Breach]:
    """Return the figures of the whole output that are broken: boxes without a match, tokens, angles, ratios."""
    return [one for one in apart(row, held) if one.figure != "elements"]


def findings(
    manifest: Manifest,
    jobs: Jobs,
    rows: Sequence[OutputStats],
    sealed: Sealed,
    contract: Contract | None,
    policy: Policy,
) -> Iterator[Finding]:
    """Yield what disagrees, and what could not be evaluated."""
    if not manifest.declared or not policy.reference.enabled:
        return
    facts, taken = jobs.facts(manifest), take(sealed, manifest)
    for model in manifest.models:
        if model.name not in facts or jobs.last("run", model) is None:
            continue
        files, _ = run_files(taken, model, facts[model.name])
        left = left_out(policy, facts[model.name], model_bytes(sealed, files))
        own = [row for row in rows if row.model == model.name and row.against == AGAINST and row.comparable]
        for output in model.outputs:
            mine = [row for row in own if row.output == output.name]
            held = tolerance(manifest, model.name, output, contract, policy, "")
            differing = [row for row in mine if _differs(row, held.top1) or _whole(row, held)]
            if differing:
                yield _disagrees(model, output, differing, len(mine), held)
        yield from _unavailable(model, proof(model, jobs, rows, left))


def _unavailable(model: ModelSpec, found: Proof) -> Iterator[Finding]:
    if found.silent:
        yield make("reference/unavailable", "run", model.name, found.reason or "nothing could be compared")
        return
    for one in found.outputs:
        if not one.inputs:
            message = f"evaluated with another {one.unlike}" if one.unlike else "not evaluated"
            yield make("reference/unavailable", "run", f"{model.name}: {one.output}", message)


def _disagrees(
    model: ModelSpec, output: OutputSpec, rows: Sequence[OutputStats], of: int, held: Resolved
) -> Finding:
    worst = max(rows, key=lambda row: (row.exceeding > 0, _size(row.max_abs)))
    message = f"on {len(rows)} of {of} inputs; worst on {printable(worst.set)} at {worst.worst_index[:16]}: "
    message += f"the evaluator gives {worst.worst_expected}, the run {worst.worst_got}"
    whole = _whole(worst, held)
    if whole:
        message = (
            f"on {len(rows)} of {of} inputs; on {printable(worst.set)} {'; '.join(one.text for one in whole)}"
        )
    mismatches = sum(row.top1_mismatches for row in rows)
    if mismatches:
        message += f"; {mismatches} of {sum(row.top1_total for row in rows)} rows have another top class"
    shows = {
        "set": worst.set,
        "index": worst.worst_index[:16],
        "reference": worst.worst_expected,
        "got": worst.worst_got,
        "max_abs": worst.max_abs,
        "rtol": worst.rtol,
        "atol": worst.atol,
        "top1_mismatches": mismatches,
        "inputs": [row.set for row in rows[:16]],
    }
    return make("reference/disagrees", "compare", f"{model.name}: {output.name}", message, shows)


def job_ending(record: JobRecord, *, superseded: bool) -> list[Finding]:
    """Return what the ending of a ``reference`` job means beside that nothing was evaluated: an attack alone.

    Crashes, limits and refusals are the evaluator's own. A job that breaks the protocol or makes a forbidden
    call is not the evaluator any more.
    """
    attack = record.ending == "violation" or (record.ending == "crash" and record.cause == "SIGSYS")
    return ending(record, superseded=superseded) if attack else []


def missing(manifest: Manifest, jobs: Jobs, sealed: Sealed, inventory: Inventory, policy: Policy) -> list[str]:
    """Return the models whose job was never carried out by us, for a policy that requires it.

    What the evaluator cannot do is an answer; a policy that wants more raises ``reference/unavailable``.
    """
    gaps = []
    facts = jobs.facts(manifest)
    for model in manifest.models:
        if model.name not in facts:
            continue  # that it was not inspected is told
        files, _ = run_files(inventory, model, facts[model.name])
        if left_out(policy, facts[model.name], model_bytes(sealed, files)):
            continue
        record = jobs.last("reference", model)
        if record is None:
            gaps.append(f"reference {model.name}: no job")
        elif record.ending in {"lost", "unavailable"}:
            gaps.append(f"reference {model.name}: ended by {record.ending}")
    return gaps
