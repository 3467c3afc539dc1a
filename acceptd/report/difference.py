"""What differs from the current release, or from an independent export: as HTML, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acceptd.report.escape import markup
from acceptd.report.tables import BAD, code, table

SHOWN: Final = 24
_ROOM: Final = 360
"""Characters of one list of names in a terminal, where a cell has 400."""
_LONGEST: Final = 120
_PLACES: Final = 4
_LISTS: Final = (
    ("operators", "operators_added", "operators_removed"),
    ("domains", "domains_added", "domains_removed"),
    ("functions", "functions_added", "functions_removed"),
    ("initializers", "initializers_added", "initializers_removed"),
)
_WEIGHTS: Final = {
    "": "",
    "equal": "The same weights, by their digests.",
    "differ": "Weights differ: the digest over all values differs; values are not compared by name.",
    "unknown": "Weights differ, or other bytes do: model file digest differs, values not compared by name.",
}
UNDECLARED: Final = "Not compared: what the manifest of the release declares; it is no valid manifest any more."
_DRIVEN: Final = {"input": "", "none": "no input", "unknown": "a name that leads nowhere"}


def release_section(difference: Mapping[str, Any] | None) -> str:
    """Return the HTML about the current release; empty for a report that has none of it."""
    if not difference:
        return ""
    head = f"<p>{markup(heading(difference))}</p>"
    rows = [(markup(what), _cell(before), _cell(after)) for what, before, after in bundle_rows(difference)]
    whole = f"<h3>bundle.toml</h3>{table(('declared', 'before', 'now'), rows)}" if rows else ""
    unknown = f'<p class="soft">{markup(UNDECLARED)}</p>' if _undeclared(difference) else ""
    blocks = (f"<h3>{markup(one['model'])}</h3>{tables(one)}" for one in difference["models"])
    return head + unknown + whole + "".join(blocks)


def bundle_rows(difference: Mapping[str, Any]) -> list[tuple[str, list[str], list[str]]]:
    """Return (what, before, after) of what is declared about the whole bundle, texts not yet escaped."""
    bundle = difference.get("bundle") or {}
    changes = (*bundle.get("meaning", ()), *bundle.get("terms", ()))
    return [(one["what"], [one["before"]], [one["after"]]) for one in changes]


def _undeclared(difference: Mapping[str, Any]) -> bool:
    return (difference.get("bundle") or {}).get("compared") is False


def heading(difference: Mapping[str, Any]) -> str:
    """Return one line of plain text: what it was compared with, or why with nothing. Not yet escaped."""
    release = difference.get("release") or {}
    number = release.get("number")
    named = f"release {release.get('channel')} {number}" if number else "the bundle that was given"
    version = f", version {release['version']}" if release.get("version") else ""
    status = difference["status"]
    if status == "found":
        return f"Compared with {named}{version} ({str(release.get('bundle_digest'))[:16]})."
    if status == "unknown":
        return f"Not known what differs from {named}: {difference['reason']}"
    return f"Not compared: {difference['reason']}."


def independent_section(models: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML about independent exports; empty where no model has one."""
    parts = []
    for model in models:
        one = model.get("independent_export")
        if one:
            by = f" by {markup(one['exporter'])} (the submitter's word)" if one["exporter"] else ""
            parts.append(
                f"<h3>{markup(model['name'])} and {code(one['file'])}</h3><p>{markup(one['relation'])}{by}</p>"
            )
            if one["difference"]:
                parts.append(tables(one["difference"], older="released", newer="independent"))
    return "".join(parts)


def tables(one: Mapping[str, Any], *, older: str = "before", newer: str = "now") -> str:
    """Return the tables of one model's difference."""
    selections = [
        (
            f"{BAD}{code(choice['op_type'])}" if choice["driven"] != "none" else code(choice["op_type"]),
            markup(choice["count"]),
            "<br>".join(code(place) for place, _ in choice["places"][:SHOWN]) + _places_left(choice),
            "<br>".join(code(condition) for _, condition in choice["places"][:SHOWN]),
            code(choice["input"]) if choice["driven"] == "input" else markup(_DRIVEN[choice["driven"]]),
            markup(" → ".join(choice["path"])),
        )
        for choice in one["selections_new"]
    ]
    head = ("new selection", "count", "where", "condition", "decided by", "way to it")
    parts = [table(head, selections, right=(1,))] if selections else []
    rows = [(markup(what), _cell(before), _cell(after)) for what, before, after in rows_of(one)]
    parts += [table(("", older, newer), rows)] if rows else []
    if one["not_compared"]:
        parts.append(f'<p class="soft">Not compared: {markup("; ".join(one["not_compared"]))}.</p>')
    said = sentence(one)
    return (f"<p>{markup(said)}</p>" if said else "") + "".join(parts)


def _places_left(choice: Mapping[str, Any]) -> str:
    left = len(choice["places"]) - SHOWN
    return f"<br>and {left} more" if left > 0 else ""


def sentence(one: Mapping[str, Any]) -> str:
    """Return in plain words whether structure and weights are the same; empty where nothing is to be said."""
    weights = one.get("weights", "")
    if one["same_structure"] and not weights:
        said = "The same structure; at most values of weights differ."
    else:
        said = " ".join(
            part for part in ("The same structure." if one["same_structure"] else "", _WEIGHTS[weights]) if part
        )
    declared = (
        "What is declared about inputs or outputs differs." if one.get("meaning") or one.get("terms") else ""
    )
    return f"{said} {declared}".strip()


