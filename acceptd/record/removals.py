"""What the ledger says was removed: entries of the type ``removed``, written before the bytes went."""

from __future__ import annotations

from collections.abc import Collection

from acceptd.record.log import Ledger

KIND = "removed"


def removed(ledger: Ledger, what: Collection[str]) -> dict[tuple[str, str], int]:
    """Return (kind, name) of everything of these kinds that was removed, with the number of the newest entry."""
    found: dict[tuple[str, str], int] = {}
    for entry in ledger.entries(kind=KIND):
        if (kind := entry.body["what"]) in what:
            for item in entry.body["items"]:
                found[kind, item["name"]] = entry.seq
    return found
