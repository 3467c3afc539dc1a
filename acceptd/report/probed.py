"""What was probed, how often, and what was left out, in the document, the HTML report and for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from acceptd.evidence import SCOPES, JobRecord
from acceptd.report.escape import markup, size
from acceptd.report.tables import table

_SCOPES: Final = {
    "inside": "inside the declared domain",
    "outside": "outside of it",
    "relations": "relations between calls",
}
_SHOWN: Final = 8


def probed(records: Iterable[JobRecord]) -> list[dict[str, Any]]:
    """Return one entry for each scope of each run that says what it tried."""
    return [
        {"model": record.model, "profile": record.profile, "variant": record.variant, **one.model_dump()}
        for record in records
        if record.kind == "run"
        for one in record.probed[:SCOPES]
    ]


def probed_section(report: Mapping[str, Any]) -> str:
    """Return the section's content; empty where nothing was probed."""
    rows = [
        (
            markup(one["model"]),
            markup(_SCOPES.get(one["scope"], one["scope"]) + _whose(one)),
            markup(tried(one)),
            markup(left_out(one)),
            markup(notes(one)),
        )
        for one in report.get("probed") or []
    ]
    if not rows:
        return ""
    note = "As the run jobs say themselves; what their outputs show is among the findings and comparisons."
    head = ("model", "where", "tried", "left out", "found")
    return f'<p class="soft">{note}</p>' + table(head, rows)


def probed_rows(report: Mapping[str, Any], *, every: bool) -> list[tuple[str, str]]:
    """Return rows of (name, text) for a terminal: one for each model, all scopes where ``every`` is set."""
    found = []
    several = len({one.get("profile") for one in report.get("probed") or []}) > 1
    for one in report.get("probed") or []:
        under = f" under {one['profile']}" if several and one.get("profile") else ""
        if every or (one["scope"] == "inside" and not _whose(one)):
            parts = [tried(one), notes(one)] + ([f"left out: {left_out(one)}"] if one["left_out"] else [])
            where = f"{one['model']} {one['scope']}{under}{_whose(one)}"
            found.append(("probed", f"{where}: {'; '.join(part for part in parts if part)}"))
    return found[: 64 if every else _SHOWN]


def _whose(one: Mapping[str, Any]) -> str:
    return ", the release beside it" if one.get("variant") == "prior" else ""


def tried(one: Mapping[str, Any]) -> str:
    """Return what was tried, as counts."""
    return ", ".join(f"{count} {what}" for what, count in one["counts"].items() if count)


def left_out(one: Mapping[str, Any]) -> str:
    """Return what was not tried, and why."""
    return ", ".join(
        f"{part['count']} {part['what']} ({part['reason']})"
        if part["count"] > 1
        else f"{part['what']} ({part['reason']})"
        for part in one["left_out"][:_SHOWN]
    )


def notes(one: Mapping[str, Any]) -> str:
    """Return what the run says of classes, batch sizes, memory and calls at once."""
    parts = []
    if one.get("classes") is not None:
        parts.append(f"{one['classes']} top classes among the draws")
    if one.get("least_margin") is not None:
        parts.append(f"least margin between two classes {one['least_margin']:.2g}")
    if one.get("sizes"):
        kept = one.get("retained_bytes")
        told = "" if kept is None else f", which keep {'-' if kept < 0 else ''}{size(abs(kept))}"
        parts.append(f"batches of {', '.join(str(number) for number in one['sizes'])}{told}")
    if one.get("concurrent"):
        parts.append(f"up to {one['concurrent']} calls at once")
    return "; ".join(parts)
