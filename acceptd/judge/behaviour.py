"""How the model behaves when it runs: outputs as declared, repeats, optimisation, probes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acceptd.evidence import Case, JobRecord, Named, OutputStats, SequenceRef, TensorRef, Vectors
from acceptd.judge import relations
from acceptd.judge.agreement import apart, breaches
from acceptd.judge.finding import Finding
from acceptd.judge.interface import shape_fault
from acceptd.judge.jobs import place
from acceptd.judge.parity import RANKED, fed
from acceptd.judge.stages import required_cases
from acceptd.judge.tolerance import promised
from acceptd.judge.words import from_job, make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import DimBounds, Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy

PROBE = "probe:"


def cases(manifest: Manifest, model: ModelSpec, record: JobRecord, vectors: Vectors | None) -> Iterator[Finding]:
    """Yield what the inferences of one run show, beside what the comparer measures."""
    owed = required_cases(model, vectors)
    sizes = _golden_sizes(model, vectors)
    seen: set[tuple[str, int]] = set()
    ranged = any(one.range is not None for one in model.inputs)
    for case in record.cases:
        where = f"{place(record)}: {case.set}"
        key = (case.set, case.repeat)
        probe = case.set.startswith(PROBE) and key not in owed
        second = record.variant == "unoptimised" and manifest.declared
        relation = second and case.set.startswith(relations.META) and key not in owed
        if vectors is None and not (probe or relation):
            continue  # what was ordered is not known; the missing stage decides
        if (not (probe or relation) and key not in owed) or key in seen:
            yield make(
                "run/unexpected-case", "run", where, f"repeat {case.repeat} was never ordered, or came twice"
            )
            continue
        seen.add(key)
        for problem in case.problems:
            if probe and not (case.in_domain and manifest.declared):
                continue  # nobody promised anything there
            yield from_job(problem.code, "run", f"{where}: {problem.where}", problem.message)
        if relation:
            yield from relations.cases(record, case)
        elif probe and case.error and record.variant == "unoptimised":
            yield _failed(record, where, case)
        elif probe:
            yield from _probe(manifest, model, case, where, ranged=ranged)
        elif case.error:
            yield _failed(record, where, case)
        elif manifest.declared:
            yield from _outputs(manifest, model, case, where, sizes.get(case.set, {}))


def _failed(record: JobRecord, where: str, case: Case) -> Finding:
    if record.variant == "unoptimised":
        return make("behaviour/unoptimised-failed", "run", where, case.error)
    return make("run/failed", "run", where, case.error)


def _probe(manifest: Manifest, model: ModelSpec, case: Case, where: str, *, ranged: bool) -> Iterator[Finding]:
    """In-domain means: a person declared it. A job's own word counts only for a declared manifest."""
    inside = case.in_domain and manifest.declared
    if case.error:
        code = "behaviour/probe-error" if inside else "behaviour/probe-error-outside"
        yield make(code, "run", where, case.error)
        return
    if not inside:
        return
    if case.finite is False and ranged:
        message = "an input inside the declared ranges gave an output that is not finite"
        yield make("behaviour/probe-non-finite", "run", where, message)
    yield from _outputs(manifest, model, case, where, {})


def _golden_sizes(model: ModelSpec, vectors: Vectors | None) -> dict[str, dict[str, int]]:
    """Return by set what the golden inputs bind the declared dimension names to."""
    result: dict[str, dict[str, int]] = {}
    for golden in vectors.sets if vectors is not None else []:
        if golden.model != model.name:
            continue
        bound: dict[str, int] = {}
        for spec, value in fed(golden, model):
            for dim, size in zip(spec.shape or (), value.shape, strict=False):
                if isinstance(dim, str) and dim != "?":
                    bound.setdefault(dim, size)
        result[golden.name] = bound
    return result


