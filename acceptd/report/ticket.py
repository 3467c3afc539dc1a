"""The part of a verdict that one would paste into a ticket: the last lines of ``acceptd check``. Pure, escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd import __version__
from acceptd.report.escape import line

FIRST: Final = 3
"""Findings that are named."""
_DECIDING: Final = {"rejected": "reject", "held": "hold"}


def ticket_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) of verdict, first findings with place and remedy, digests and versions."""
    verdict = str(report["verdict"])
    name = report.get("bundle_id") or report.get("path") or "without a name"
    bundle = line(f"{name} {report.get('bundle_version') or ''}".strip(), 200)
    rows = [("verdict", f"{verdict.upper()} {bundle}")]
    deciding = _DECIDING.get(verdict)
    seen: dict[str, Mapping[str, Any]] = {}
    for finding in report["findings"]:
        if verdict != "accepted" and (deciding is None or finding["severity"] == deciding):
            seen.setdefault(str(finding["code"]), finding)
    for finding in list(seen.values())[:FIRST]:
        at = f" at {line(finding['where'], 160)}" if finding.get("where") else ""
        rows.append(("because", f"{line(finding['code'], 64)}{at}"))
        if finding.get("remedy"):
            rows.append(("", f"→ {line(finding['remedy'], 240)}"))
    if verdict == "inconclusive" and not seen:
        rows.append(("because", line(report["reason"], 240)))
    rows.append(("bundle", line(report.get("bundle_digest") or "not sealed", 64)))
    rows.append(("policy", line(report["policy_digest"], 64)))
    runtime = report.get("runtime") or {}
    words = [f"acceptd {__version__}", f"policy {line(report.get('policy') or 'unnamed', 64)}"]
    words += [f"onnxruntime {line(runtime['onnxruntime'], 40)}"] if runtime.get("onnxruntime") else []
    rows.append(("judged by", ", ".join(words)))
    return rows
