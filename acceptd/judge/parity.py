"""Goldens: which tolerance holds, which expected value belongs to which output, what the statistics say. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acceptd.evidence import OutputStats, TensorRef, Vectors, VectorSet
from acceptd.judge.finding import Finding
from acceptd.judge.infer import TOLERANCE as INFERRED
from acceptd.judge.interface import shape_fault
from acceptd.judge.inventory import Inventory, is_output
from acceptd.judge.words import from_job, make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import InputSpec, Manifest, ModelSpec, OutputSpec, Tolerance
from acceptd.policy.policy import Policy

BFLOAT16_RTOL = 2.0**-6
"""Two units in the last place of bfloat16, as onnx's own backend-test runner takes."""

RANKED = frozenset({"logits", "probabilities"})
"""Kinds whose rows (along the last axis) have a top class."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The tolerance that holds. ``explicit``: the submitter or the set declared it; ``capped``: it was cut."""

    rtol: float
    atol: float
    top1: float | None
    explicit: bool
    capped: bool


def tolerance(
    manifest: Manifest,
    output: OutputSpec | None,
    golden: VectorSet,
    contract: Contract | None,
    policy: Policy,
    dtype: str,
) -> Resolved:
    """Return the tolerance for one output of one golden set.

    Order: the manifest's own, else the set's (``data.json``), else onnx's defaults for an inferred
    manifest, else the policy's for the kind. The policy's and the contract's caps bound what a
    submitter declares; bfloat16 without a declared tolerance gets at least 2^-6 relative, where no
    contract says less. An output's own tolerance in the contract is a cap too.
    """
    kind = output.kind if output is not None else "values"
    usual = {"probabilities": policy.parity.probabilities, "logits": policy.parity.logits}.get(
        kind, policy.parity.default
    )
    explicit = False
    if output is not None and output.tolerance is not None:
        chosen, explicit = output.tolerance, True
    else:
        chosen = usual if manifest.declared else INFERRED
        if golden.rtol is not None or golden.atol is not None:
            explicit = True
            rtol = chosen.rtol if golden.rtol is None else golden.rtol
            chosen = Tolerance(rtol=min(rtol, 1.0), atol=chosen.atol if golden.atol is None else golden.atol)
    most = _caps(contract, golden.model, output)
    rtol = min(chosen.rtol, policy.parity.max_rtol, most.rtol)
    atol = min(chosen.atol, policy.parity.max_atol, most.atol)
    top1 = _least_top1(output, most, policy) if output is not None and kind in RANKED else None
    declared = output.tolerance.top1 if output is not None and output.tolerance is not None else None
    capped = explicit and (
        rtol < chosen.rtol or atol < chosen.atol or (None not in {declared, top1} and declared != top1)
    )
    if dtype == "bfloat16" and (output is None or output.tolerance is None):
        rtol = min(max(rtol, BFLOAT16_RTOL), most.rtol)
    return Resolved(rtol, atol, top1, explicit, capped)


@dataclass(frozen=True, slots=True)
class _Caps:
    """What a contract allows at most for one output, and the least share of rows that keep their top class."""

    rtol: float = math.inf
    atol: float = math.inf
    top1: float = 0.0


def _caps(contract: Contract | None, model: str, output: OutputSpec | None) -> _Caps:
    if contract is None:
        return _Caps()
    rtol = math.inf if contract.max_rtol is None else contract.max_rtol
    atol = math.inf if contract.max_atol is None else contract.max_atol
    outputs = next((one.outputs for one in contract.models if one.name == model), [])
    agreed = next((one.tolerance for one in outputs if output is not None and one.name == output.name), None)
    if agreed is None:
        return _Caps(rtol, atol)
    return _Caps(min(rtol, agreed.rtol), min(atol, agreed.atol), agreed.top1 or 0.0)


def _least_top1(output: OutputSpec, most: _Caps, policy: Policy) -> float:
    """Return the least share of rows that keep their top class: what is declared, within policy and contract."""
    usual = policy.parity.logits.top1 if output.kind == "logits" else policy.parity.probabilities.top1
    own = output.tolerance.top1 if output.tolerance is not None else None
    least = max(own, policy.parity.min_top1) if own is not None else (1.0 if usual is None else usual)
    return max(least, most.top1)


def expected_names(golden: VectorSet, model: ModelSpec) -> list[str] | None:
    """Return the output name of each expected value; None where they cannot be assigned.

    By name where every value names an output, each once; by position where none does (backend-test
    files usually carry no names). A mixture is not guessed at.
    """
    outputs = [output.name for output in model.outputs]
    names = [named.name for named in golden.expected]
    known = [name in outputs for name in names]
    if names and all(known):
        return names if len(set(names)) == len(names) else None
    if any(known) or len(names) > len(outputs):
        return None
    return outputs[: len(names)]


