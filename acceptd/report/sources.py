"""On whose evidence a fleet's verdict rests: node, host and key by profile, as the signed verdict names them.

For reviewers alone: a team is told nothing of the machines. Which host it is, a node says of itself; that the
policy trusts the key under that name, the promoter has seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from acceptd.errors import MalformedError
from acceptd.record import attest
from acceptd.report.escape import line
from acceptd.report.tables import code, table

FIELDS: Final = ("profile", "node", "host", "key_id", "statement")
_SHORT: Final = 16


def sources(envelope: object) -> list[dict[str, str]]:
    """Return a row for each statement that a verdict rests on; none where one machine did it all.

    ``envelope`` is the DSSE envelope of the ledger's own entry: whether its signature holds, ``acceptd verify``
    and ``acceptd ledger verify`` say.
    """
    try:
        rows = json.loads(attest.unverified(envelope)[0])["predicate"].get("nodes", [])
        return [{name: str(row[name]) for name in FIELDS} for row in rows]
    except (MalformedError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def sources_section(report: Mapping[str, Any]) -> str:
    """Return the section's content; empty where one machine did it all."""
    rows = report.get("sources") or []
    if not rows:
        return ""
    cells = [
        (code(one["profile"]), code(one["node"]), code(one["host"]), code(one["key_id"]), code(one["statement"]))
        for one in rows
    ]
    note = "As the signed verdict names them. Which host it is, a node says of itself; its key the policy trusts."
    head = ("profile", "node", "host", "key", "statement (SHA-256)")
    return f'<p class="soft">{note}</p>{table(head, cells)}'


def source_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, plain text) rows for a terminal, escaped."""
    return [
        ("evidence" if not number else "", line(_told(one), 300))
        for number, one in enumerate(report.get("sources") or [])
    ]


def _told(row: Mapping[str, Any]) -> str:
    return f"{row['profile']} by {row['node']} on {row['host']}, key {str(row['key_id'])[:_SHORT]}"
