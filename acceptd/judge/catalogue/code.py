"""What is known about one finding code before anything is found."""

from __future__ import annotations

from dataclasses import dataclass

from acceptd.judge.catalogue.references import Reference
from acceptd.judge.finding import Audience, Severity


@dataclass(frozen=True, slots=True)
class Code:
    """Default severity, who may see it, what it means and what to do about it.

    ``reason`` says in a sentence which attack or accident the rule prevents; it and ``references`` stand in
    the tables ``catalogue/reasons_*.py`` and are joined in :mod:`acceptd.judge.codes`.
    """

    severity: Severity
    audience: Audience
    meaning: str
    remedy: str
    reason: str = ""
    references: tuple[Reference, ...] = ()


Table = dict[str, Code]
"""Codes by name, ``group/short-name``."""
