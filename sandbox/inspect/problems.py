"""A bounded list of problems: a hostile model can have a million of one kind."""

from __future__ import annotations

from sandbox.messages import clip

MAX_PER_CODE = 12
MAX_PROBLEMS = 1000
"""Below the 1024 that the frame takes."""


class Problems:
    """Collects ``{code, where, message}``, at most MAX_PER_CODE of one code, and counts the rest."""

    def __init__(self) -> None:
        self._kept: dict[str, list[dict[str, str]]] = {}
        self._counts: dict[str, int] = {}
        self._total = 0

    def add(self, code: str, where: str, message: str) -> None:
        """Keep one problem, or only count it."""
        self._counts[code] = self._counts.get(code, 0) + 1
        kept = self._kept.setdefault(code, [])
        if len(kept) < MAX_PER_CODE and self._total < MAX_PROBLEMS:
            kept.append({"code": code, "where": where or "model", "message": clip(message, 400)})
            self._total += 1

    def __contains__(self, code: str) -> bool:
        return code in self._counts

    def frame(self) -> list[dict[str, str]]:
        """Return the problems in the order of their codes' first appearance; the last of a code has the count."""
        out: list[dict[str, str]] = []
        for code, kept in self._kept.items():
            out += kept
            if kept and self._counts[code] > len(kept):
                out[-1] = {**out[-1], "message": f"{out[-1]['message']} (one of {self._counts[code]})"}
        return out