def fed(golden: VectorSet, model: ModelSpec) -> Iterator[tuple[InputSpec, TensorRef]]:
    """Yield the tensors of a golden set with the inputs that they feed: by name, else by position."""
    inputs = {value.name: value for value in model.inputs}
    for index, named in enumerate(golden.inputs):
        spec = inputs.get(named.name) or (model.inputs[index] if index < len(model.inputs) else None)
        if spec is not None and isinstance(named.value, TensorRef):
            yield spec, named.value


def goldens(manifest: Manifest, inventory: Inventory, policy: Policy) -> Iterator[Finding]:
    """Yield what is wrong with the golden sets before any of them is read."""
    for path in inventory.overlaps:
        yield make("manifest/vectors-overlap", "manifest", path, "a golden-vector pattern covers this file")
    for name, pattern in inventory.empty_patterns:
        message = f"no golden set matches {pattern!r}"
        yield make("vectors/pattern-empty", "vectors", f"models.{name}.vectors: {pattern}", message)
    for directory in inventory.smoke:
        message = "inputs without an expected output: nothing is compared"
        yield make("vectors/smoke-only", "vectors", directory, message)
    owners = {one.model for one in inventory.sets}
    for model in manifest.models:
        if model.name not in owners:
            code = "vectors/missing" if policy.vectors.required else "vectors/none"
            message = f"model {model.name!r} has no golden set"
            yield make(code, "vectors", f"models.{model.name}", message)
        for spec in model.vectors:
            if "onnxruntime" in spec.origin.lower():
                where = f"models.{model.name}.vectors"
                yield make("vectors/self-made", "vectors", where, f"origin is {spec.origin!r}")


def decoded(manifest: Manifest, inventory: Inventory, vectors: Vectors, policy: Policy) -> Iterator[Finding]:
    """Yield what the ``vectors`` job shows; the trusted side knows which sets there must be."""
    for problem in vectors.problems:
        yield from_job_vectors(problem.code, problem.where, problem.message)
    models = {model.name: model for model in manifest.models}
    ordered = {(one.model, one.name): one for one in inventory.sets}
    seen: set[tuple[str, str]] = set()
    covered: dict[str, set[str]] = {}
    for golden in vectors.sets:
        where = f"{golden.model}: {golden.name}"
        key = (golden.model, golden.name)
        if key not in ordered or key in seen:
            message = "the vectors job reported a set that was never ordered, or one set twice"
            yield make("sandbox/protocol-violation", "vectors", where, message)
            continue
        seen.add(key)
        if manifest.declared:
            yield from _outside(golden, models[golden.model], manifest, where)
        names = expected_names(golden, models[golden.model])
        files = ordered[key].files
        if files and golden.expected and len(golden.expected) != sum(is_output(path) for path in files):
            message = f"{len(golden.expected)} expected values, but the set has another number of output files"
            yield make("sandbox/protocol-violation", "vectors", where, message)
        elif not golden.expected:
            yield make("vectors/empty-set", "vectors", where, "the set has no expected output")
        elif names is not None:
            covered.setdefault(golden.model, set()).update(names)
        else:
            message = "expected values cannot be assigned to outputs by name or by position"
            given = [named.name for named in golden.expected][:16]
            shows = {"expected": given, "outputs": [one.name for one in models[golden.model].outputs][:16]}
            yield make("vectors/unpaired", "vectors", where, message, shows)
    if manifest.declared:
        for name, expected in covered.items():
            yield from _unchecked(models[name], expected, policy)


def _outside(golden: VectorSet, model: ModelSpec, manifest: Manifest, where: str) -> Iterator[Finding]:
    """The runtime takes any batch silently; the loader will not, so a golden may not need one either."""
    bound: dict[str, int] = {}
    for spec, value in fed(golden, model):
        fault = shape_fault(spec.shape, value.shape, manifest.dims, bound) if spec.shape is not None else ""
        if fault:
            shows = {"declared": list(spec.shape or ()), "got": list(value.shape)}
            yield make("vectors/input-shape", "vectors", f"{where}: {spec.name}", fault, shows)


def _unchecked(model: ModelSpec, covered: set[str], policy: Policy) -> Iterator[Finding]:
    """An output that no golden set expects may give anything; that is a hold where goldens are required."""
    for output in model.outputs:
        if output.name not in covered:
            yield _unchecked_output(model, output, "no golden set has an expected value of this output", policy)


def _unchecked_output(model: ModelSpec, output: OutputSpec, message: str, policy: Policy) -> Finding:
    finding = make("vectors/output-unchecked", "vectors", f"{model.name}: {output.name}", message)
    return finding if policy.vectors.required else finding.model_copy(update={"severity": "warn"})


def from_job_vectors(code: str, where: str, message: str) -> Finding:
    """Return the finding for a problem of the ``vectors`` job."""
    return from_job(code, "vectors", where, message)


