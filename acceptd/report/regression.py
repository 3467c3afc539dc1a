"""A submission run beside the current release: as HTML, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acceptd.report.escape import markup, milliseconds, size
from acceptd.report.parity import NAMES
from acceptd.report.tables import BAD, code, table

LABELS: Final = 24
_STATUS: Final = {
    "not-comparable": "Not comparable",
    "unavailable": "Not compared, for no fault of this bundle",
    "failed": "The release did not run",
}
Report = Mapping[str, Any]


def regression_section(report: Report) -> str:
    """Return the HTML of all models; empty where nothing was run beside a release."""
    places = broken(report)
    return "".join(_model(one, places) for one in report.get("regression") or ())


def for_team(models: Sequence[Report]) -> list[dict[str, Any]]:
    """Return the section as the submitting team may see it: not what is wrong on the acceptor's side."""
    ours = {"unavailable", "failed"}
    return [{**one, "reason": ""} if one["status"] in ours else dict(one) for one in models]


def broken(report: Report) -> set[str]:
    """Return the places of findings that reject or hold because of the comparison."""
    return {
        str(one["where"])
        for one in report["findings"]
        if one["code"].startswith("regression/") and one["severity"] in {"reject", "hold"}
    }


def heading(one: Report) -> str:
    """Return one line of plain text about a model. Not yet escaped."""
    if one["status"] != "compared":
        told = _STATUS[one["status"]]
        return f"{told}: {one['reason']}." if one["reason"] else f"{told}."
    goldens, draws = one["inputs"]
    kinds = "; quantised against float" if one["quantised"] else ""
    return f"Both answered {_count(goldens, 'golden set')} and {_count(draws, 'draw')} inside the domain{kinds}."


