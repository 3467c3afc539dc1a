"""The current release's model on the inputs of a submission: the job ``run`` of the variant ``prior``.

It reads the released bytes from the store, or from where ``check --against`` keeps them, hashed first against
what was accepted, and the golden inputs of the submission: nothing else that was submitted. The submission's own
runs see nothing of the release. Whatever goes wrong here is no fault of the submission; it is a record all
the same, so that the judge knows that there is nothing to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from acceptd.cell.blobs import Blob, lent
from acceptd.cell.limits import job_limits
from acceptd.errors import AcceptdError, CellUnavailableError
from acceptd.evidence import JobRecord, Prior, Variant
from acceptd.judge.beside import Beside
from acceptd.ordering import RunJob, Shelf
from acceptd.rules import Rules

RELEASE: Final = "release"
"""Cause of a run that did not start because the released bytes are not there as they were accepted."""


@dataclass(frozen=True, slots=True)
class PriorRun:
    """Runs one model of the release. ``shelf`` None: nobody knows where its bytes lie."""

    rules: Rules
    prior: Prior
    beside: Beside
    shelf: Shelf | None
    job: RunJob
    inputs: Blob
    outputs: Blob

    @property
    def mapped_bytes(self) -> int:
        """Bytes of external data that the run maps."""
        older = self.beside.older
        return sum(file.size for file in older.files[1:]) if older is not None else 0

    def __call__(self, spec: dict[str, Any], variant: Variant = "prior") -> list[JobRecord]:
        """Run it as the order ``spec`` of the submission says, on the release's own files.

        Under the profiler it may write to a directory of its own, and has no ``/proc/self/fd`` beside it.
        """
        scratch = variant == "profiled-prior"
        older = self.beside.older
        assert older is not None, "the judge's obstacle comes first"
        paths = [file.path for file in older.files]
        try:
            if self.shelf is None:
                return [self._missing("nobody keeps its bytes here", variant)]
            self.shelf.verify(paths)
        except CellUnavailableError:
            raise
        except AcceptdError as error:
            return [self._missing(str(error), variant)]
        limits = job_limits("run", self.rules.policy.limits, mapped_bytes=self.mapped_bytes)
        with lent({"inputs": self.inputs.reader(), "outputs": self.outputs.writer()}) as blobs:
            return [
                self.job(
                    "run",
                    {path: path for path in paths},
                    spec | self._own() | self._declared(spec),
                    limits,
                    blobs=blobs,
                    model=self.beside.model,
                    variant=variant,
                    proc_fd=len(paths) > 1 and not scratch,
                    shelf=self.shelf,
                    scratch=scratch,
                )
            ]

    def _own(self) -> dict[str, Any]:
        """Return which files the run reads."""
        older = self.beside.older
        assert older is not None
        model, *external = older.files
        return {
            "model": model.path,
            "sha256": model.sha256,
            "size": model.size,
            "external": [file.path for file in external],
        }

    def _declared(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return what the run is held to: inputs as the submission declares them, outputs as the release does.

        Draws are made for the submission's interface, ranges and bounds in both runs, so that they are the same.
        """
        declared, whole = self.beside.declared, self.prior.declared
        if declared is None or whole is None:  # its manifest is not known: goldens alone, no draw
            return {"inferred": True, "probes": False}
        dims = {name: bounds.model_dump() for name, bounds in whole.dims.items()}
        outputs = [one.model_dump(mode="json") for one in declared.outputs]
        return {
            "declared": spec["declared"] | {"outputs": outputs},
            "drawn_for": spec["declared"]["outputs"],
            "dims": dims | spec["dims"],
        }

    def _missing(self, message: str, variant: Variant) -> JobRecord:
        return JobRecord(
            kind="run",
            model=self.beside.model,
            profile=self.rules.profile.name,
            variant=variant,
            ending="unavailable",
            cause=RELEASE,
            message=message[:600],
        )