def _outputs(
    manifest: Manifest, model: ModelSpec, case: Case, where: str, sizes: dict[str, int]
) -> Iterator[Finding]:
    """Hold the outputs of one inference against the declared ones: number, names, dtype, shape."""
    names = [output.name for output in model.outputs]
    given = [named.name for named in case.outputs]
    if names != given and (any(given) or len(given) != len(names)):
        message = f"declared {names[:16]}, the run gave {given[:16]}"
        yield make("behaviour/output-count", "run", where, message)
        return
    bound = dict(sizes)
    for output, named in zip(model.outputs, case.outputs, strict=True):
        yield from _output(output, named, manifest.dims, bound, f"{where}: {output.name}")


def _output(
    output: OutputSpec, named: Named, dims: dict[str, DimBounds], bound: dict[str, int], where: str
) -> Iterator[Finding]:
    value = named.value
    kind = value.kind
    if kind != output.type and output.type != "optional":
        yield make("behaviour/output-dtype", "run", where, f"declared is a {output.type}, the run gave a {kind}")
        return
    if isinstance(value, SequenceRef):
        wrong = {item.dtype for item in value.items if isinstance(item, TensorRef)} - {output.dtype}
        if wrong:
            message = f"declared is a sequence of {output.dtype}, the run gave {', '.join(sorted(wrong))}"
            yield make("behaviour/output-dtype", "run", where, message)
        return
    if not isinstance(value, TensorRef):
        return
    if value.dtype != output.dtype:
        yield make("behaviour/output-dtype", "run", where, f"declared {output.dtype}, the run gave {value.dtype}")
    if output.shape is None:
        return
    fault = shape_fault(output.shape, value.shape, dims, bound)
    if fault:
        shows = {"declared": list(output.shape), "got": list(value.shape)}
        yield make("behaviour/output-shape", "run", where, fault, shows)


def comparisons(
    manifest: Manifest,
    rows: Sequence[OutputStats],
    insensitive: Sequence[str],
    contract: Contract | None,
    policy: Policy,
) -> Iterator[Finding]:
    """Yield what repeats, the run without optimisation, probes and constant outputs say."""
    outputs = {(model.name, output.name): output for model in manifest.models for output in model.outputs}
    for row in rows:
        where = f"{row.model}: {row.set}: {row.output}"
        shows = {
            "max_abs": row.max_abs,
            "index": row.worst_index[:16],
            "first": row.worst_expected,
            "second": row.worst_got,
        }
        if row.against == "repeat" and (not row.comparable or row.exceeding):
            message = row.note or f"{row.exceeding} of {row.n} elements differ between two runs on one input"
            yield make("behaviour/nondeterministic", "compare", where, message, shows)
        elif row.against == "probe" and row.comparable and row.range_violations:
            message = f"values outside [0, 1] or rows whose sum is not 1: {row.range_violations}"
            yield make("behaviour/probe-not-probabilities", "compare", where, message, {"n": row.n})
        elif row.against == "unoptimised":
            golden = not row.set.startswith(PROBE)  # a class that changes on noise says little
            output = outputs.get((row.model, row.output))
            held = promised(manifest, row.model, output, contract, policy)
            told = [one for one in breaches(row, held) if one.figure != "top1"]
            broken = told if golden else apart(row, held)
            if golden and row.comparable and row.top1_mismatches and output is not None and output.kind in RANKED:
                message = f"{row.top1_mismatches} of {row.top1_total} rows change their top class"
                yield make("behaviour/optimisation-class-change", "compare", where, message, shows)
            elif not row.comparable or broken:
                message = "; ".join(one.text for one in broken) or row.note
                yield make("behaviour/optimisation-differs", "compare", where, message, shows)
    yield from _constant(manifest, insensitive)


def _constant(manifest: Manifest, insensitive: Sequence[str]) -> Iterator[Finding]:
    """A model none of whose outputs depends on its input holds; anchors or shapes among others are told."""
    message = "the same output for all different inputs that were tried"
    for model in manifest.models:
        names = [f"{model.name}: {output.name}" for output in model.outputs]
        whole = manifest.declared and bool(names) and set(names) <= set(insensitive)
        for spot in (name for name in names if name in insensitive):
            finding = make("vectors/insensitive", "compare", spot, message)
            yield finding if whole else finding.model_copy(update={"severity": "info"})
