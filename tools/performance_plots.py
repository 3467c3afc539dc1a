"""The pictures of ``docs/performance.md``: SVG without script, light and dark, readable at 360 px."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

WIDTH: Final = 360
LEFT, RIGHT = 12, 348
STYLE: Final = """
:root { --ground: #ffffff; --ink: #1d2330; --soft: #5b6472; --rule: #c9ced8; --good: #1f7a4d; --bad: #b3341f; --bar: #4457b8; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #1c1f26; --ink: #e8eaf0; --soft: #a3abba; --rule: #454b58; --good: #5cc78f; --bad: #f08a72; --bar: #93a3f5; }
}
.ground { fill: var(--ground); } text { font: 11px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); } .head { font-weight: 600; } .end { text-anchor: end; } .mid { text-anchor: middle; }
.rule { stroke: var(--rule); } .mark { stroke: var(--ink); } .bar { fill: var(--bar); }
.good { fill: var(--good); stroke: var(--good); } .bad { fill: var(--bad); stroke: var(--bad); }
.line { stroke-width: 2; } text.good, text.bad { stroke: none; }
"""  # noqa: E501
Line = dict[str, Any]


def number(value: float) -> str:
    """Return a number with three significant digits, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"


def picture(title: str, height: float, drawn: Sequence[str]) -> str:
    """Return one SVG file with a ground of its own: it stands on pages of either colour."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{2 * WIDTH}" height="{2 * height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{height:.0f}" rx="4"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def word(x: float, y: float, said: str, *kinds: str) -> str:
    """Return one line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{" ".join(kinds)}">{escape(said)}</text>'


def logarithmic(low: float, high: float) -> Callable[[float], float]:
    """Return what maps a value to its place between LEFT and RIGHT."""
    span = math.log10(high / low) or 1.0

    def place(value: float) -> float:
        share = math.log10(min(max(value, low), high) / low) / span
        return LEFT + share * (RIGHT - LEFT)

    return place


def targets(lines: Sequence[Line], labels: Sequence[str]) -> str:
    """Return a dot for each bounded line: how far from its target; left of the mark is better."""
    drawn: list[str] = []
    y = 46.0
    place = logarithmic(0.02, 10.0)
    drawn += [word(LEFT, 18, "Measured, as a multiple of the target", "head")]
    for at, said in ((0.1, "0.1"), (1.0, "target"), (10.0, "10 ×")):
        drawn.append(word(place(at), 36, said, "end" if at == 10 else "mid", "soft"))
    for line, label in zip(lines, labels, strict=True):
        found, bound = line[line["on"]], line["bound"]
        up = line["sense"] == "least"
        shares = [_share(found[key], bound, up=up) for key in ("q1", "median", "q3")]
        kind = "good" if line["met"] else "bad"
        shown = f"{number(found['median'])} of {bound:g}{'' if line['on'] == 'ratio' else ' ' + line['unit']}"
        for at, rule in ((0.1, "rule"), (1.0, "mark"), (10.0, "rule")):
            drawn.append(f'<path class="{rule}" d="M{place(at):.1f} {y + 9}V{y + 21}"/>')
        drawn.append(word(LEFT, y + 6, label))
        drawn.append(word(RIGHT, y + 6, shown, "end", kind))
        drawn.append(f'<path class="line {kind}" d="M{place(shares[0]):.1f} {y + 15}H{place(shares[2]):.1f}"/>')
        drawn.append(f'<circle class="{kind}" cx="{place(shares[1]):.1f}" cy="{y + 15}" r="4"/>')
        y += 34
    drawn.append(word(LEFT, y + 4, "dot: median, bar: quartiles; left is better", "soft"))
    return picture("Each target and what was measured", y + 14, drawn)


def _share(value: float, bound: float, *, up: bool) -> float:
    if bound == 0:
        return 0.02 if value == 0 else 10.0
    return (bound / value if value else 10.0) if up else value / bound


def bars(title: str, groups: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], *, log: bool = False) -> str:
    """Return bars in groups: (heading, [(name, value, shown)]); on a logarithmic scale all groups share it."""
    drawn = [word(LEFT, 18, title + (" (logarithmic)" if log else ""), "head")]
    y = 30.0
    every = [value for _, rows in groups for _, value, _ in rows if value > 0]
    whole = max(every, default=1.0)
    place = logarithmic(min(every, default=1.0) / 2, whole) if log else None
    for heading, rows in groups:
        drawn.append(word(LEFT, y + 12, heading, "soft", "head"))
        y += 18
        for name, value, shown in rows:
            wide = (place(value) - LEFT if place else value / whole * (RIGHT - LEFT)) if value > 0 else 0.0
            drawn.append(word(LEFT, y + 11, name))
            drawn.append(word(RIGHT, y + 11, shown, "end"))
            drawn.append(f'<rect class="bar" x="{LEFT}" y="{y + 15:.0f}" width="{max(wide, 1):.1f}" height="5"/>')
            y += 26
        y += 6
    return picture(title, y + 4, drawn)
