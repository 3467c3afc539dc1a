"""Bundles that retention has removed from the store: what may rest on one, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from acceptd.errors import ReleaseError
from acceptd.record.log import Ledger
from acceptd.record.removals import removed
from acceptd.release import store
from acceptd.release.book import Book

STORE: Final = "store"
BUNDLES: Final = frozenset({STORE, "held", "rejected", "quarantined"})
"""The kinds of removals that are of a bundle: by its digest, or by its submission."""


def refuse_removed(state: Path, ledger: Ledger, digest: str, submission: str = "") -> None:
    """Raise ReleaseError where a bundle is not in the store because it was removed, there or where it was kept."""
    if store.path(state, digest).exists():
        return
    found = removed(ledger, BUNDLES)
    seq = max((number for (_, name), number in found.items() if name in {digest, submission}), default=None)
    if seq is not None:
        raise ReleaseError(
            f"the bytes of {submission or digest} were removed on {ledger.entry(seq).at[:10]} (entry {seq})",
            remedy="submit the bundle again, or name another release",
        )


def excused(ledger: Ledger, book: Book) -> set[str]:
    """Return the digests whose bytes may be missing: removed after anything named them, and current nowhere."""
    found = removed(ledger, {STORE})
    latest: dict[str, int] = {}
    current = set()
    for place in book.channels:
        for row in book.rows(*place):
            latest[row.digest] = max(latest.get(row.digest, -1), row.intent_seq)
            if row.state in {"active", "intent"}:
                current.add(row.digest)
    return {digest for (_, digest), seq in found.items() if seq > latest.get(digest, -1)} - current
