"""Where a bundle came to be current, and why it did not: texts of the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def places(report: Mapping[str, Any]) -> str:
    """Return the releases that a bundle became by itself as one line; empty where there is none."""
    found = report.get("releases") or ([report["release"]] if report.get("release") else [])
    return ", ".join(f"{one.get('channel', '')} {one.get('number', '')}".strip() or "promoted" for one in found)


def troubles(report: Mapping[str, Any]) -> list[str]:
    """Return why it is not current on a channel that it would have come to by itself, and how it gets there."""
    return str(report.get("promotion_trouble") or "").splitlines()
