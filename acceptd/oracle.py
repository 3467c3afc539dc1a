"""The ``reference`` job of each model: what it is given, and whether it is worth starting."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from acceptd.cell.blobs import Blob, closing_blob, lent
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.evidence import Facts, JobRecord, Sealed
from acceptd.judge import oracle
from acceptd.ordering import RunJob
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy
from acceptd.tools import Tools

KIND = "reference"
_TAKEN = ("model", "declared", "dims", "sets", "seed", "max_elements")


@dataclass(frozen=True, slots=True)
class Oracle:
    """Builds the job that evaluates a model with onnx's own evaluator, side by side with its runs.

    Each model is evaluated once, beside the runs under the first profile; its outputs serve all of
    them. ``stack`` closes the blobs.
    """

    policy: Policy
    tools: Tools
    job: RunJob
    sealed: Sealed
    declared: bool
    stack: ExitStack
    blobs: dict[str, Blob] = field(default_factory=dict)

    def calls(
        self,
        model: ModelSpec,
        facts: Facts,
        files: list[str],
        run_spec: dict[str, Any],
        inputs: Blob,
        outputs: dict[tuple[str, str], Blob],
    ) -> list[Callable[[], list[JobRecord]]]:
        """Return the job, or nothing where the policy or the model's cost rules it out.

        ``run_spec`` is what the runs are given: the same sets, bounds and seed. ``outputs`` gains the blob.
        """
        if model.name in self.blobs:
            outputs[model.name, KIND] = self.blobs[model.name]
            return []
        if not self.declared or oracle.left_out(self.policy, facts, oracle.model_bytes(self.sealed, files)):
            return []
        rules = self.policy.reference
        probed = rules.draws and self.policy.probes.enabled
        spec = {key: run_spec[key] for key in _TAKEN}
        spec |= {"seconds": rules.seconds, "probes": probed, "draws": run_spec["draws"] if probed else 0}
        blob = self.blobs[model.name] = self.stack.enter_context(closing_blob(self.tools.temporary))
        outputs[model.name, KIND] = blob
        return [partial(self._run, model.name, files, spec, inputs, blob)]

    def _run(
        self, model: str, files: list[str], spec: dict[str, Any], inputs: Blob, outputs: Blob
    ) -> list[JobRecord]:
        inside = {path: path for path in files}
        with lent({"inputs": inputs.reader(), "outputs": outputs.writer()}) as blobs:
            return [self.job(KIND, inside, spec, limits(self.policy), blobs=blobs, model=model)]


def limits(policy: Policy) -> JobLimits:
    """Return the limits of a ``reference`` job: the policy's seconds, and one more for what was begun in time."""
    found = job_limits(KIND, policy.limits)
    cpu = math.ceil(policy.reference.seconds) + 1
    wall = float(cpu * policy.limits.wall_factor)
    return replace(found, inner=replace(found.inner, cpu_seconds=cpu), wall_seconds=wall)
