"""Writes what the team gets: ``outbox/<team>/<submission>/verdict.json`` and ``report.html``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acceptd.intake.files import replace_file
from acceptd.report.html import render


def write_outbox(outbox: Path, team: str, submission: str, report: Mapping[str, Any]) -> Path:
    """Write both files, the verdict last: who sees it finds the report beside it. Returns the directory."""
    folder = outbox / team / submission
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(folder, "report.html", render(report).encode("utf-8"), 0o644)
    text = json.dumps(report, ensure_ascii=True, sort_keys=True)
    replace_file(folder, "verdict.json", text.encode("ascii") + b"\n", 0o644)
    return folder
