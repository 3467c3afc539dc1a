"""Held bundles whose bytes are missing although no entry removed them: a part of ``ledger verify``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sqlalchemy import select

from acceptd.errors import ObjectStoreError
from acceptd.record import tables
from acceptd.record.audit import Difference
from acceptd.record.log import Ledger
from acceptd.record.removals import removed
from acceptd.release.gone import BUNDLES

_PAGE: Final = 1024


def examine(state: Path, ledger: Ledger, elsewhere: Callable[[str], bool] | None = None) -> list[Difference]:
    """Return the held bundles whose bytes are neither kept, nor in the store, nor on record as removed.

    ``elsewhere`` says of a bundle digest whether its bytes lie in the object store of a fleet; it may raise
    ObjectStoreError, which is one difference for all that it was to be asked about.
    """
    gone = {name for _, name in removed(ledger, BUNDLES)}
    queue, judged = tables.submissions.c, tables.verdicts.c
    # That verdicts and queue are what the entries say, other parts of the audit see to.
    query = (
        select(queue.id, judged.bundle_digest)
        .join_from(tables.submissions, tables.verdicts, queue.id == judged.submission)
        .where(queue.state == "done", judged.verdict == "held", judged.bundle_digest.is_not(None))
        .order_by(queue.id)
        .limit(_PAGE)
    )
    found: list[Difference] = []
    after = ""
    while True:
        with ledger.reading() as connection:
            page = list(connection.execute(query.where(queue.id > after)))
        if not page:
            return found
        for row in page:
            after = row.id
            try:
                missing = not (
                    {row.id, row.bundle_digest} & gone
                    or _kept(state, row.id, row.bundle_digest)
                    or (elsewhere is not None and elsewhere(row.bundle_digest))
                )
            except ObjectStoreError as error:
                return [*found, Difference("kept", "objects", f"held bundles there are not looked at: {error}")]
            if missing:
                message = "the held bundle's bytes are missing, and no removal of them is on record"
                found.append(Difference("kept", f"quarantine/{row.id}", message))


def _kept(state: Path, submission: str, digest: str) -> bool:
    places = (f"quarantine/{submission}/bundle", f"sealed/{submission}/bundle", f"store/sha256/{digest}")
    return any((state / place).is_dir() for place in places)
