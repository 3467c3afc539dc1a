"""What every bench measures with and writes: calls in turn (A B A B …), medians with quartiles, paired ratios.

A bench hands :func:`save` its lines; ``bench/run.py`` gathers them, ``tools/gen_performance.py`` shows them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "results"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, quartiles and extremes of ``n`` values; the quartiles of fewer than four are the extremes."""

    median: float
    q1: float
    q3: float
    least: float
    most: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of one value or more, rounded to five significant digits."""
    if not values:
        raise ValueError("no values")
    low, _, high = (
        statistics.quantiles(values, n=4, method="inclusive")
        if len(values) >= 4
        else (min(values), 0, max(values))
    )
    found = (statistics.median(values), low, high, min(values), max(values))
    middle, low, high, least, most = (float(f"{value:.5g}") for value in found)
    return Spread(middle, low, high, least, most, len(values))


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``ours`` is acceptd's, ``base`` what it is held against, in ``unit``; ``ratio`` is of pairs.

    ``bound`` is of ``on`` (its median, or its ``most`` where ``by`` says so); ``sense`` says on which side of
    it is good. A line without a bound is told, not judged. ``source`` is where the bound was set.
    """

    id: str
    what: str
    unit: str
    ours: Spread
    beside: str = ""
    base: Spread | None = None
    ratio: Spread | None = None
    bound: float | None = None
    on: Literal["ratio", "ours"] = "ratio"
    by: Literal["median", "most"] = "median"
    sense: Literal["most", "least"] = "most"
    source: str = ""

    def judged(self) -> Spread:
        """Return what the bound is of."""
        found = self.ours if self.on == "ours" else self.ratio
        assert found is not None, self.id
        return found

    def met(self) -> bool | None:
        """Return whether the bound holds; None where there is none."""
        if self.bound is None:
            return None
        found = self.judged()
        if self.sense == "least":
            return (found.least if self.by == "most" else found.median) >= self.bound
        return (found.most if self.by == "most" else found.median) <= self.bound


def against(
    name: str,
    what: str,
    ours: Sequence[float],
    beside: str,
    base: Sequence[float],
    *,
    unit: str = "ms",
    **more: Any,
) -> Line:
    """Return a line of paired values: the ratio is ours by base, or base by ours where more is better."""
    up = more.get("sense") == "least"
    ratios = [(b / a if up else a / b) for a, b in zip(ours, base, strict=True)]
    return Line(name, what, unit, spread(ours), beside, spread(base), spread(ratios), **more)


def alone(name: str, what: str, ours: Sequence[float], *, unit: str = "ms", **more: Any) -> Line:
    """Return a line that stands for itself; a bound is of the value."""
    return Line(name, what, unit, spread(ours), on="ours", **more)


def in_turn(
    ways: Mapping[str, Callable[[], float | None]], rounds: int, *, warm: int = 1, told: str = ""
) -> dict[str, list[float]]:
    """Call every way once a round, in order, and return the milliseconds of each.

    ``warm`` rounds before them count for nothing. A way that returns a number has measured itself, in seconds.
    ``told`` names the progress that is printed.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + warm):
        for name, way in ways.items():
            start = time.perf_counter()
            own = way()
            spent = time.perf_counter() - start if own is None else own
            if number >= warm:
                taken[name].append(spent * 1000)
        if told:
            progress(f"{told} {max(0, number + 1 - warm)}/{rounds}")
    return taken


def progress(words: str) -> None:
    """Print one line of progress at once."""
    print(f"    {words}", flush=True)


def part(title: str, rows: Iterable[tuple[str, float]], *, unit: str = "ms") -> dict[str, Any]:
    """Return one breakdown: (name, median) in order."""
    return {"title": title, "unit": unit, "rows": [[name, float(f"{value:.4g}")] for name, value in rows]}


def save(
    name: str,
    lines: Sequence[Line],
    *,
    parts: Sequence[Mapping[str, Any]] = (),
    detail: Mapping[str, Any] | None = None,
) -> int:
    """Write ``bench/results/NAME.json``, print the lines, and return 1 where a bound is missed, else 0."""
    RESULTS.mkdir(exist_ok=True)
    found = {
        "name": name,
        "lines": [asdict(line) | {"met": line.met()} for line in lines],
        "parts": [dict(one) for one in parts],
        "detail": dict(detail or {}),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    for line in lines:
        print(text(line), flush=True)
    for one in parts:
        print(f"  {one['title']} ({one['unit']}): " + ", ".join(f"{row[0]} {row[1]:g}" for row in one["rows"]))
    return 1 if any(line.met() is False for line in lines) else 0


def text(line: Line) -> str:
    """Return a line for the terminal."""
    words = f"{line.what}: {_shown(line.ours)} {line.unit}"
    if line.base is not None and line.ratio is not None:
        words += f", {line.beside} {_shown(line.base)}, ratio {_shown(line.ratio)}"
    if line.bound is not None:
        side = "at most" if line.sense == "most" else "at least"
        words += f"; {side} {line.bound:g}: {'met' if line.met() else 'MISSED'}"
    return words


def _shown(one: Spread) -> str:
    return f"{one.median:.4g} ({one.q1:.4g} to {one.q3:.4g})" if one.n > 1 else f"{one.median:.4g}"
