"""Pairs of a run with onnx's own evaluator: the evaluator's values are the expected ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from acceptd.compare.parts import cases_of, kind_of, outputs_of
from acceptd.compare.promise import Promise
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
        for output, value in outputs_of(model, evaluated[name], REFERENCE).items():
            if output not in run:
                continue
            spec = specs.get(output)
            dtype = value.value.dtype if isinstance(value.value, TensorRef) else ""
            held = oracle.tolerance(manifest, model.name, spec, contract, policy, dtype)
            yield Pair(
                set=name,
                model=model.name,
                output=output,
                against=oracle.AGAINST,
                expected=value,
                got=run[output],
                rtol=held.rtol,
                atol=held.atol,
                kind=kind_of(spec),
                how=promise.how(model, spec) if spec is not None and spec.kind == "boxes" else How(),
            )
