"""A job's memory over time as a small inline SVG line: no script, no style attribute, its data in words too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.report.escape import markup, milliseconds, size

_WIDTH, _HEIGHT, _MARGIN = 600, 64, 4
_FEWEST: Final = 2


def memory_chart(job: Mapping[str, Any]) -> str:
    """Return a figure for ``job`` (one of ``resources.jobs``); empty where there are too few samples for a line.

    The text alternative says what the line shows (WCAG 2.2, 1.1.1): first and last value, peak and when.
    """
    profile = job.get("resource_profile") or {}
    seconds = [float(value) for value in profile.get("seconds", ())]
    used = [int(value) for value in profile.get("bytes_used", ())]
    if len(used) < _FEWEST or len(used) != len(seconds):
        return ""
    peak = max(used)
    when = seconds[used.index(peak)]
    name = markup(" ".join(str(part) for part in (job["kind"], job["model"]) if part), 200)
    words = (
        f"Memory of {name}: from {size(used[0])} to {size(used[-1])} in {_time(seconds[-1])}, "
        f"peak {size(peak)} at {_time(when)}, {len(used)} samples"
    )
    points = " ".join(
        f"{_along(at, seconds[-1], _WIDTH):.1f},{_HEIGHT - _along(value, peak, _HEIGHT):.1f}"
        for at, value in zip(seconds, used, strict=True)
    )
    return (
        f'<figure><svg role="img" aria-label="{words}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none"><polyline points="{points}" fill="none" stroke="currentColor" '
        f'stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg>'
        f"<figcaption>{words}{_faults(profile)}</figcaption></figure>"
    )


def _along(value: float, most: float, length: int) -> float:
    return _MARGIN + (length - 2 * _MARGIN) * (value / most if most else 0.0)


def _time(seconds: float) -> str:
    return milliseconds(seconds * 1000)


def _faults(profile: Mapping[str, Any]) -> str:
    parts = [f"; {int(profile['threads'])} threads at most"] if profile.get("threads") else []
    if profile.get("minor_faults") is not None:
        parts.append(f"; page faults {int(profile['minor_faults'])} minor, {int(profile['major_faults'])} major")
    return "".join(parts)
