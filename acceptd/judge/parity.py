"""Goldens: which expected value belongs to which output, and what the statistics say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acceptd.evidence import OutputStats, TensorRef, Vectors, VectorSet
from acceptd.judge.agreement import Breach, breaches
from acceptd.judge.finding import Finding
from acceptd.judge.interface import shape_fault
from acceptd.judge.inventory import Inventory, is_output
from acceptd.judge.tolerance import RANKED as RANKED
from acceptd.judge.tolerance import Resolved as Resolved
from acceptd.judge.tolerance import promised
from acceptd.judge.tolerance import tolerance as tolerance
from acceptd.judge.words import from_job, make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import InputSpec, Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy


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


_CODES: dict[str, str] = {
    "elements": "parity/mismatch",
    "top1": "parity/class-changed",
    "min_topk": "parity/class-changed",
    "range": "parity/not-probabilities",
    "max_sum_error": "parity/not-probabilities",
    "max_divergence": "parity/divergence",
    "min_cosine": "parity/embedding",
    "max_norm_error": "parity/embedding",
    "min_neighbours": "parity/embedding",
    "min_iou": "parity/boxes",
    "min_matched": "parity/boxes",
    "min_classes": "parity/boxes",
    "max_score_error": "parity/boxes",
    "tokens": "parity/sequence",
    "end": "parity/sequence",
    "min_snr_db": "parity/audio",
    "max_lsd_db": "parity/audio",
}
"""The finding of each figure (:class:`acceptd.judge.agreement.Breach`)."""


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
        held = promised(manifest, row.model, output, contract, policy)
        yield from _golden(row, held, where, _drift(output, held, contract, policy))
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


def _drift(output: OutputSpec | None, held: Resolved, contract: Contract | None, policy: Policy) -> float:
    """Return how far logits may drift while every row keeps its class; -1 where they may not."""
    if output is None or output.kind != "logits" or held.explicit:
        return -1.0
    most = policy.parity.max_atol
    return most if contract is None or contract.max_atol is None else min(most, contract.max_atol)


def _golden(row: OutputStats, held: Resolved, where: str, drift: float) -> Iterator[Finding]:
    """Yield one finding for each code: of several figures under one code the first decides the message."""
    found: dict[str, list[Breach]] = {}
    for breach in breaches(row, held):
        found.setdefault(_CODES[breach.figure], []).append(breach)
    if row.range_violations and row.distribution is None:  # evidence from before there was a distribution
        message = f"{row.range_violations} values outside [0, 1] or rows whose sum is not 1"
        yield make("parity/not-probabilities", "compare", where, message, _shows(row))
    calm = row.top1_total > 0 and not row.top1_mismatches and isinstance(row.max_abs, int | float)
    for code, broken in found.items():
        text = "; ".join(one.text for one in broken)
        if code == "parity/mismatch" and calm and isinstance(row.max_abs, int | float) and row.max_abs <= drift:
            yield make("parity/drift", "compare", where, f"every row keeps its class; {text}", _shows(row))
        else:
            yield make(code, "compare", where, text, _shows(row, broken))


def _shows(row: OutputStats, broken: Sequence[Breach] = ()) -> dict[str, Any]:
    """Return the evidence of one output: set, output, counts, and the worst element of what is broken."""
    shown = {
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
    if broken and broken[0].figure != "elements" and broken[0].place.index:
        shown |= {key: value for key, value in broken[0].shown().items() if key in {"index", "expected", "got"}}
    return shown | ({"broken": [one.shown() for one in broken]} if broken else {})
