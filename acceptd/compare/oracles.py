"""Pairs of a run with onnx's own evaluator: the evaluator's values are the expected ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from acceptd.compare.parts import cases_of, outputs_of
from acceptd.compare.promise import TOKENS, Promise
from acceptd.compare.task import How, Pair
from acceptd.evidence import Case, JobRecord, TensorRef
from acceptd.judge import oracle
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

REFERENCE: Final = "reference"
"""Kind of the job that evaluates, and the key's part of its outputs."""


def pairs(
    manifest: Manifest,
    model: ModelSpec,
    ran: Mapping[str, Case],
    reference: JobRecord | None,
    contract: Contract | None,
    policy: Policy,
) -> Iterator[Pair]:
    """Yield a pair for each output of each input (golden set or probe, by name) that both sides computed."""
    specs = {output.name: output for output in model.outputs}
    promise = Promise(manifest, contract, policy)
    evaluated = cases_of(reference, 0) if reference is not None else {}
    for name, case in ran.items():
        if name not in evaluated:
            continue
        run = outputs_of(model, case)
        other = {
            output: value
            for output, value in outputs_of(model, evaluated[name], REFERENCE).items()
            if output in run
        }
        for pair in promise.pairs(model, name, oracle.AGAINST, other, run):
            dtype = pair.expected.value.dtype if isinstance(pair.expected.value, TensorRef) else ""
            if pair.kind == "sequence" and dtype in TOKENS:
                yield pair  # tokens are exact
                continue
            held = oracle.tolerance(manifest, model.name, specs.get(pair.output), contract, policy, dtype)
            yield pair.model_copy(
                update={"rtol": held.rtol, "atol": held.atol, "how": _scored(pair, held.rtol, held.atol)}
            )


def _scored(pair: Pair, rtol: float, atol: float) -> How:
    """Return how a pair is compared, with the scores of its boxes as far from the evaluator as these may be."""
    scores = pair.how.scores
    if scores is None:
        return pair.how
    loose = scores.model_copy(update={"rtol": max(scores.rtol, rtol), "atol": max(scores.atol, atol)})
    return pair.how.model_copy(update={"scores": loose})
