"""Which output of a submission is compared with which of the current release, on the same input. Pure.

Beside each golden's expected value the release's own output is held too, so that both errors can be told. Which
inputs count is decided by the release's run: draws that the submission's run did not answer are noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from acceptd.compare.pairing import EXPECTED
from acceptd.compare.parts import cases_of, kind_of, outputs_of
from acceptd.compare.task import Pair, Slice
from acceptd.evidence import Case, JobRecord, Prior, TensorRef, Vectors, VectorSet
from acceptd.judge.beside import Beside, beside, columns, wanted
from acceptd.judge.jobs import Jobs
from acceptd.judge.parity import RANKED, expected_names, tolerance
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

VARIANT: Final = "prior"


def pairs(
    manifest: Manifest,
    contract: Contract | None,
    policy: Policy,
    vectors: Vectors | None,
    jobs: Sequence[JobRecord],
    prior: Prior | None,
) -> list[Pair]:
    """Return the pairs of every model that ran beside the release's."""
    if prior is None or not wanted(prior, policy):
        return []
    found = Jobs(tuple(jobs))
    facts = found.facts(manifest)
    result: list[Pair] = []
    for model in manifest.models:
        run, older = found.last("run", model), found.last("run", model, VARIANT)
        if run is None or older is None:
            continue
        how = beside(prior, model, facts.get(model.name))
        answers = cases_of(older, 0)
        result += _answers(model, how, policy, cases_of(run, 0), answers)
        for golden in vectors.sets if vectors is not None else []:
            if golden.model == model.name and golden.name in answers:
                result += _golden(manifest, model, how, golden, answers[golden.name], contract, policy)
    return result


def _answers(
    model: ModelSpec, how: Beside, policy: Policy, cases: dict[str, Case], answers: dict[str, Case]
) -> Iterator[Pair]:
    specs = {output.name: output for output in model.outputs}
    limits = how.limits(policy)
    for name, answer in answers.items():
        if name not in cases or not answer.outputs:
            continue
        given = outputs_of(model, cases[name])
        for output, value in outputs_of(model, answer, VARIANT).items():
            if output in how.outputs:
                spec = specs.get(output)
                yield Pair(
                    set=name,
                    model=model.name,
                    output=output,
                    against="prior",
                    expected=value,
                    got=given.get(output),
                    rtol=limits.values.rtol if limits.values is not None else 0.0,
                    atol=limits.values.atol if limits.values is not None else 0.0,
                    kind=kind_of(spec),
                    labels=kind_of(spec) in RANKED,
                    order=columns(how.labels(output), spec.labels if spec is not None else None),
                )


def _golden(
    manifest: Manifest,
    model: ModelSpec,
    how: Beside,
    golden: VectorSet,
    answer: Case,
    contract: Contract | None,
    policy: Policy,
) -> Iterator[Pair]:
    specs = {output.name: output for output in model.outputs}
    given = outputs_of(model, answer, VARIANT)
    for name, named in zip(expected_names(golden, model) or (), golden.expected, strict=False):
        if name not in how.outputs or name not in given:
            continue
        spec = specs.get(name)
        dtype = named.value.dtype if isinstance(named.value, TensorRef) else ""
        held = tolerance(manifest, spec, golden, contract, policy, dtype)
        yield Pair(
            set=golden.name,
            model=model.name,
            output=name,
            against="prior-golden",
            expected=Slice(file=EXPECTED, value=named.value),
            got=given[name],
            rtol=held.rtol,
            atol=held.atol,
            kind=kind_of(spec),
            labels=kind_of(spec) in RANKED,
            order=columns(spec.labels if spec is not None else None, how.labels(name)),
        )
