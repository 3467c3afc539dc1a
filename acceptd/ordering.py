"""How a job of one submission is asked for: what the builders of jobs share."""

from __future__ import annotations

from typing import Any, Protocol

from acceptd.cell.limits import JobLimits
from acceptd.evidence import JobRecord, Variant


class RunJob(Protocol):
    """Runs one job of the submission in the cell."""

    def __call__(
        self,
        kind: str,
        files: dict[str, str],
        spec: dict[str, Any],
        limits: JobLimits,
        *,
        blobs: dict[str, int] | None = None,
        model: str = "",
        variant: Variant = "",
        proc_fd: bool = False,
    ) -> JobRecord: ...
