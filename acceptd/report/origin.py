"""The export record, licence and terms in the HTML report and as lines for a terminal: the submitter's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.report.escape import line, markup
from acceptd.report.tables import code, table

NOTE: Final = "The submitter's word: acceptd signed it as told and measured none of it."


def origin(declared: Mapping[str, Any] | None) -> str:
    """Return the section's content; empty where the bundle says nothing of its origin and terms."""
    if not declared:
        return ""
    export = declared["export"]
    rows = [(name, value) for name, value in _facts(declared) if value]
    pairs = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    parts = [f"<dl>{pairs}</dl>" if pairs else "", _lineage(export), _quality(export)]
    return f'<p class="soft">{markup(NOTE)}</p>{"".join(parts)}' if any(parts) else ""


def _facts(declared: Mapping[str, Any]) -> list[tuple[str, str]]:
    export = declared["export"]
    exporter, checkpoint = export.get("exporter", {}), export.get("checkpoint", {})
    return [
        ("Licence", _maybe(declared.get("license"))),
        ("Redistribution", _maybe(export.get("redistribution"))),
        ("Purpose", _maybe(declared.get("purpose"))),
        ("Prohibited uses", "<br>".join(markup(use) for use in declared.get("prohibited_uses", []))),
        ("Framework", _maybe(export.get("framework"))),
        ("Exporter", markup(f"{exporter['name']} {exporter['version']}") if exporter else ""),
        ("Checkpoint", f"{code(checkpoint['sha256'])} {_maybe(checkpoint.get('revision'))}" if checkpoint else ""),
        ("Code revision", _maybe(export.get("code_revision"))),
        ("Tested hardware", "<br>".join(markup(one) for one in export.get("tested_hardware", []))),
        ("Layers", _maybe(export.get("layers"))),
        ("Parity with the source", markup(parity_words(export["parity"])) if "parity" in export else ""),
    ]


def parity_words(parity: Mapping[str, Any]) -> str:
    """Return the comparison with the source in one line of plain text, not yet escaped."""
    more = [f"{parity['samples']} samples"] if "samples" in parity else []
    more += [f"{name} {parity[name]:.3g}" for name in ("rtol", "atol") if name in parity]
    more += [f"largest difference {parity['max_abs']:.3g}"] if "max_abs" in parity else []
    return f"{parity['result']}: {parity['compared']}" + (f" ({', '.join(more)})" if more else "")


def _lineage(export: Mapping[str, Any]) -> str:
    rows = [
        (markup(one["name"]), _maybe(one.get("revision")), _maybe(one.get("sha256")), _maybe(one.get("terms")))
        for one in export.get("dataset_lineage", [])
    ]
    return f"<h3>Data</h3>{table(('data set', 'revision', 'sha256', 'terms'), rows)}" if rows else ""


def _quality(export: Mapping[str, Any]) -> str:
    rows = [
        (markup(one["metric"]), f"{one['value']:g}", markup(one["dataset"]), _maybe(one.get("slice")))
        for one in export.get("quality", [])
    ]
    return f"<h3>Quality</h3>{table(('metric', 'value', 'data set', 'slice'), rows, right=(1,))}" if rows else ""


def _maybe(value: Any) -> str:
    return "" if value is None else markup(value)


def terminal_rows(declared: Mapping[str, Any] | None, *, every: bool) -> list[tuple[str, str]]:
    """Return (name, plain text) rows for a terminal, not yet escaped: licence and export, or ``every`` field."""
    if not declared:
        return []
    export = declared["export"]
    exporter, checkpoint = export.get("exporter", {}), export.get("checkpoint", {})
    by = [f"{exporter['name']} {exporter['version']}"] if exporter else []
    rows = [
        ("licence", declared.get("license") or ""),
        ("export", ", ".join([*([export["framework"]] if "framework" in export else []), *by])),
        ("not for", "; ".join(declared.get("prohibited_uses", []))),
    ]
    if every:
        rows += [
            ("purpose", declared.get("purpose") or ""),
            ("terms", export.get("redistribution", "")),
            ("checkpoint", f"{checkpoint['sha256']} {checkpoint.get('revision', '')}" if checkpoint else ""),
            ("code", export.get("code_revision", "")),
            (
                "data",
                _words(export.get("dataset_lineage", []), "name", "revision", "terms"),
            ),
            ("parity", parity_words(export["parity"]) if "parity" in export else ""),
            ("hardware", "; ".join(export.get("tested_hardware", []))),
            (
                "quality",
                _words(export.get("quality", []), "metric", "value", "dataset", "slice"),
            ),
            ("layers", str(export.get("layers", ""))),
        ]
    told = [(name, line(text, 300)) for name, text in rows if text]
    return [("submitter", "says of it, and acceptd measured none of it:"), *told] if told else []


def _words(rows: Sequence[Mapping[str, Any]], *keys: str) -> str:
    lines = ([f"{row[key]:g}" if key == "value" else str(row[key]) for key in keys if key in row] for row in rows)
    return "; ".join(" ".join(words) for words in lines)
