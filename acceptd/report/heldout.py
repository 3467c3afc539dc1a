"""What came of the held-out vectors, for reviewers: a section of the page and lines at a terminal.

A team's report has no such part: :func:`acceptd.report.document.for_team` takes it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acceptd.report.escape import markup, milliseconds, size
from acceptd.report.tables import code, table

_STATUS: Final = {
    "run": "evaluated",
    "spent": "not evaluated: no evaluation is left for this version of the contract",
    "refused": "not evaluated: what the contract names could not be read",
    "local": "not evaluated: a local check has none",
}


def heading(held: Mapping[str, Any]) -> str:
    """Return one line on what was done. Plain text, not escaped."""
    number = f" (evaluation {held['evaluation']} of this version of the contract)" if held["evaluation"] else ""
    reason = f": {held['reason']}" if held["reason"] else ""
    return f"{_STATUS.get(held['status'], held['status'])}{number}{reason}"


def result(report: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the result in a word, and the findings of it."""
    found = next((one for one in report["findings"] if one["code"] == "heldout/result"), None)
    evidence = found["evidence"] if found is not None else {}
    return str(evidence.get("result", "")), list(evidence.get("findings", ()))


def section(report: Mapping[str, Any]) -> str:
    """Return the section's HTML; empty where there is nothing to show, as in every team's page."""
    held = report.get("heldout")
    if not held:
        return ""
    words, found = result(report)
    parts = [f'<p class="soft">For reviewers alone: {markup(heading(held), 2000)}.</p>']
    if words:
        parts.append(f"<p><b>{markup(words)}</b></p>")
    if found:
        told = [
            (f"{markup(one['severity'])} {code(one['code'])}<br>{code(one['where'])}", markup(one["message"]))
            for one in found
        ]
        parts.append(table(("finding", "message"), told))
    if held["rows"]:
        names = held["sets"]
        measured = [
            (
                f"{markup(row['model'])} {code(row['output'])}",
                f"{code(names.get(row['set'], row['set']))} {markup(row.get('profile', ''))}",
                markup(_short(row["max_abs"])),
                f"{markup(row['exceeding'])} of {markup(row['n'])}",
                markup(row["worst_expected"]),
                markup(row["worst_got"]),
            )
            for row in held["rows"]
        ]
        parts.append(
            table(("output", "set", "max abs", "exceeding", "expected", "got"), measured, right=(2, 3, 4, 5))
        )
    if held["jobs"]:
        spent = [
            (
                markup(job["kind"]),
                markup(job["model"]),
                markup(job["ending"] + (f": {job['cause']}" if job["cause"] else "")),
                markup(milliseconds(job["wall_ms"])),
                markup(size(job["peak_memory_bytes"])),
            )
            for job in held["jobs"]
        ]
        parts.append(table(("job", "model", "ending", "wall", "peak memory"), spent, right=(3, 4)))
    return "".join(parts)


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines for a terminal, not escaped: heading, result, findings."""
    held = report.get("heldout")
    if not held:
        return
    words, found = result(report)
    yield f"Held-out vectors, for reviewers alone: {heading(held)}{f'; {words}' if words else ''}"
    for one in found:
        yield f"  {one['severity']:6} {one['code']} at {one['where']}: {one['message']}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)
