"""Entries as the tests of the ledger append them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acceptd.record.log import Ledger

AT = "2026-11-29T15:17:00Z"


def opened(state: Path, **options: Any) -> Ledger:
    return Ledger.open(state, clock=lambda: AT, **options)
