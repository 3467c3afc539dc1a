"""What the golden sets are worth: how many of which origin, answers on labelled rows, fixtures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.evidence import Sealed, Submission
from acceptd.judge.golden_sets import SetFiles, is_output, shown_by
from acceptd.judge.inventory import take
from acceptd.judge.jobs import Jobs
from acceptd.policy.manifest import Manifest
from acceptd.report.escape import line, markup
from acceptd.report.tables import code, table

COUNTED: Final = ("parity", "undeclared", "regression", "smoke")
_CLASSES: Final = 64
_ROWS: Final = 500


def goldens(submission: Submission, manifest: Manifest | None) -> dict[str, Any]:
    """Return counts of sets by model and by what their origin shows, quality figures, and fixtures, as JSON data.

    ``origins`` are the submitter's word; ``quality`` is what the comparer measured, of one profile.
    """
    if manifest is None or submission.sealed is None:
        return {"models": [], "quality": [], "fixtures": []}
    sets = take(submission.sealed, manifest).sets
    record = Jobs(tuple(submission.jobs)).last("vectors")
    decoded = record.vectors.sets if record is not None and record.vectors is not None else []
    empty = {(one.model, one.name) for one in decoded if not one.expected}
    return {
        "models": [
            _model(model.name, [one for one in sets if one.model == model.name], empty)
            for model in manifest.models
        ],
        "quality": _quality(submission, manifest),
        "fixtures": _fixtures(submission.sealed, manifest, sets),
    }


def _model(name: str, sets: Sequence[SetFiles], empty: set[tuple[str, str]]) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTED, 0)
    origins: dict[str, int] = {}
    for one in sets:
        smoke = one.smoke or (one.model, one.name) in empty
        counts["smoke" if smoke else shown_by(one.origin)] += 1
        if not smoke:
            origins[one.origin] = origins.get(one.origin, 0) + 1
    told = [{"origin": origin, "shows": shown_by(origin), "sets": count} for origin, count in origins.items()]
    return {"model": name, **counts, "labelled": sum(bool(one.labels) for one in sets), "origins": told}


def _quality(submission: Submission, manifest: Manifest) -> list[dict[str, Any]]:
    labels = {
        (model.name, output.name): output.labels or [] for model in manifest.models for output in model.outputs
    }
    rows = []
    for one in submission.statistics.quality if submission.statistics is not None else []:
        names = labels.get((one.model, one.output), [])
        row = one.model_dump()
        row["classes"] = [
            {**count, "name": names[count["label"]] if count["label"] < len(names) else ""}
            for count in row["classes"][:_CLASSES]
        ]
        rows.append(row)
    return rows[:_ROWS]


def _fixtures(sealed: Sealed, manifest: Manifest, sets: Sequence[SetFiles]) -> list[dict[str, Any]]:
    digests = {file.path: file.sha256 for file in sealed.files}
    found = []
    for one in manifest.preprocessing.fixtures if manifest.preprocessing is not None else []:
        owners = [files for files in sets if files.name == one.set and one.model in {None, files.model}]
        paths = [path for files in owners[:1] for path in files.files or (files.inputs,) if not is_output(path)]
        found.append(
            {
                "raw": one.raw,
                "raw_sha256": digests.get(one.raw),
                "set": one.set,
                "model": owners[0].model if owners else one.model,
                "inputs": [{"path": path, "sha256": digests.get(path)} for path in paths],
            }
        )
    return found


def section(report: Mapping[str, Any]) -> str:
    """Return the HTML section's content; empty where there is no golden at all."""
    told = report.get("goldens") or {}
    rows = [
        (markup(one["model"]), *(markup(one[key]) for key in COUNTED), _origins(one["origins"]))
        for one in told.get("models", [])
        if any(one[key] for key in COUNTED)
    ]
    head = ("model", "parity", "undeclared", "regression", "smoke", "origin, as the submitter tells it")
    counts = table(head, rows, right=(1, 2, 3, 4)) if rows else ""
    return counts + _figures(told.get("quality", [])) + _raw(told.get("fixtures", []))


def _origins(origins: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{markup(one['origin'])} ({markup(one['shows'])}, {markup(one['sets'])})" for one in origins)


def _figures(quality: Sequence[Mapping[str, Any]]) -> str:
    rows, classes = [], []
    for one in quality:
        place = f"{markup(one['model'])} {code(one['output'])}"
        name = "all" if one["slice"] is None else code(one["slice"])
        figures = (_figure(one["accuracy"]), _figure(one["calibration_error"]), _figure(one["brier"]))
        rows.append((place, name, markup(one["rows"]), *figures, markup(one["note"])))
        for count in one["classes"]:
            label = f"{markup(count['label'])} {markup(count['name'])}".strip()
            classes.append((place, name, label, markup(count["support"]), markup(count["false_negatives"])))
    if not rows:
        return ""
    head = ("output", "slice", "rows", "accuracy", "calibration error", "Brier score", "note")
    counted = table(("output", "slice", "class", "rows", "false negatives"), classes, right=(3, 4))
    return f"<h3>Labelled rows</h3>{table(head, rows, right=(2, 3, 4, 5))}{counted if classes else ''}"


def _figure(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, (int, float)) else "not measured"


def _raw(fixtures: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            code(one["raw"]),
            code(one["raw_sha256"] or "missing"),
            f"{markup(one['model'] or '')} {code(one['set'])}".strip(),
            code(file["path"]),
            code(file["sha256"] or "missing"),
        )
        for one in fixtures
        for file in one["inputs"] or [{"path": "", "sha256": None}]
    ]
    head = ("raw input", "SHA-256", "set", "tensor", "SHA-256")
    return f"<h3>Fixtures of the preprocessing</h3>{table(head, rows)}" if rows else ""


def terminal_rows(report: Mapping[str, Any], *, every: bool) -> list[tuple[str, str]]:
    """Return (name, plain text) rows for a terminal, not yet escaped."""
    told = report.get("goldens") or {}
    models = told.get("models", [])
    counts = {key: sum(one[key] for one in models) for key in COUNTED}
    unknown = f" ({counts['undeclared']} of undeclared origin)" if counts["undeclared"] else ""
    words = [
        f"{counts['parity'] + counts['undeclared']} for parity{unknown}",
        f"{counts['regression']} for regression alone" if counts["regression"] else "",
        f"{counts['smoke']} smoke" if counts["smoke"] else "",
    ]
    rows = [("goldens", ", ".join(word for word in words if word))] if every and any(counts.values()) else []
    for one in told.get("quality", []):
        if one["slice"] is None or every:
            rows.append(("labelled", _line(one)))
    if every:
        rows += [("fixture", f"{one['raw']} is {one['set']}") for one in told.get("fixtures", [])]
    return rows


def _line(one: Mapping[str, Any]) -> str:
    part = "" if one["slice"] is None else f" ({line(one['slice'], 60)})"
    place = f"{line(one['output'], 60)}{part}"
    if one["note"]:
        return f"{place}: {line(one['note'], 200)}"
    named = (("accuracy", one["accuracy"]), ("calibration", one["calibration_error"]), ("Brier", one["brier"]))
    figures = ", ".join(f"{name} {value:.4f}" for name, value in named if isinstance(value, (int, float)))
    missed = sum(count["false_negatives"] for count in one["classes"])
    return f"{place}: {one['rows']} rows, {figures}, {missed} false negatives"
