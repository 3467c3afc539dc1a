"""The jobs that look at files without running a model: ``inspect``, ``assets``, ``vectors``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from acceptd.cell.blobs import Blob, lent
from acceptd.cell.limits import job_limits
from acceptd.evidence import JobRecord, Sealed
from acceptd.judge import coverage, inventory, model_signature
from acceptd.judge.jobs import Jobs
from acceptd.ordering import RunJob
from acceptd.policy.manifest import Manifest
from acceptd.rules import Rules

Call = Callable[[], JobRecord]


@dataclass(frozen=True, slots=True)
class Examination:
    """Builds the jobs of one sealed bundle; each call runs one. ``manifest`` None: none was read yet."""

    rules: Rules
    sealed: Sealed
    manifest: Manifest | None
    job: RunJob

    def inspect(self, models: dict[str, str]) -> list[Call]:
        """Return one ``inspect`` job for each model file (mapped to its name) that is there."""
        if not models:
            return []  # looked at before the manifest was inferred
        taken = inventory.take(self.sealed, self.manifest)
        limits = self.rules.policy.limits
        present = {file.path for file in self.sealed.files}
        # Only models that are compared with another export have their weights hashed: it reads them once more.
        named = self.manifest.models if self.manifest is not None else []
        compared = {file for model in named if model.independent_export for file in model.files}
        calls: list[Call] = []
        for path, name in models.items():
            if path not in present:
                continue
            visible = list(taken.visible(path))
            spec = {
                "model": path,
                "files": {file.path: file.size for file in self.sealed.files},
                "present": visible,
                "forbidden": list(taken.forbidden),
                "digests": path in compared,
                "limits": {
                    key: getattr(limits, key)
                    for key in ("nodes", "initializers", "scopes", "wire_depth", "metadata_bytes", "model_bytes")
                },
            }
            bounds = job_limits("inspect", limits)
            files = {item: item for item in visible}
            calls.append(partial(self.job, "inspect", files, spec, bounds, model=name or path))
        return calls

    def signature(self) -> list[Call]:
        """Return the job that takes a model signature apart, where there is one and the policy names a signer."""
        if not self.rules.policy.signatures.signers or not model_signature.present(self.sealed):
            return []
        bounds = job_limits("signature", self.rules.policy.limits)
        path = inventory.SIGNATURE_FILE
        return [partial(self.job, "signature", {path: path}, {"path": path}, bounds)]

    def assets(self, manifest: Manifest, taken: inventory.Inventory, jobs: Jobs) -> list[Call]:
        """Return the ``assets`` job over what no model reads, where there is any."""
        task = coverage.owed(manifest, jobs.facts(manifest), self.sealed, taken)
        if not task:
            return []
        files = {path: path for path in (*task.files, *task.gaps)}
        spec = {"files": list(task.files), "gaps": {path: list(found) for path, found in task.gaps.items()}}
        bounds = job_limits("assets", self.rules.policy.limits)
        return [partial(self.job, "assets", files, spec, bounds)]

    def vectors(self, manifest: Manifest, taken: inventory.Inventory, inputs: Blob, expected: Blob) -> list[Call]:
        """Return the ``vectors`` job, where there are golden sets; it fills both blobs.

        Where the policy has them decoded apart, there are two, each of which fills one;
        :func:`acceptd.judge.apart.joined` makes one account of theirs.
        """
        if not taken.sets:
            return []
        both = {"inputs": inputs, "expected": expected}
        if not self.rules.policy.vectors.separate:
            return [partial(self._vectors, manifest, taken, both, None)]
        return [
            partial(self._vectors, manifest, taken, {"inputs": inputs}, "inputs"),
            partial(self._vectors, manifest, taken, {"expected": expected}, "outputs"),
        ]

    def _vectors(
        self, manifest: Manifest, taken: inventory.Inventory, into: dict[str, Blob], side: inventory.Side | None
    ) -> JobRecord:
        files = {path: path for path in taken.vector_files(side)}
        spec = inventory.vectors_spec(taken, manifest, side)
        limits = job_limits("vectors", self.rules.policy.limits)
        with lent({name: blob.writer() for name, blob in into.items()}) as blobs:
            return self.job("vectors", files, spec, limits, blobs=blobs)
