"""The policy's table on advisories. Every key has its comment in ``policies/default.toml``."""

from __future__ import annotations

from typing import Literal

from acceptd.policy.table import Table


class AdvisoriesTable(Table):
    """What becomes of a bundle whose runtime somebody has warned of."""

    affected: Literal["reject", "hold", "warn", "info"] = "hold"
    stale: Literal["hold", "warn", "info"] = "hold"
    """Where the list on record has expired, or does not verify."""
