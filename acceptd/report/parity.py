"""How outputs compare: by golden set with the worst elements, and what each kind of output has beside elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acceptd.evidence import Statistics
from acceptd.judge.finding import Finding
from acceptd.report.escape import line, markup
from acceptd.report.tables import BAD, code, table

ROWS: Final = 500
_LINES: Final = 48
_BESIDE: Final = frozenset({"prior", "prior-golden"})
_FIGURES: Final = (
    # part of the row, value, place of the worst, limit, name
    ("ranking", "top1_mismatches", "top1_worst", "top1", "rows with another top class"),
    ("ranking", "topk_mismatches", "topk_worst", "min_topk", "rows with another top {k}"),
    ("distribution", "outside", "outside_worst", "range", "values outside 0 to 1"),
    ("distribution", "max_sum_error", "sum_worst", "max_sum_error", "distance of a sum from 1"),
    ("distribution", "max_divergence", "divergence_worst", "max_divergence", "divergence (bit)"),
    ("embedding", "min_cosine", "cosine_worst", "min_cosine", "least cosine"),
    ("embedding", "max_norm_error", "norm_worst", "max_norm_error", "difference of length"),
    ("embedding", "neighbours", "neighbours_worst", "min_neighbours", "{k} nearest that stay"),
    ("boxes", "share", "unmatched_worst", "min_matched", "boxes with a match"),
    ("boxes", "min_iou", "iou_worst", "min_iou", "least IoU"),
    ("boxes", "class_share", "class_worst", "min_classes", "matches of one class"),
    ("boxes", "max_score_error", "score_worst", "max_score_error", "difference of scores"),
    ("sequence", "exact", "token_worst", "tokens", "exact rows of {rows}"),
    ("sequence", "unterminated", "end_worst", "end", "rows that end elsewhere"),
    ("audio", "min_snr_db", "snr_worst", "min_snr_db", "signal to noise (dB)"),
    ("audio", "max_lsd_db", "lsd_worst", "max_lsd_db", "log-spectral distance (dB)"),
)
NAMES: Final = {key: name for _, key, _, limit, name in _FIGURES if "{" not in name for key in (key, limit)} | {
    "min_topk": "share of rows with the same top classes",
    "topk": "share of rows with the same top classes",
    "min_neighbours": "share of the nearest rows that stay",
    "neighbours": "share of the nearest rows that stay",
}
"""What a figure is called for people, by its key and by that of its limit."""


def rows_of(
    each: Sequence[tuple[str, Statistics | None]], findings: Sequence[Finding] = ()
) -> list[dict[str, Any]]:
    """Return the rows of the comparer by profile as JSON data, those that fail first, at most 500.

    ``broken`` of a row names the limits that it breaks, as far as a finding says so.
    """
    broken: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        shown = finding.evidence
        for one in shown.get("broken", ()) if finding.code.startswith("parity/") else ():
            key = (finding.where.partition(": ")[0], str(shown.get("set")), str(shown.get("output")))
            broken.setdefault(key, []).append(str(one["figure"]))
    rows = [
        row.model_dump(exclude_none=True)
        | {"profile": profile}
        | {"broken": broken.get((row.model, row.set, row.output), []) if row.against == "golden" else []}
        for profile, statistics in each
        if statistics is not None
        for row in statistics.outputs
        if row.against != "input"  # they are meant to differ
    ]
    rows.sort(key=lambda row: (not _bad(row), row["model"], row["set"], row["output"]))
    return rows[:ROWS]


def _bad(row: Mapping[str, Any]) -> bool:
    return not row["comparable"] or bool(row["exceeding"]) or bool(row.get("broken"))


def _result(row: Mapping[str, Any]) -> str:
    """Return one word about a row, not yet escaped."""
    if not row["comparable"]:
        return str(row["note"]) or "not comparable"
    if row["bit_exact"]:
        return "exact"
    return "beyond" if _bad(row) else "within"


def figures(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], bool]]:
    """Yield (name, value, worst place, whether it breaks its limit) of what the kind has. Not yet escaped."""
    for part, key, place, limit, name in _FIGURES:
        found = row.get(part)
        if not found or found.get(key) is None or (limit == "min_topk" and found["k"] < 2):
            continue
        shown = name.format(k=found.get("k", ""), rows=found.get("rows", ""))
        yield shown, _number(found[key]), found.get(place) or {}, limit in row.get("broken", ())


def section(stats: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML: golden sets with their worst elements, figures by kind, then all other comparisons."""
    goldens = [row for row in stats if row["against"] == "golden"]
    # What is compared with a release is meant to differ, and has a section of its own.
    others = [row for row in stats if row["against"] not in {"golden", *_BESIDE}]
    special = [(row, figure) for row in goldens for figure in figures(row)]
    parts = []
    if goldens:
        head = ("output", "set", "result", "exceeding", "max abs", "max rel", "tolerance", "worst element")
        parts.append(table(head, [_element(row) for row in goldens], right=(3, 4, 5, 6)))
    if special:
        parts.append("<h3>By kind of output</h3>" + _by_kind(special))
    if others:
        title = "<h3>Other comparisons</h3>" if goldens else ""
        parts.append(title + _others(others))
    return "".join(parts)


