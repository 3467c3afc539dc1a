"""Which output is compared with which expected value, under which tolerance. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acceptd.compare import oracles
from acceptd.compare.parts import cases_of, outputs_of
from acceptd.compare.parts import outputs_key as outputs_key
from acceptd.compare.promise import Promise
from acceptd.compare.relations import Relations
from acceptd.compare.task import Against, CompareTask, Group, Kind, Pair, Sample, Slice
from acceptd.evidence import Case, JobRecord, Problem, Vectors, VectorSet
from acceptd.judge.jobs import Jobs
from acceptd.judge.parity import expected_names
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

EXPECTED: Final = "expected"
"""Key of the ``vectors`` job's blob of expected values."""
INPUTS: Final = "inputs"
"""Key of the ``vectors`` job's blob of inputs."""
MAX_SAMPLES: Final = 64
_WILD_PROBES: Final = ("nan", "inf", "float-")
"""Probes whose outputs say nothing about sensitivity: NaN and overflow spread over any weights."""


def pair(
    manifest: Manifest,
    contract: Contract | None,
    policy: Policy,
    vectors: Vectors | None,
    jobs: Sequence[JobRecord],
) -> CompareTask:
    """Return the comparer's task. Golden sets whose values cannot be assigned become problems.

    Descriptors to hand over: EXPECTED, INPUTS, and :func:`outputs_key` of each run that has cases.
    """
    found, promise = Jobs(tuple(jobs)), Promise(manifest, contract, policy)
    pairs: list[Pair] = []
    groups: list[Group] = []
    problems: list[Problem] = []
    for model in manifest.models:
        run = found.last("run", model)
        if run is None:
            continue
        plain = found.last("run", model, "unoptimised")
        goldens = [one for one in (vectors.sets if vectors is not None else []) if one.model == model.name]
        first = cases_of(run, 0)
        second = cases_of(run, 1)
        other = cases_of(plain, 0) if plain is not None else {}
        for golden in goldens:
            names = expected_names(golden, model)
            if names is None:
                where = f"{model.name}: {golden.name}"
                message = "expected values cannot be assigned to outputs by name or by position"
                problems.append(Problem(code="vectors/unpaired", where=where[:4096], message=message))
                continue
            if golden.name in first:
                values = [Slice(file=EXPECTED, value=named.value) for named in golden.expected]
                expected, given = dict(zip(names, values, strict=True)), outputs_of(model, first[golden.name])
                pairs += promise.pairs(model, golden.name, "golden", expected, given, golden)
                if golden.name in other:
                    plainly = outputs_of(model, other[golden.name], "unoptimised")
                    pairs += promise.pairs(model, golden.name, "unoptimised", given, plainly, golden)
        for name in (golden.name for golden in goldens if golden.name in first and golden.name in second):
            pairs += _repeats(model, first[name], second[name])
        pairs += oracles.pairs(manifest, model, first, found.last("reference", model), contract, policy)
        if manifest.declared:
            fed = {golden.name for golden in goldens}
            pairs += _probes(promise, model, {name: case for name, case in first.items() if name not in fed})
            pairs += Relations(manifest, model, contract, policy, goldens, run, plain).pairs()
        if model.inputs:
            groups += _groups(model, goldens, first)
    return CompareTask(pairs=pairs, groups=groups, problems=problems)


def _repeats(model: ModelSpec, first: Case, second: Case) -> Iterator[Pair]:
    """Two runs of one session on one input must agree exactly."""
    other = outputs_of(model, second)
    for name, value in outputs_of(model, first).items():
        yield _pair(model, first.set, name, "repeat", value, other.get(name), 0.0, 0.0, "values")


def _probes(promise: Promise, model: ModelSpec, probes: dict[str, Case]) -> Iterator[Pair]:
    """Probabilities must be probabilities on every input inside the declared domain, not on goldens alone.

    No value is expected, so each output stands against itself. What is not finite has a finding of its own.
    """
    wanted = {
        output.name: promise.how(model, output) for output in model.outputs if output.kind == "probabilities"
    }
    for name, case in probes.items():
        if case.in_domain and case.finite is not False:
            for output, value in outputs_of(model, case).items():
                if output in wanted:
                    own = _pair(model, name, output, "probe", value, value, 0.0, 0.0, "probabilities")
                    yield own.model_copy(update={"how": wanted[output]})


def _pair(
    model: ModelSpec,
    name: str,
    output: str,
    against: Against,
    expected: Slice,
    got: Slice | None,
    rtol: float,
    atol: float,
    kind: Kind,
) -> Pair:
    return Pair(
        set=name,
        model=model.name,
        output=output,
        against=against,
        expected=expected,
        got=got,
        rtol=rtol,
        atol=atol,
        kind=kind,
    )


def _groups(model: ModelSpec, goldens: Sequence[VectorSet], cases: dict[str, Case]) -> Iterator[Group]:
    inputs = {one.name: [Slice(file=INPUTS, value=named.value) for named in one.inputs] for one in goldens}
    chosen = [
        (name, case)
        for name, case in cases.items()
        if name in inputs
        or (name.startswith("probe:") and not any(mark in name.removeprefix("probe:") for mark in _WILD_PROBES))
    ][:MAX_SAMPLES]
    by_output: dict[str, list[Sample]] = {}
    for name, case in chosen:
        for output, value in outputs_of(model, case).items():
            sample = Sample(key=name, inputs=inputs.get(name), output=value)
            by_output.setdefault(output, []).append(sample)
    for output, samples in by_output.items():
        if len(samples) > 1:
            yield Group(model=model.name, output=output, samples=samples)
