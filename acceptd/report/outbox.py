"""Writes what the team gets: ``outbox/<team>/<submission>/verdict.json`` and ``report.html``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acceptd.intake.files import replace_file
from acceptd.report.document import for_team
from acceptd.report.html import render


def write_outbox(outbox: Path, team: str, submission: str, report: Mapping[str, Any]) -> Path:
    """Write both files as the team may see them, the verdict last: who sees it finds the report beside it."""
    shown = for_team(report)
    folder = outbox / team / submission
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(folder, "report.html", render(shown).encode("utf-8"), 0o644)
    text = json.dumps(shown, ensure_ascii=True, sort_keys=True)
    replace_file(folder, "verdict.json", text.encode("ascii") + b"\n", 0o644)
    return folder