def _cell(texts: Sequence[str]) -> str:
    return "<br>".join(markup(text) for text in texts)


def rows_of(one: Mapping[str, Any], *, room: int | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (what, before, after), texts not yet escaped: gone on the left, new on the right.

    ``room``: most characters of one list of names. What a list has no room for is counted at its end.
    """
    declared = (*one.get("meaning", ()), *one.get("terms", ()))
    for change in declared:
        yield f"declared {change['what']}", [change["before"]], [change["after"]]
    for change in (*one["interface"], *one["versions"], *one["sizes"], *one.get("digests", ())):
        yield change["what"], [change["before"]], [change["after"]]
    for domain, pair in _first(one.get("domain_uses", {})):
        yield f"nodes of {domain}", [str(pair[0])], [str(pair[1])]
    yield from _rest("nodes of further domains", one.get("domain_uses", {}))
    for what, added, removed in _LISTS:
        lists = [_capped(one[key], one.get(f"{key}_count"), room) for key in (removed, added)]
        if any(lists):
            yield what, lists[0], lists[1]
    for name, pair in _first(one["counts"]):
        yield f"uses of {name}", [str(pair[0])], [str(pair[1])]
    yield from _rest("uses of further operators", one["counts"])
    if one["selections_gone"]:
        yield "selections", [f"{one['selections_gone']} that are gone"], []
    if one["selections_changed"]:
        yield "selections", [], [f"{one['selections_changed']} decided otherwise"]
    listed = sum(choice["count"] for choice in one["selections_new"])
    if (more := one.get("selections_new_count", 0) - listed) > 0:
        yield "new selections", [], [f"{more} more, which are not listed"]


def _first(counts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(counts.items())[:SHOWN]


def _rest(what: str, counts: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[str]]]:
    if len(counts) > SHOWN:
        yield what, [], [f"{len(counts) - SHOWN} more differ, which are not listed"]


def _capped(names: Sequence[str], count: int | None, room: int | None = None) -> list[str]:
    """Return as many names as there is room for, then how many more there are."""
    whole = len(names) if count is None else count
    shown: list[str] = []
    left = room or 0
    for name in names[:SHOWN]:
        text = name
        if room is not None:
            text = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}… ({len(name)} characters)"
            left -= len(text) + 2
            if left < 0:
                break
        shown.append(text)
    return [*shown, *([f"and {whole - len(shown)} more"] if whole > len(shown) else [])]


def terminal_lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (what, before, after) as plain text, not yet escaped: a heading with empty columns, then rows."""
    difference = report.get("difference")
    if difference and (difference["models"] or difference.get("bundle")):
        yield heading(difference), "", ""
        yield from bundle_lines(difference)
        for one in difference["models"]:
            yield from model_lines(one, ("release", "now"))
    for model in report.get("models", []):
        second = model.get("independent_export")
        if second:
            yield f"{model['name']} and its independent export {second['file']}: {second['relation']}", "", ""
            if second["difference"]:
                yield from _headed(second["difference"], ("this", "the other"))


def bundle_lines(difference: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is declared otherwise about the whole bundle, as :func:`terminal_lines` does."""
    if _undeclared(difference):
        yield UNDECLARED, "", ""
    for what, before, after in bundle_rows(difference):
        yield what, ", ".join(before), ", ".join(after)


def model_lines(one: Mapping[str, Any], sides: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield what differs of one model, as :func:`terminal_lines` does; ``sides`` stand above the columns."""
    if sentence(one):
        yield f"{one['model']}: {sentence(one)}", "", ""
    yield from _headed(one, sides)


def unchanged(one: Mapping[str, Any]) -> list[str]:
    """Return of what two models have the same, as far as it was compared."""
    versions = {change["what"].partition(" ")[0] for change in one["versions"]}
    sizes = {change["what"] for change in one["sizes"]}
    operators = one["counts"] or one["operators_added"] or one["operators_removed"]
    told = {
        "interface": not one["interface"],
        "IR version": "IR" not in versions,
        "opsets": "opset" not in versions,
        "operators": not operators,
        "functions": not (one["functions_added"] or one["functions_removed"]),
        "number of initializers": "initializers" not in sizes,
        "bytes of weights": "bytes of weights" not in sizes,
    }
    return [what for what, same in told.items() if same]


def _headed(one: Mapping[str, Any], sides: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a model, and first what their columns are."""
    rows = list(_model(one))
    if any(before or after for _, before, after in rows):
        yield "", *sides
    yield from rows


def _model(one: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for choice in one["selections_new"]:
        by = f"input {choice['input']}" if choice["driven"] == "input" else _DRIVEN[choice["driven"]]
        more = len(choice["places"]) - _PLACES
        where = ", ".join(place for place, _ in choice["places"][:_PLACES])
        where += f" and {more} more" if more > 0 else ""
        way = " → ".join(choice["path"])
        yield f"new selection {choice['op_type']} ({choice['count']})", by, f"{where}: {way}"
    for what, before, after in rows_of(one, room=_ROOM):
        yield what, ", ".join(before), ", ".join(after)
    for what in one["not_compared"]:
        yield f"not compared: {what}", "", ""
