"""What a submission cost: time by stage, each job, its memory over time; as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.report.chart import memory_chart
from acceptd.report.escape import markup, milliseconds, size
from acceptd.report.tables import table

_CHARTS: Final = 24
_STAGES: Final = (
    "queue", "seal", "unpack", "manifest", "signature", "inspect", "assets", "vectors", "run", "reference",
    "prior", "heldout", "compare", "difference", "regression", "judge", "record", "promote",
)  # fmt: skip
"""In the order in which they come; JSON keeps none."""


def section(report: Mapping[str, Any]) -> str:
    """Return the section's content; empty where nothing was done."""
    resources, timings = report["resources"], report["timings_ms"]
    order = {name: at for at, name in enumerate(_STAGES)}
    took = sorted(timings.items(), key=lambda pair: (order.get(pair[0], len(order)), pair[0]))
    stages = table(("stage", "wall clock"), [(markup(name), _time(time)) for name, time in took], right=(1,))
    several = len(report.get("profiles") or []) > 1
    rows = [
        (
            markup(job["kind"]),
            markup(_whose(job, several=several)),
            markup(job["ending"] + (f": {job['cause']}" if job["cause"] else "")),
            _time(job["wall_ms"]),
            _time(job["cpu_ms"]),
            markup(size(job["peak_memory_bytes"])),
            markup(job["attempts"]),
        )
        for job in resources["jobs"]
    ]
    head = ("job", "model", "ending", "wall", "cpu", "peak memory", "attempts")
    charts = "".join(
        memory_chart(job, f"{job['kind']} {_whose(job, several=several)}".strip())
        for job in resources["jobs"][:_CHARTS]
    )
    over = f'<h3>Memory over time</h3><div class="charts">{charts}</div>' if charts else ""
    return (
        (stages if timings else "") + (table(head, rows, right=(3, 4, 5, 6), names=False) if rows else "") + over
    )


def _whose(job: Mapping[str, Any], *, several: bool) -> str:
    named = f"{job['model']} {job.get('variant', '')}".strip()
    return f"{named} under {job['profile']}" if several and job.get("profile") else named


def _time(value: Any) -> str:
    return markup(milliseconds(value))
