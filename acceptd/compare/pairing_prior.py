"""Which output of a submission is compared with which of the current release, on the same input. Pure.

Beside each golden's expected value the release's own output is held too, so that both errors can be told. Which
inputs count is decided by the release's run: draws that the submission's run did not answer are noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from acceptd.compare.pairing import EXPECTED
from acceptd.compare.parts import cases_of, outputs_of
from acceptd.compare.promise import Promise
from acceptd.compare.task import Pair, Slice
from acceptd.evidence import Case, JobRecord, Prior, Vectors, VectorSet
from acceptd.judge.beside import Beside, beside, columns, wanted
from acceptd.judge.jobs import Jobs
from acceptd.judge.parity import RANKED, expected_names
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
    promise = Promise(manifest, contract, policy)
    result: list[Pair] = []
    for model in manifest.models:
        run, older = found.last("run", model), found.last("run", model, VARIANT)
        if run is None or older is None:
            continue
        how = beside(prior, model, facts.get(model.name))
        answers = cases_of(older, 0)
        result += _answers(promise, model, how, cases_of(run, 0), answers)
        for golden in vectors.sets if vectors is not None else []:
            if golden.model == model.name and golden.name in answers:
                result += _golden(promise, model, how, golden, answers[golden.name])
    return result


def _answers(
    promise: Promise, model: ModelSpec, how: Beside, cases: dict[str, Case], answers: dict[str, Case]
) -> Iterator[Pair]:
    values = how.limits(promise.policy).values
    within = {
        "rtol": values.rtol if values is not None else 0.0,
        "atol": values.atol if values is not None else 0.0,
    }
    for name, answer in answers.items():
        if name in cases and answer.outputs:
            older, given = _shared(how, outputs_of(model, answer, VARIANT)), outputs_of(model, cases[name])
            for pair in promise.pairs(model, name, "prior", older, given):
                yield pair.model_copy(update={**within, **_classes(model, how, pair, older_first=True)})


def _golden(promise: Promise, model: ModelSpec, how: Beside, golden: VectorSet, answer: Case) -> Iterator[Pair]:
    given = _shared(how, outputs_of(model, answer, VARIANT))
    names = expected_names(golden, model) or []
    pairs = zip(names, golden.expected, strict=False)
    expected = {name: Slice(file=EXPECTED, value=named.value) for name, named in pairs if name in given}
    for pair in promise.pairs(model, golden.name, "prior-golden", expected, given, golden):
        yield pair.model_copy(update=_classes(model, how, pair, older_first=False))


def _shared(how: Beside, outputs: dict[str, Slice]) -> dict[str, Slice]:
    return {name: value for name, value in outputs.items() if name in how.outputs}


def _classes(model: ModelSpec, how: Beside, pair: Pair, *, older_first: bool) -> dict[str, Any]:
    """Return what a pair needs so that classes are counted, by label where both sides declare labels."""
    kind = how.ranked(pair.output) if pair.kind == "values" else pair.kind
    if kind not in RANKED:
        return {}
    now = next((one.labels for one in model.outputs if one.name == pair.output), None)
    sides = (how.labels(pair.output), now) if older_first else (now, how.labels(pair.output))
    return {"kind": kind, "labels": True, "order": columns(*sides)}
