"""Leases that were given up, in the ledger's database: when each of the four states was entered, and why.

Not part of the truth and not a projection of it: these rows may be lost (no fsync of their own), and the
audit does not look at them. A lease that ended well is never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    Column,
    Float,
    MetaData,
    Table,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

from acceptd.record.log import Ledger, Transaction
from acceptd.record.tables import Whole, Word

KEPT: Final = 1_000
"""Rows that a start leaves; the older ones go."""

_metadata: Final = MetaData()
given_up: Final = Table(
    "given_up_leases",
    _metadata,
    Column("number", Whole, primary_key=True),
    # The daemon's start and the lease's own number: unique for as long as the row is open.
    Column("boot", Word, nullable=False, index=True),
    Column("lease", Whole, nullable=False),
    Column("submission", Word, nullable=False),
    Column("team", Word, nullable=False),
    Column("profile", Word, nullable=False),
    Column("cores", Whole, nullable=False),
    Column("memory_bytes", Whole, nullable=False),
    Column("reason", Word, nullable=False),
    Column("state", Word, nullable=False),
    # Wall clock, seconds since the epoch; null for a state that was not entered.
    Column("abandoned_at", Float),
    Column("cancel_requested_at", Float),
    Column("still_running_at", Float),
    Column("released_at", Float),
    # Monotonic seconds from abandoned to released; null where another daemon closed the row.
    Column("seconds", Float),
    # "kernel": every process was seen dead. "restart": the daemon died, and its cells with it.
    Column("closed_by", Word),
)
_TIMES: Final = {
    "abandoned": "abandoned_at",
    "cancel-requested": "cancel_requested_at",
    "still-running": "still_running_at",
    "released": "released_at",
}


class Leases:
    """The rows of one ledger. Writers queue as the ledger's do."""

    def __init__(self, ledger: Ledger, boot: str) -> None:
        self._ledger = ledger
        self._boot = boot

    def open(self, now: float) -> int:
        """At start: make the table where there is none, and close what a dead daemon left open.

        Its cells died with it (``--die-with-parent``, PDEATHSIG), so nothing of those leases runs any more.
        Returns how many there were. ``now`` is wall-clock seconds.
        """

        def do(change: Transaction) -> int:
            _metadata.create_all(change.connection)
            values = {"state": "released", "released_at": now, "closed_by": "restart"}
            open_rows = (given_up.c.state != "released", given_up.c.boot != self._boot)
            closed = change.connection.execute(update(given_up).where(*open_rows).values(values)).rowcount
            newest = change.connection.execute(select(func.max(given_up.c.number))).scalar() or 0
            change.connection.execute(delete(given_up).where(given_up.c.number <= newest - KEPT))
            return int(closed)

        return self._ledger.change(do, durable=False, stands=lambda _connection: False)

    def note(self, steps: Sequence[dict[str, Any]]) -> None:
        """Write steps of leases in their order, in one transaction.

        Each holds ``lease``, ``submission``, ``team``, ``profile``, ``cores``, ``memory_bytes``, ``reason``,
        ``state``, ``at`` (wall clock) and ``seconds`` (since abandoned, on the monotonic clock).
        """

        def do(change: Transaction) -> None:
            for step in steps:
                here = (given_up.c.boot == self._boot, given_up.c.lease == step["lease"])
                values = {"state": step["state"], _TIMES[step["state"]]: step["at"]}
                if step["state"] == "released":
                    values |= {"seconds": step["seconds"], "closed_by": "kernel"}
                if step["state"] == "abandoned":
                    named = ("lease", "submission", "team", "profile", "cores", "memory_bytes", "reason")
                    values |= {name: step[name] for name in named} | {"boot": self._boot}
                    change.connection.execute(insert(given_up), values)
                else:
                    change.connection.execute(update(given_up).where(*here).values(values))

        self._ledger.change(do, durable=False)


def newest(ledger: Ledger, limit: int) -> list[dict[str, Any]]:
    """Return the newest rows, newest first; none where no daemon of this version has run yet."""
    with ledger.reading() as connection:
        if not inspect(connection).has_table(given_up.name):
            return []
        query = select(given_up).order_by(given_up.c.number.desc()).limit(limit)
        return [dict(row._mapping) for row in connection.execute(query)]
