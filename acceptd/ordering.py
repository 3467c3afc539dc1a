"""How a job of one submission is asked for: what the builders of jobs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from acceptd.cell.launcher import Area
from acceptd.cell.limits import JobLimits
from acceptd.evidence import JobRecord, Variant
from acceptd.policy.profile import Profile


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where a bundle's files lie for the cell: an area, and the path of the bundle below it.

    ``verify`` hashes the named files of it against what was accepted, and raises AcceptdError for others.
    """

    area: Area
    place: str
    verify: Callable[[list[str]], object] = lambda _paths: None


class RunJob(Protocol):
    """Runs one job of the submission in the cell. ``shelf``: on another bundle's files than its own.

    ``profile`` is the one that a ``run`` is made under.
    """

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
        shelf: Shelf | None = None,
        scratch: bool = False,
        profile: Profile | None = None,
    ) -> JobRecord: ...