def _count(number: Any, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _model(one: Report, places: set[str]) -> str:
    parts = [f"<h3>{markup(one['model'])}</h3><p>{markup(heading(one))}</p>"]
    where = f"models.{one['model']}"
    if one["outputs"]:
        head = ("output", "kind", "same class", "max abs", "beyond tolerance", "golden error", "release's")
        parts.append(table(head, [_output(row, where, places) for row in one["outputs"]], right=(3, 4, 5, 6)))
    for row in one["outputs"]:
        parts.append(_labels(row, f"{where}: {row['output']}", places))
    costs = [_cost(row) for row in one["cost"]]
    rows = [*costs, *(tuple(markup(cell) for cell in row) for row in _facts(one))]
    if rows:
        parts.append(table(("", "release", "now", "ratio"), [(*row, "")[:4] for row in rows], right=(1, 2, 3)))
    parts.append(_profiles(one.get("profiles")))
    parts += [f'<p class="soft">{markup(text)}</p>' for text in remarks(one)]
    return "".join(parts)


def _output(row: Report, where: str, places: set[str]) -> tuple[str, ...]:
    bad = BAD if f"{where}: {row['output']}" in places else ""
    goldens = row["goldens"]
    return (
        f"{bad}{code(row['output'])}",
        markup(row["kind"]),
        markup(agreement(row)),
        markup(number(row["max_abs"])),
        markup(f"{row['beyond']} of {row['elements']}"),
        markup(number(row["error"]) if goldens else ""),
        markup(number(row["release_error"]) if goldens else ""),
    )


def agreement(row: Report) -> str:
    """Return how many rows keep their class; empty for an output without classes."""
    rows = row["rows"]
    if not rows:
        return ""
    right = f", {row['corrected']} as the golden expects" if row["corrected"] else ""
    return f"{rows - row['mismatches']} of {rows} ({1 - row['mismatches'] / rows:.1%}){right}"


def _labels(row: Report, place: str, places: set[str]) -> str:
    cells = []
    for one in row["labels"][:LABELS]:
        bad = BAD if f"{place}: {one['label']}" in places else ""
        lost = one["missed"] / one["rows"] if one["rows"] else 0.0
        cells.append(
            (
                f"{bad}{markup(one['label'])}",
                markup(one["rows"]),
                markup(one["missed"]),
                markup(one["corrected"] or ""),
                markup(f"{lost:.1%}"),
            )
        )
    head = (f"label of {markup(row['output'])}", "rows in the release", "other now", "as expected", "lost")
    more = len(row["labels"]) - LABELS
    left = f'<p class="soft">and {more} more labels</p>' if more > 0 else ""
    return f"{table(head, cells, right=(1, 2, 3, 4))}{left}" if cells else ""


def _cost(row: Report) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return markup(row["what"]), markup(figure(row, "release")), markup(figure(row, "now")), markup(ratio)


def figure(row: Report, side: str) -> str:
    """Return one side of a cost for people."""
    value = row[side]
    if row["unit"] == "bytes":
        return size(int(value)) if isinstance(value, int | float) else str(value)
    return milliseconds(value)


def _profiles(both: Report | None) -> str:
    """Return the table of operators and layers that lost time or moved."""
    cells = [
        (
            f"{code(row['name'])} {'' if row['scope'] == 'operator' else markup('(layer)')}",
            markup(row["why"]),
            markup(side(row["release"])),
            markup(milliseconds(row["release"]["ms"])),
            markup(side(row["now"])),
            markup(milliseconds(row["now"]["ms"])),
        )
        for row in (both["lost"] if both else ())
    ]
    head = ("operator or layer", "what", "in the release", "own time", "now", "own time")
    return table(head, cells, right=(3, 5)) if cells else ""


def side(one: Report) -> str:
    """Return what an operator or layer is made of in one model. Not yet escaped."""
    return f"{', '.join(one['operators'])} on {', '.join(one['providers'])}" if one["operators"] else "none"


def _profiled(both: Report | None) -> Iterator[str]:
    if both is None:
        return
    if both["reason"]:
        yield f"Operators were not timed beside the release's: {both['reason']}."
        return
    lost = "" if both["lost"] else "; no operator or layer takes more time or another provider"
    yield (
        f"All nodes of one inference under onnxruntime's profiler ({both['runs'][0]} and {both['runs'][1]} runs): "
        f"release {milliseconds(both['release'])}, now {milliseconds(both['now'])}{lost}. Times, names and "
        "providers are the jobs' word, and decide nothing."
    )


def _facts(one: Report) -> Iterator[tuple[str, str, str]]:
    for what, before, now in one["opsets"]:
        yield what, before, now
    for provider, before, now in one["placement"]:
        yield f"nodes on {provider}", str(before), str(now)
    for name, before, now in one["operators"]:
        yield f"uses of {name}", str(before), str(now)
    for name, before, now in one["moved"]:
        yield f"provider of {name}", before, now


def remarks(one: Report) -> Iterator[str]:
    """Yield sentences about what the tables do not show. Not yet escaped."""
    for row in one["outputs"]:
        if row["figures"]:
            shown = (f"{NAMES.get(name, name)} {number(value)}" for name, value in row["figures"])
            yield f"{row['output']} against the release: {', '.join(shown)}."
        if row["sequences"]:
            yield f"{row['output']}: {row['exact']} of {row['sequences']} rows have the release's tokens."
        worst = row["worst"]
        if row["max_abs"] and worst["set"]:
            sides = f"release {worst['release']}, now {worst['now']}"
            yield f"{row['output']} differs most at {worst['set']} {worst['index']}: {sides}."
        if row["incomparable"]:
            yield f"{row['output']}: {_count(row['incomparable'], 'output')} of another form ({row['note']})."
    for name, reason in one["skipped"].items():
        yield f"{name} is not compared: {reason}."
    if one["unanswered"]:
        yield f"Only the release answers: {', '.join(one['unanswered'][:8])}."
    if one["release_errors"]:
        yield f"The release gives errors: {'; '.join(one['release_errors'][:4])}."
    yield from _profiled(one.get("profiles"))
    if one["slowest"]:
        told = ", ".join(f"{name} on {provider} {milliseconds(ms)}" for name, provider, ms in one["slowest"])
        yield f"Most time in one inference: {told}."
    if one["operators"] or one["moved"] or one["slowest"]:
        yield f"Operators are told from {one['basis']}."


def number(value: Any) -> str:
    """Return a figure with three digits."""
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)


def terminal_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield (what, release, now) as plain text, not yet escaped: a heading with empty columns, then rows."""
    for one in report.get("regression") or ():
        yield f"{one['model']} beside the current release: {heading(one)}", "", ""
        if one["outputs"] or one["cost"]:
            yield "", "release", "now"
        for row in one["outputs"]:
            name = row["output"]
            if row["rows"]:
                yield f"{name}: same class", "", agreement(row)
            yield (
                f"{name}: greatest difference",
                "",
                f"{number(row['max_abs'])}; {row['beyond']} of {row['elements']} beyond the tolerance",
            )
            if row["goldens"]:
                yield f"{name}: golden error", number(row["release_error"]), number(row["error"])
            for label in [one for one in row["labels"] if one["missed"]][:LABELS]:
                yield f"{name}: rows of {label['label']}", str(label["rows"]), str(label["rows"] - label["missed"])
        for row in one["cost"]:
            ratio = "" if row["ratio"] is None else f" (x {row['ratio']:.2f})"
            yield row["what"], figure(row, "release"), figure(row, "now") + ratio
        for what, before, now in _facts(one):
            if before != now:
                yield what, before, now
        for row in (one.get("profiles") or {}).get("lost", ()):
            sides = [f"{side(row[which])}, {milliseconds(row[which]['ms'])}" for which in ("release", "now")]
            yield f"{row['scope']} {row['name']} ({row['why']})", sides[0], sides[1]
        for text in remarks(one):
            yield text, "", ""
