"""Goldens: which expected value belongs to which output, and what the statistics say. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from acceptd.evidence import OutputStats, TensorRef, Vectors
from acceptd.judge.agreement import Breach, breaches
from acceptd.judge.finding import Finding
from acceptd.judge.goldens import expected_names as expected_names
from acceptd.judge.goldens import fed as fed
from acceptd.judge.goldens import unchecked_output
from acceptd.judge.jobs import Jobs
from acceptd.judge.tolerance import RANKED as RANKED
from acceptd.judge.tolerance import Resolved as Resolved
from acceptd.judge.tolerance import promised
from acceptd.judge.tolerance import tolerance as tolerance
from acceptd.judge.words import make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy


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
                spec = outputs.get(name)
                said = spec.tolerance.limits if spec is not None and spec.tolerance is not None else {}
                cut = [
                    f"{limit} {held.limits[limit]:g}" for limit in said if held.limits.get(limit) != said[limit]
                ]
                used = ", ".join([f"rtol {held.rtol:g}", f"atol {held.atol:g}", *cut])
                message = f"bundle.toml asks for wider bounds than are allowed; {used} were used"
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


def forms(manifest: Manifest, vectors: Vectors | None, jobs: Jobs) -> dict[tuple[str, str, str], str]:
    """Return, by model, set and output, which form was expected and which the run gave, for a person to read.

    Both are the jobs' words: they explain a finding and decide none.
    """
    models = {model.name: model for model in manifest.models}
    found: dict[tuple[str, str, str], str] = {}
    for golden in vectors.sets if vectors is not None else ():
        model = models.get(golden.model)
        run = jobs.last("run", model) if model is not None else None
        names = expected_names(golden, model) if model is not None else None
        if run is None or names is None:
            continue
        given = {one.name: one.value for case in run.cases if case.set == golden.name for one in case.outputs}
        for name, expected in zip(names, golden.expected, strict=False):
            if name in given:
                words = f": {_form(given[name])} instead of {_form(expected.value)}"
                found[golden.model, golden.name, name] = words
    return found


def _form(value: object) -> str:
    return (
        f"{value.dtype} {value.shape}" if isinstance(value, TensorRef) else f"a {getattr(value, 'kind', 'value')}"
    )


def parity(
    manifest: Manifest,
    rows: Sequence[OutputStats],
    policy: Policy,
    contract: Contract | None = None,
    told: Mapping[tuple[str, str, str], str] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Yield what the statistics of goldens say, with the worst element of each output that fails.

    ``told``: what :func:`forms` says; a finding of another shape, type or kind names both.
    """
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
            if code == "parity/malformed":
                message = f"its values cannot be compared: {message}"
            form = told.get((row.model, row.set, row.output), "") if row.note in {"shape", "dtype", "kind"} else ""
            yield make(code, "compare", where, f"{message}{form}", _shows(row))
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
            message = "no run of a golden set gave a finite element of this output"
            yield unchecked_output(model, output, message, policy)


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
        message = f"values outside [0, 1] or rows whose sum is not 1: {row.range_violations}"
        yield make("parity/not-probabilities", "compare", where, message, _shows(row))
    ranked = 0 < row.top1_total < row.n  # a row of one element has its class by its sign alone
    calm = ranked and not row.top1_mismatches and isinstance(row.max_abs, int | float)
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
