"""Small inline SVG charts: no script, no style attribute, a title and a description, their data in words too.

The text alternative says what a chart shows (WCAG 2.2, 1.1.1). What stands below the axis is HTML: a chart is as
wide as its page, and text inside would be stretched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.report.escape import markup, milliseconds, size

_WIDTH, _HEIGHT, _MARGIN = 600, 64, 4
_FEWEST: Final = 2
_BINS: Final = 48


def memory_chart(job: Mapping[str, Any], whose: str = "") -> str:
    """Return a figure for ``job`` (one of ``resources.jobs``); empty where there are too few samples for a line.

    ``whose`` says in plain text what of which model ran; empty: kind and model.
    """
    profile = job.get("resource_profile") or {}
    seconds = [float(value) for value in profile.get("seconds", ())]
    used = [int(value) for value in profile.get("bytes_used", ())]
    if len(used) < _FEWEST or len(used) != len(seconds):
        return ""
    peak = max(used)
    when = seconds[used.index(peak)]
    title = f"Memory of {whose or ' '.join(str(part) for part in (job['kind'], job['model']) if part)}"
    words = (
        f"From {size(used[0])} to {size(used[-1])} in {_time(seconds[-1])}, "
        f"peak {size(peak)} at {_time(when)}, {len(used)} samples"
    )
    points = " ".join(
        f"{_along(at, seconds[-1], _WIDTH):.1f},{_HEIGHT - _along(value, peak, _HEIGHT):.1f}"
        for at, value in zip(seconds, used, strict=True)
    )
    line = (
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5" '
        'vector-effect="non-scaling-stroke"/>'
    )
    return _figure(title, words + _faults(profile), line, ("0 s", f"peak {size(peak)}", _time(seconds[-1])))


def distribution(title: str, values: Sequence[float], marks: Mapping[str, float]) -> str:
    """Return a histogram of times in ms, with a line for each of ``marks``; empty where there are too few."""
    if len(values) <= _FEWEST:
        return ""
    least, most = min(values), max(values)
    span = most - least
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int((value - least) / span * _BINS)) if span else 0] += 1
    highest, step = max(counts), (_WIDTH - 2 * _MARGIN) / _BINS
    bars = "".join(
        f'<rect x="{_MARGIN + at * step:.1f}" y="{_HEIGHT - _along(count, highest, _HEIGHT):.1f}" '
        f'width="{step * 0.9:.1f}" height="{_along(count, highest, _HEIGHT):.1f}" fill="currentColor"/>'
        for at, count in enumerate(counts)
        if count
    )
    lines = "".join(
        f'<line x1="{place:.1f}" x2="{place:.1f}" y1="0" y2="{_HEIGHT}" stroke="currentColor" '
        'stroke-dasharray="3 3" vector-effect="non-scaling-stroke"/>'
        for place in (_along(value - least, span, _WIDTH) for value in marks.values())
    )
    told = ", ".join(f"{name} {milliseconds(value)}" for name, value in marks.items())
    words = f"{len(values)} warm inferences took {milliseconds(least)} to {milliseconds(most)}; {told}"
    return _figure(title, words, bars + lines, (milliseconds(least), f"tallest: {highest}", milliseconds(most)))


def _figure(title: str, words: str, drawn: str, axis: tuple[str, str, str]) -> str:
    """Return the figure; ``axis`` is what stands at the left, in the middle and at the right below it."""
    name, told = markup(title, 300), markup(words, 600)
    ends = "".join(f"<span>{markup(text, 60)}</span>" for text in axis)
    return (
        f'<figure><svg role="img" aria-label="{name}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f"<title>{name}</title><desc>{told}</desc>{drawn}</svg>"
        f'<div class="axis" aria-hidden="true">{ends}</div>'
        f"<figcaption><b>{name}</b> {told}</figcaption></figure>"
    )


def _along(value: float, most: float, length: int) -> float:
    return _MARGIN + (length - 2 * _MARGIN) * (value / most if most else 0.0)


def _time(seconds: float) -> str:
    return milliseconds(seconds * 1000)


def _faults(profile: Mapping[str, Any]) -> str:
    threads = int(profile.get("threads") or 0)
    parts = [f"; {threads} thread{'' if threads == 1 else 's'} at most"] if threads else []
    if profile.get("minor_faults") is not None:
        parts.append(f"; page faults {int(profile['minor_faults'])} minor, {int(profile['major_faults'])} major")
    return "".join(parts)
