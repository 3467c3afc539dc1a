"""Policies, contracts and profiles are entries before a verdict rests on them. Pure.

Each part says which rules it names, and which it uses before it has named them itself; over the parts, in their
order, what nobody named before is a difference. Both lists are as long as there are different rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acceptd.record.auditing.report import Report
from acceptd.record.entry import Entry

RULES: Final = frozenset({"policy", "contract", "profile"})


class InPart:
    """Looks at the entries of one part, in their order."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], None] = {}
        self._used: dict[tuple[str, str], int] = {}

    def look(self, entry: Entry) -> None:
        """Take one entry."""
        if entry.type in RULES:
            self._named[entry.type, str(entry.body.get("digest"))] = None
        elif entry.type == "verdict":
            for rule in _used(entry):
                if rule not in self._named:
                    self._used.setdefault(rule, entry.seq)

    def came(self) -> dict[str, Any]:
        """Return what crosses to :class:`BeforeUse`, as plain JSON."""
        used = [[kind, digest, seq] for (kind, digest), seq in self._used.items()]
        return {"rules_named": [list(rule) for rule in self._named], "rules_used": used}


class BeforeUse:
    """Rules over the parts as they come in, in their order."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._known: set[tuple[str, str]] = set()

    def take(self, came: Mapping[str, Any]) -> None:
        """Take what a part came to; the first verdict of it that rests on an unnamed rule is told."""
        for kind, digest, seq in came.get("rules_used", ()):
            if (kind, digest) not in self._known:
                words = f"was judged by the {kind} {digest!r:.80}, which no entry before it names"
                self._report.add("entry", f"entry {seq}", words)
        self._known |= {(kind, digest) for kind, digest in came.get("rules_named", ())}


def _used(entry: Entry) -> Iterator[tuple[str, str]]:
    body = entry.body
    for kind in ("policy", "contract", "profile"):
        if body.get(f"{kind}_digest") is not None:
            yield kind, str(body[f"{kind}_digest"])
    profiles = body.get("profiles")
    for row in profiles if isinstance(profiles, list) else ():
        if isinstance(row, dict) and row.get("digest") not in {None, body.get("profile_digest")}:
            yield "profile", str(row["digest"])
