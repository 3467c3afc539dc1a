"""What must hold after each kill and each fault, written once: :func:`standing` at once, :func:`in_line` when a
daemon is back.

Releases are :mod:`tests.release_promises`, verdicts :mod:`tests.fleet.promises`; here they are asked of one town,
with what it acknowledged.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Final

from acceptd.errors import ExpiredError
from tests.crash.chaos.town import Town
from tests.fleet import promises, recorded
from tests.fleet.mixed import Piece
from tests.release_promises import Broken, Promises, demand

_SECONDS: Final = 20.0
"""For what a daemon at work is still writing when it is looked at."""
PROMISES: Final = (
    "what was acknowledged is there: drops, commands that ended with 0, verdicts that a team was told",
    "what a loader can open is whole, signed by a key of its keyring, and not older than before",
    "each drop has one verdict, which its bundle deserves or is `inconclusive`, and its team was told it",
    "the ledger extends what it held, and `acceptd ledger verify` finds nothing (but a clock that was set back)",
    "nothing was released that was not accepted, no number twice, no promotion stands half done",
    "the next daemon is ready and finishes what was left, and nothing of the one before lives on",
)
"""In words, for the page that is made of a run."""


def standing(town: Town) -> None:
    """Check what holds at any moment, with no daemon at work as well. Raises Broken.

    What was signed by a clock that was wrong may have run out, and a loader says so: until a daemon signs it anew.
    """
    try:
        Promises(town.state, town.beside).standing()
    except Broken as broken:
        if not (town.clock_was_set and isinstance(broken.__cause__, ExpiredError)):
            raise


def in_line(town: Town) -> None:
    """Check everything, once a daemon is back and all is settled. Raises Broken."""
    due = time.monotonic() + _SECONDS
    while True:
        try:
            mine = Promises(town.state, town.beside)
            mine.in_line(audited=False)
            found = [
                line for line in mine.audit() if not (town.clock_was_set and line.endswith(": a clock set back"))
            ]
            demand(not found, f"`ledger verify`: {found}")
            _verdicts(town)
        except (Broken, AssertionError):
            if time.monotonic() > due:
                raise
            town.nudge()  # a checkpoint, a promotion that a killed command began: housekeeping does them
            time.sleep(0.2)
        else:
            return


def _verdicts(town: Town) -> None:
    book = recorded.read(town.state)
    told = {
        path.parent.name: json.loads(path.read_bytes())
        for path in (town.state / "outbox").glob("*/*/verdict.json")
    }
    found = promises.broken(book, _as_judged(town), told)
    demand(not found, "; ".join(found))
    entries = {kind: town.entries(kind) for kind in ("intent", "activated", "revoked", "abandoned")}
    activated = {
        (one["body"]["model"], one["body"]["channel"], one["body"]["number"]) for one in entries["activated"]
    }
    for order in town.orders:
        if not order.acknowledged:
            continue
        if order.kind == "revoked":
            there = [one for one in entries["revoked"] if one["body"]["digest"] == order.digest]
            demand(len(there) == 1, f"{order.digest} was revoked, and {len(there)} revocations are on record")
        else:
            mine = [one["body"] for one in entries["intent"] if one["body"]["reason"] == order.reason]
            done = [one for one in mine if (one["model"], one["channel"], one["number"]) in activated]
            demand(len(done) == 1, f"`{order.reason}` was acknowledged, and {len(done)} rollbacks are on record")


def _as_judged(town: Town) -> list[Piece]:
    """Return the pieces; one of a model of which something was revoked may be refused as that."""
    whole = frozenset({"accepted", "rejected", "held"})
    return [replace(piece, verdicts=whole) if piece.model in town.touched else piece for piece in town.dropped]
