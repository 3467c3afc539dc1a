"""What is known about one finding code before anything is found."""

from __future__ import annotations

from dataclasses import dataclass

from acceptd.judge.finding import Audience, Severity


@dataclass(frozen=True, slots=True)
class Code:
    """Default severity, who may see it, what it means and what to do about it."""

    severity: Severity
    audience: Audience
    meaning: str
    remedy: str


Table = dict[str, Code]
"""Codes by name, ``group/short-name``."""
