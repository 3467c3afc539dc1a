"""Golden sets before anything runs: which there are, of what origin, what was decoded and what not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from acceptd.evidence import TensorRef, Vectors, VectorSet
from acceptd.judge.finding import Finding
from acceptd.judge.golden_sets import SetFiles, labelled_output, shown_by
from acceptd.judge.interface import shape_fault
from acceptd.judge.inventory import Inventory, is_output
from acceptd.judge.words import from_job, make
from acceptd.policy.manifest import InputSpec, Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy


def placed(names: Sequence[str], known: Sequence[str]) -> list[str] | None:
    """Return the known name of each value: its own, else that of its position; None where that is not clear.

    So onnx_test_runner reads a set: the name in a file counts, and a file without one goes by its number.
    Where no name is known at all, positions count. A mixture of known and strange names is not guessed at.
    """
    own = [name in known for name in names]
    if not any(own):
        return list(known[: len(names)]) if len(names) <= len(known) else None
    if any(name and not fits for name, fits in zip(names, own, strict=True)):
        return None
    if any(not name and index >= len(known) for index, name in enumerate(names)):
        return None
    found = [name or known[index] for index, name in enumerate(names)]
    return found if len(set(found)) == len(found) else None


def expected_names(golden: VectorSet, model: ModelSpec) -> list[str] | None:
    """Return the output name of each expected value; None where they cannot be assigned (see :func:`placed`)."""
    return placed([named.name for named in golden.expected], [output.name for output in model.outputs])


def fed(golden: VectorSet, model: ModelSpec) -> Iterator[tuple[InputSpec, TensorRef]]:
    """Yield the tensors of a golden set with the inputs that they feed, as the run assigns them."""
    inputs = {value.name: value for value in model.inputs}
    names = placed([named.name for named in golden.inputs], list(inputs)) or list(inputs)
    for name, named in zip(names, golden.inputs, strict=False):
        if isinstance(named.value, TensorRef):
            yield inputs[name], named.value


def goldens(manifest: Manifest, inventory: Inventory, policy: Policy) -> Iterator[Finding]:
    """Yield what is wrong with the golden sets before any of them is read."""
    for path in inventory.overlaps:
        yield make("manifest/vectors-overlap", "manifest", path, "a golden-vector pattern covers this file")
    for name, pattern in inventory.empty_patterns:
        message = f"no golden set matches {pattern!r}"
        yield make("vectors/pattern-empty", "vectors", f"models.{name}.vectors: {pattern}", message)
    measured = {one.name for one in inventory.sets if one.labels}
    for name in inventory.smoke:
        only = "answers are measured by its labels, and nothing is compared"
        message = f"inputs without an expected output: {only if name in measured else 'nothing is compared'}"
        finding = make("vectors/smoke-only", "vectors", name, message)
        yield finding.model_copy(update={"severity": "info"}) if name in measured else finding
    for model in manifest.models:
        own = [one for one in inventory.sets if one.model == model.name]
        compared = [one for one in own if not one.smoke]
        if not compared:
            yield _none(model, policy, smoke=bool(own))
        yield from _origins(model, compared, policy)
        for one in own:
            if policy.vectors.separate and one.legacy:
                message = "inputs and expected values stand in one file, and the policy has them decoded apart"
                yield make("vectors/not-separable", "vectors", f"{model.name}: {one.name}", message)
            if one.labels and labelled_output(one, model) is None:
                message = "which output the labels are about is not clear: name it as labelled_output"
                yield make("vectors/labels-invalid", "vectors", f"{model.name}: {one.name}", message)
    present = {*inventory.vectors, *inventory.others}
    for one in inventory.unlabelled:
        for path in (one.labels, one.slices):
            if path and path not in inventory.vectors:
                where = f"{one.model}: {one.name}"
                yield make("vectors/labels-missing", "vectors", where, f"no file {path!r} in the bundle")
    yield from _fixtures(manifest, inventory, present)


def _none(model: ModelSpec, policy: Policy, *, smoke: bool) -> Finding:
    code = "vectors/missing" if policy.vectors.required else "vectors/none"
    message = f"model {model.name!r} has no golden set" + (", only smoke inputs" if smoke else "")
    return make(code, "vectors", f"models.{model.name}", message)


def _origins(model: ModelSpec, sets: Sequence[SetFiles], policy: Policy) -> Iterator[Finding]:
    """Yield what the origins of a model's golden sets, as declared, do not show."""
    where = f"models.{model.name}.vectors"
    origins = list(dict.fromkeys(one.origin for one in sets))
    for origin in origins:
        if shown_by(origin) == "regression":
            yield make("vectors/self-made", "vectors", where, f"origin is {origin!r}")
    if policy.vectors.require_origin is False or not sets:
        return
    counted = [one for one in sets if _counts(one, policy)]
    for origin in origins:
        names = [one.name for one in sets if one.origin == origin]
        shows = {"sets": names[:16], "count": len(names)}
        if shown_by(origin) == "undeclared":
            message = (
                f"{len(names)} golden sets, first {names[0]!r}, do not say where their expected values come from"
            )
            yield make("vectors/origin-undeclared", "vectors", where, message, shows)
        elif shown_by(origin) == "parity" and not _accepted(origin, policy):
            message = f"origin {origin!r} is none that policy {policy.name} accepts"
            yield make("vectors/origin-not-accepted", "vectors", where, message, shows)
    if not counted and all(shown_by(origin) == "regression" for origin in origins):
        message = f"all golden sets of model {model.name!r} were made by onnxruntime itself"
        yield make("vectors/regression-only", "vectors", where, message, {"sets": [one.name for one in sets][:16]})


