"""The words of observe mode in a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MODE: Final = "observe: judged and on record; nothing is blocked, and nothing of it is ever promoted"
_WORDS: Final = {
    "accepted": "would be accepted",
    "rejected": "would be rejected",
    "held": "would be held",
    "inconclusive": "could not be judged",
}


def would(verdict: object) -> str:
    """Return what a verdict would have come to outside observe mode: ``would be rejected``."""
    return _WORDS.get(str(verdict), str(verdict))


def headline(report: Mapping[str, Any]) -> str:
    """Return the verdict as the head of a report says it: ``rejected``, or ``observed: would be rejected``."""
    verdict = str(report["verdict"])
    return f"observed: {would(verdict)}" if report.get("observed") else verdict
