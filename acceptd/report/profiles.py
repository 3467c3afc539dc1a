"""The verdict under each profile: rows of the report, a section in HTML, a line for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.evidence import Submission
from acceptd.judge.finding import Judgement
from acceptd.judge.profiles import Target
from acceptd.report.escape import line, markup
from acceptd.report.tables import BAD, code, table

WITHHELD: Final = "decided by findings that only a reviewer may see"


def profile_rows(judgement: Judgement, submission: Submission, targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Return one row for each profile that was judged under, with what really ran."""
    digests = {target.profile.name: target.digest for target in targets}
    rows = []
    for one in judgement.profiles:
        view = submission.under(one.profile)
        record = view.runtimes[-1] if view.runtimes else None
        row = one.model_dump() | {
            "digest": digests.get(one.profile, ""),
            "runtime_identity": view.runtime_identity,
        }
        rows.append(row | {"runtime": record.model_dump(mode="json", by_alias=True) if record else {}})
    return rows


def for_team(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows as the submitting team may see them."""
    return [
        {**row, "reason": WITHHELD, "decided_by": ""} if row["decided_by"] == "reviewer" else dict(row)
        for row in rows
    ]


def profiles_section(report: Mapping[str, Any]) -> str:
    """Return the section's content; empty where there is one profile, whose verdict is the whole one."""
    rows = report.get("profiles") or []
    if len(rows) < 2:
        return ""
    cells = [
        (
            code(row["profile"]) + ("" if row["required"] else ' <span class="soft">(optional)</span>'),
            "accepted" if row["verdict"] == "accepted" else BAD + markup(f"{row['verdict']}: {row['reason']}"),
            markup(_runtime(row))
            + (f"<br>{code(str(row['runtime_identity'])[:16])}" if row["runtime_identity"] else ""),
        )
        for row in rows
    ]
    note = "The worst verdict of the required profiles is the whole one; a release holds for those that accept."
    head = ("profile", "verdict", "runtime and identity")
    return f'<p class="soft">{note}</p>{table(head, cells)}'


def profile_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, plain text) rows for a terminal, not yet escaped: one for each profile of several."""
    rows = report.get("profiles") or []
    if len(rows) < 2:
        return []
    return [("profiles" if index == 0 else "", line(_told(row), 300)) for index, row in enumerate(rows)]


def _told(row: Mapping[str, Any]) -> str:
    word = row["verdict"] if row["required"] else f"{row['verdict']}, optional"
    ran = _runtime(row)
    return f"{row['profile']} {word}{f' ({ran})' if ran else ''}"


def _runtime(row: Mapping[str, Any]) -> str:
    record = row.get("runtime") or {}
    if not record:
        return ""
    providers = "+".join(name.removesuffix("ExecutionProvider") for name in record["providers"])
    return f"onnxruntime {record['onnxruntime']}, {providers}, {record['optimisation']}"