def _accepted(origin: str, policy: Policy) -> bool:
    wanted = policy.vectors.require_origin
    return isinstance(wanted, bool) or any(fnmatchcase(origin.lower(), one.lower()) for one in wanted)


def _counts(one: SetFiles, policy: Policy) -> bool:
    """Say whether a set may show parity under this policy."""
    if policy.vectors.require_origin is False:
        return True
    return shown_by(one.origin) == "parity" and _accepted(one.origin, policy)


def _fixtures(manifest: Manifest, inventory: Inventory, present: set[str]) -> Iterator[Finding]:
    """A fixture's raw file and its set must be there; whether the tensors were made of it, nobody can tell."""
    preprocessing = manifest.preprocessing
    for number, one in enumerate(preprocessing.fixtures if preprocessing is not None else []):
        where = f"preprocessing.fixtures[{number}]"
        if one.raw not in present:
            yield make("vectors/fixture-missing", "vectors", where, f"no file {one.raw!r} in the bundle")
        owners = [files.model for files in inventory.sets if files.name == one.set]
        if not owners or (one.model is not None and one.model not in owners):
            yield make("vectors/fixture-missing", "vectors", where, f"no golden or smoke set {one.set!r}")


def decoded(manifest: Manifest, inventory: Inventory, vectors: Vectors, policy: Policy) -> Iterator[Finding]:
    """Yield what the ``vectors`` job shows; the trusted side knows which sets there must be."""
    for problem in vectors.problems:
        yield from_job(problem.code, "vectors", problem.where, problem.message)
    models = {model.name: model for model in manifest.models}
    ordered = {(one.model, one.name): one for one in inventory.sets}
    seen: set[tuple[str, str]] = set()
    covered: dict[str, set[str]] = {}
    empty: set[str] = set()
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
        fault = _another(golden, ordered[key])
        if fault:
            yield make("sandbox/protocol-violation", "vectors", where, fault)
        elif not golden.expected and ordered[key].legacy:
            empty.add(golden.model)
        elif not golden.expected and not ordered[key].smoke:
            yield make("vectors/empty-set", "vectors", where, "the set has no expected output")
        elif names is not None:
            if golden.expected and _counts(ordered[key], policy):
                covered.setdefault(golden.model, set()).update(names)
        else:
            message = "expected values cannot be assigned to outputs by name or by position"
            given = [named.name for named in golden.expected][:16]
            shows = {"expected": given, "outputs": [one.name for one in models[golden.model].outputs][:16]}
            yield make("vectors/unpaired", "vectors", where, message, shows)
    for name in sorted(empty):
        if not any(golden.expected for golden in vectors.sets if golden.model == name):
            yield _none(models[name], policy, smoke=True)
    if manifest.declared:
        for name, expected in covered.items():
            yield from _unchecked(models[name], expected, policy)


def _another(golden: VectorSet, files: SetFiles) -> str:
    """Say where the job gives another number of expected values than the files that it was given."""
    if files.smoke and golden.expected:
        return "expected values of a set that has none"
    if files.files and golden.expected and len(golden.expected) != sum(map(is_output, files.files)):
        return f"{len(golden.expected)} expected values, but the set has another number of output files"
    if files.files and len(golden.inputs) != sum(not is_output(path) for path in files.files):
        return f"{len(golden.inputs)} inputs, but the set has another number of input files"
    return ""


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
            yield unchecked_output(model, output, "no golden set has an expected value of this output", policy)


def unchecked_output(model: ModelSpec, output: OutputSpec, message: str, policy: Policy) -> Finding:
    """Return the finding about an output that no golden checks; a warning where goldens are not required."""
    finding = make("vectors/output-unchecked", "vectors", f"{model.name}: {output.name}", message)
    return finding if policy.vectors.required else finding.model_copy(update={"severity": "warn"})