def capped(manifest: Manifest, vectors: Vectors, contract: Contract | None, policy: Policy) -> Iterator[Finding]:
    """Yield one finding per output whose declared tolerance was cut."""
    models = {model.name: model for model in manifest.models}
    for golden in vectors.sets:
        model = models.get(golden.model)
        names = expected_names(golden, model) if model is not None else None
        if model is None or names is None:
            continue
        outputs = {output.name: output for output in model.outputs}
        for name, named in zip(names, golden.expected, strict=True):
            dtype = named.value.dtype if isinstance(named.value, TensorRef) else ""
            held = tolerance(manifest, outputs.get(name), golden, contract, policy, dtype)
            if held.capped:
                message = f"rtol {held.rtol:g} and atol {held.atol:g} were used"
                yield make("parity/tolerance-capped", "compare", f"{model.name}: {name}", message)


_NOTES: dict[str, tuple[str, str]] = {
    "missing": ("parity/output-missing", "the run gave no such output"),
    "shape": ("parity/shape", "another shape or length than expected"),
    "dtype": ("parity/dtype", "another element type than expected"),
    "kind": ("parity/kind", "another kind of value than expected"),
}


def parity(
    manifest: Manifest, rows: Sequence[OutputStats], policy: Policy, contract: Contract | None = None
) -> Iterator[Finding]:
    """Yield what the statistics of goldens say, with the worst element of each output that fails."""
    outputs: Mapping[tuple[str, str], OutputSpec] = {
        (model.name, output.name): output for model in manifest.models for output in model.outputs
    }
    for row in rows:
        if row.against != "golden":
            continue
        output = outputs.get((row.model, row.output))
        where = f"{row.model}: {row.set}: {row.output}"
        if not row.comparable:
            code, message = _NOTES.get(row.note, ("parity/malformed", row.note or "not comparable"))
            yield make(code, "compare", where, message, _shows(row))
            continue
        yield from _golden(row, output, where, policy, _caps(contract, row.model, output))
    for model in manifest.models if manifest.declared else ():
        own = [row for row in rows if row.against == "golden" and row.model == model.name]
        if own and all(row.comparable and not row.n for row in own):
            message = "no golden of this model has a single element: they test nothing"
            yield make("vectors/insensitive", "compare", model.name, message)
        else:
            yield from _empty(model, own, policy)


def _empty(model: ModelSpec, rows: Sequence[OutputStats], policy: Policy) -> Iterator[Finding]:
    """An output whose goldens all have no element, or none that is finite, is as good as unchecked."""
    for output in model.outputs:
        own = [row for row in rows if row.output == output.name]
        if own and all(row.comparable and row.non_finite >= row.n for row in own):
            message = "no golden set has a single finite element of this output"
            yield _unchecked_output(model, output, message, policy)


def _golden(
    row: OutputStats, output: OutputSpec | None, where: str, policy: Policy, most: _Caps
) -> Iterator[Finding]:
    kind = output.kind if output is not None else "values"
    if kind == "probabilities" and row.range_violations:
        message = f"{row.range_violations} values outside [0, 1] or rows whose sum is not 1 within 1e-4"
        yield make("parity/not-probabilities", "compare", where, message, _shows(row))
    if _classes_differ(row, output, policy, most):
        message = f"{row.top1_mismatches} of {row.top1_total} rows have another top class than expected"
        yield make("parity/class-changed", "compare", where, message, _shows(row))
    if row.exceeding:
        declared = output is not None and output.tolerance is not None
        calm = kind == "logits" and not declared and not row.top1_mismatches and row.top1_total > 0
        drift = min(policy.parity.max_atol, most.atol)
        if calm and isinstance(row.max_abs, int | float) and row.max_abs <= drift:
            yield make("parity/drift", "compare", where, f"every row keeps its class; {_worst(row)}", _shows(row))
        else:
            yield make("parity/mismatch", "compare", where, _worst(row), _shows(row))


def _classes_differ(row: OutputStats, output: OutputSpec | None, policy: Policy, most: _Caps) -> bool:
    if output is None or output.kind not in RANKED or not row.top1_mismatches:
        return False
    least = _least_top1(output, most, policy)
    return row.top1_total == 0 or 1.0 - row.top1_mismatches / row.top1_total < least


def _worst(row: OutputStats) -> str:
    return (
        f"{row.exceeding} of {row.n} elements beyond atol {row.atol:g} + rtol {row.rtol:g}; "
        f"worst at {row.worst_index}: expected {row.worst_expected}, got {row.worst_got}"
    )


def _shows(row: OutputStats) -> dict[str, Any]:
    """Return the evidence of one output: set, output, counts, and the worst element."""
    return {
        "set": row.set,
        "output": row.output,
        "n": row.n,
        "exceeding": row.exceeding,
        "max_abs": row.max_abs,
        "max_rel": row.max_rel,
        "rtol": row.rtol,
        "atol": row.atol,
        "index": row.worst_index[:16],
        "expected": row.worst_expected,
        "got": row.worst_got,
        "note": row.note,
    }
