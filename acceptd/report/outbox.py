"""Writes what the team gets: ``verdict.json``, ``report.html`` and ``statement.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acceptd.intake.files import remove_temporaries, replace_files
from acceptd.report.document import for_team
from acceptd.report.html import render


def write_outbox(
    outbox: Path, team: str, submission: str, report: Mapping[str, Any], statement: Mapping[str, Any] | None = None
) -> Path:
    """Write what the team may see, the verdict last: who sees it finds the rest beside it.

    ``statement`` is the signed statement of the verdict, which holds nothing that is for reviewers alone.
    """
    shown = for_team(report)
    folder = outbox / team / submission
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    remove_temporaries(folder)  # of a daemon that was killed while it wrote this very report
    files = {"report.html": render(shown).encode("utf-8")}
    for name, value in (("statement.json", statement), ("verdict.json", shown)):
        if value is not None:
            files[name] = json.dumps(value, ensure_ascii=True, sort_keys=True).encode("ascii") + b"\n"
    replace_files(folder, files.items(), 0o644)
    return folder