def _by_kind(special: Sequence[tuple[Mapping[str, Any], Any]]) -> str:
    """Return the figures that break their limit, and all of them folded."""
    head = ("output", "set", "figure", "value", "worst at", "expected", "got")
    broken = [_figure(*one) for one in special if one[1][3]]
    first = table(head, broken, right=(3,)) if broken else "<p>None of them is beyond its limit.</p>"
    each = table(head, [_figure(*one) for one in special], right=(3,))
    return f"{first}<details><summary>each of the {len(special)} figures</summary>{each}</details>"


def _others(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return all that is no golden: counted by what it was compared with, and each of them folded."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((_output(row), str(row["against"])), []).append(row)
    counted = [
        (output, markup(against), markup(len(found)), f"{BAD}{bad}" if (bad := sum(map(_bad, found))) else "none")
        for (output, against), found in groups.items()
    ]
    short = ("output", "set", "against", "exceeding", "max abs", "max rel", "tolerance", "result")
    each = table(short, [_other(row) for row in rows], right=(3, 4, 5, 6))
    return (
        table(("output", "compared with", "comparisons", "beyond"), counted, right=(2, 3))
        + f"<details><summary>each of the {len(rows)} comparisons</summary>{each}</details>"
    )


def _output(row: Mapping[str, Any]) -> str:
    under = f" under {markup(row['profile'])}" if row.get("profile") else ""
    return f"{markup(row['model'])} {code(row['output'])}{under}"


def _numbers(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{markup(row['exceeding'])} of {markup(row['n'])}",
        markup(_number(row["max_abs"])),
        markup(_number(row["max_rel"])),
        f"{markup(_number(row['atol']))} + {markup(_number(row['rtol']))}·|e|",
    )


def _element(row: Mapping[str, Any]) -> tuple[str, ...]:
    differs = row["comparable"] and not row["bit_exact"] and row.get("worst_expected")
    place = ""
    if differs:
        expected, got = _short(row["worst_expected"]), _short(row["worst_got"])
        place = f"{_index(row.get('worst_index'))}: expected {expected}, got {got}"
    return (_output(row), code(row["set"]), _verdict(row), *_numbers(row), markup(place, 160))


def _figure(row: Mapping[str, Any], figure: tuple[str, str, Mapping[str, Any], bool]) -> tuple[str, ...]:
    name, value, place, broken = figure
    mark = BAD if broken else ""
    worst = (
        (_index(place.get("index")), place.get("expected", ""), place.get("got", "")) if place else ("", "", "")
    )
    return (
        _output(row),
        code(row["set"]),
        markup(name),
        mark + markup(value),
        *(markup(one, 80) for one in worst),
    )


def _other(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (_output(row), code(row["set"]), markup(row["against"]), *_numbers(row), _verdict(row))


def _verdict(row: Mapping[str, Any]) -> str:
    return f"{BAD if _bad(row) else ''}{markup(_result(row))}"


def _index(index: Sequence[int] | None) -> str:
    return f"[{', '.join(str(one) for one in index)}]" if index else "[]"


def _short(value: Any) -> str:
    """Return a number that came as text with nine digits, enough to tell any two float32 apart; else the text."""
    try:
        return f"{float(value):.9g}"
    except (TypeError, ValueError):
        return str(value)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else line(value, 40)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def terminal_rows(report: Mapping[str, Any], *, every: bool) -> list[tuple[str, str]]:
    """Return (name, text) for a terminal: a line for each golden set's output with ``every``, else what fails.

    Texts are plain and not yet escaped.
    """
    rows = [row for row in report.get("parity", ()) if row["against"] == "golden"]
    if not rows:
        return []
    bad = sum(map(_bad, rows))
    sets = len({(row["model"], row["set"]) for row in rows})
    outputs, golden = _counted(len(rows), "output"), _counted(sets, "golden set")
    head = f"{outputs} of {golden} compared, {bad or 'none'} beyond its tolerance"
    found = [("parity", head)]
    for row in rows[:_LINES] if every else ():
        under = f" under {row['profile']}" if row.get("profile") else ""
        found.append(("", f"{row['model']}: {row['set']}: {row['output']}{under}: {_words(row)}"))
    if every and len(rows) > _LINES:
        found.append(("", f"and {len(rows) - _LINES} more: see --json or the HTML report"))
    return found


def _words(row: Mapping[str, Any]) -> str:
    parts = [_result(row)]
    if row["comparable"] and not row["bit_exact"]:
        parts.append(f"{row['exceeding']} of {row['n']} exceed, max abs {_number(row['max_abs'])}")
        if row.get("worst_expected"):
            where = _index(row.get("worst_index"))
            parts.append(
                f"worst at {where}: expected {_short(row['worst_expected'])}, got {_short(row['worst_got'])}"
            )
    parts += [f"{name} {value} (beyond its limit)" for name, value, _, broken in figures(row) if broken]
    return "; ".join(parts)
