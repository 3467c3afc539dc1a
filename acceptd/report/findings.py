"""The findings of a report as HTML, a block for each code: what, where, why it matters, how to mend it.

What is said of a code is said once, however often it was found; more than a few places of one are folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.report.escape import markup, prose

OPEN: Final = 4
"""Places of one code that are shown before the others are folded."""
_KINDS: Final = 3
"""Codes that are only information that are shown before the others are folded."""
Finding = Mapping[str, Any]


def section(report: Mapping[str, Any]) -> str:
    """Return the section's content: what decides first."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in report["findings"]:
        kinds.setdefault((finding["severity"], finding["code"]), []).append(finding)
    serious = [_kind(found) for (severity, _), found in kinds.items() if severity != "info"]
    notes = [_kind(found) for (severity, _), found in kinds.items() if severity == "info"]
    blocks = serious
    if len(notes) > _KINDS:
        blocks.append(_folded(f"{len(notes)} notes, for information", "".join(notes)))
    else:
        blocks += notes
    withheld = int(report.get("withheld_findings", 0))
    if withheld:
        blocks.append(f'<p class="soft">{withheld} more, for reviewers only.</p>')
    return "".join(blocks) or "<p>None.</p>"


def _kind(found: Sequence[Finding]) -> str:
    """Return the block of all findings of one code and severity."""
    first = found[0]
    severity = markup(first["severity"], 20)
    count = sum(int(one.get("count", 1)) for one in found)
    times = f' <span class="soft">×{count}</span>' if count > 1 else ""
    name = f'<span class="tag">{severity}</span><code>{markup(first["code"])}</code>{times}'
    parts = [f'<div class="finding {severity}"><h3>{name}</h3>']
    if first.get("meaning"):
        parts.append(f"<p>{prose(first['meaning'])}</p>")
    places = [f"<li>{_place(one)}</li>" for one in found]
    parts.append(f"<ul>{''.join(places[:OPEN])}</ul>")
    if len(places) > OPEN:
        parts.append(_folded(f"and {len(places) - OPEN} more places", f"<ul>{''.join(places[OPEN:])}</ul>"))
    if first.get("reason"):
        see = ", ".join(markup(one, 60) for one in first.get("references") or ())
        told = f"{prose(first['reason'])}{f' See {see}.' if see else ''}"
        parts.append(f'<p class="soft"><b>Why it matters</b> {told}</p>')
    if first.get("remedy"):
        parts.append(f'<p class="remedy"><b>How to mend it</b> {prose(first["remedy"])}</p>')
    parts.append("</div>")
    return "".join(parts)


def _place(one: Finding) -> str:
    count = int(one.get("count", 1))
    where = f"<code>{markup(one['where'])}</code><br>" if one["where"] else ""
    under = f' <span class="soft">under {markup(one["profile"])}</span>' if one.get("profile") else ""
    times = f' <span class="soft">×{count}</span>' if count > 1 else ""
    return f"{where}{markup(one['message'])}{under}{times}"


def _folded(title: str, content: str) -> str:
    return f'<details class="findings"><summary>{title}</summary>{content}</details>'
