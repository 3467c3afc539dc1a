"""Held bundles whose bytes are missing although no entry removed them: a part of ``ledger verify``."""

from __future__ import annotations

from pathlib import Path

from acceptd.errors import LedgerError
from acceptd.record.audit import Difference
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue, Submission
from acceptd.record.removals import removed
from acceptd.record.tables import FINAL_STATES
from acceptd.release.gone import BUNDLES


def examine(state: Path, ledger: Ledger) -> list[Difference]:
    """Return the held bundles whose bytes are neither kept, nor in the store, nor on record as removed."""
    gone = {name for _, name in removed(ledger, BUNDLES)}
    found = []
    for row in Queue(ledger).find(states=sorted(FINAL_STATES)):
        if row.data.get("verdict") != "held" or not row.data.get("sealed") or row.state != "done":
            continue
        if not (_kept(state, row) or {row.id, row.bundle_digest} & gone or not _on_record(ledger, row)):
            message = "the held bundle's bytes are missing, and no removal of them is on record"
            found.append(Difference("kept", f"quarantine/{row.id}", message))
    return found


def _kept(state: Path, row: Submission) -> bool:
    places = (f"quarantine/{row.id}/bundle", f"sealed/{row.id}/bundle", f"store/sha256/{row.bundle_digest}")
    return any((state / place).is_dir() for place in places)


def _on_record(ledger: Ledger, row: Submission) -> bool:
    """Say whether an entry says `held`: what the queue alone says, the audit of the queue looks at."""
    try:
        entry = next(ledger.entries(kind="verdict", submission=row.id), None)
    except LedgerError:
        return False
    return entry is not None and entry.body.get("verdict") == "held"
