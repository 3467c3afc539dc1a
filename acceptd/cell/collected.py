"""From what a job said and what the watcher saw to the fields of a JobRecord. Pure."""

from __future__ import annotations

from typing import Any, Final

from acceptd.cell.protocol import Frame
from acceptd.cell.watch import Watched
from acceptd.evidence import (
    Assets,
    Case,
    Check,
    Done,
    Facts,
    Kernel,
    ManifestFrame,
    Note,
    Placement,
    Probed,
    Profiled,
    Refused,
    ResourceProfile,
    Schema,
    SignatureFacts,
    Step,
    Structure,
    Timing,
    Vectors,
    Walls,
    Wire,
)

OWN_WALLS: Final = frozenset({"memory_cgroup", "separate_uid"})
"""Walls that the trusted side states; the others are the job's own report before any submitted byte."""


class Collected:
    """Accepted frames of one job, sorted into the fields of a JobRecord."""

    _LISTS: Final = {Step: "steps", Case: "cases", Probed: "probed", Note: "notes"}
    _SINGLE: Final = {
        Walls: "walls",
        Refused: "refused",
        Wire: "wire",
        Facts: "facts",
        Structure: "structure",
        Assets: "assets",
        SignatureFacts: "signature",
        Vectors: "vectors",
        Schema: "schema_",
        Placement: "placement",
        Kernel: "kernel",
        Profiled: "profiled",
        Timing: "timing",
        Done: "done",
    }

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def add(self, frame: Frame) -> None:
        """Keep one frame; entries and data of ``unpack`` go to the caller only."""
        body = frame.body
        if isinstance(body, Check):
            self._fields[frame.type] = body
        elif isinstance(body, ManifestFrame):
            self._fields["manifest"] = body.document
        elif body is not None and type(body) in self._LISTS:
            self._fields.setdefault(self._LISTS[type(body)], []).append(body)
        elif body is not None and type(body) in self._SINGLE:
            self._fields[self._SINGLE[type(body)]] = body

    def fields(self) -> dict[str, Any]:
        """Return keyword arguments for JobRecord."""
        return self._fields


def with_own(walls: Walls | None, cgroups: bool, note: str) -> Walls | None:
    """Return the job's report without a word on the walls that it cannot see, and with ours on its cgroup."""
    if walls is None:
        return None
    states = {name: state for name, state in walls.states.items() if name not in OWN_WALLS}
    notes = {name: text for name, text in walls.notes.items() if name not in OWN_WALLS}
    if cgroups:
        states["memory_cgroup"] = "unavailable" if note else "enforced"
    if note:
        notes["memory_cgroup"] = note
    return walls.model_copy(update={"states": states, "notes": notes})


def profile_of(seen: Watched) -> ResourceProfile:
    """Return memory over time, page faults and threads."""
    samples = seen.samples.kept()
    minor, major = seen.faults if seen.faults is not None else (None, None)
    return ResourceProfile(
        seconds=[seconds for seconds, _ in samples],
        bytes_used=[used for _, used in samples],
        minor_faults=minor,
        major_faults=major,
        threads=seen.threads,
    )
