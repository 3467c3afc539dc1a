"""Policies, contracts and profiles are entries before a verdict rests on them. Pure.

Each part says which rules it names, and which it uses before it has named them itself; over the parts, in their
order, what nobody named before is a difference. Both lists are as long as there are different rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acceptd.record.auditing.report import Report

RULES: Final = frozenset({"policy", "contract", "profile"})


class InPart:
    """Looks at the entries of one part, in their order."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], None] = {}
        self._used: dict[tuple[str, str], int] = {}

    def look(self, kind: str, seq: int, body: Mapping[str, Any]) -> None:
        """Take one entry."""
        if kind == "verdict":
            for rule in _used(body):
                if rule not in self._named:
                    self._used.setdefault(rule, seq)
        elif kind in RULES:
            self._named[kind, str(body.get("digest"))] = None

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


def _used(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, key in _DIGESTS:
        digest = body.get(key)
        if digest is not None:
            yield kind, str(digest)
    profiles = body.get("profiles")
    for row in profiles if isinstance(profiles, list) else ():
        digest = row.get("digest") if isinstance(row, dict) else None
        if digest is not None and digest != body.get("profile_digest"):
            yield "profile", str(digest)


_DIGESTS: Final = tuple((kind, f"{kind}_digest") for kind in ("policy", "contract", "profile"))
