"""Target ``anchor``: what a place outside the state gives back as the ledger's checkpoints.

A journal, a command and a directory may hold anybody's bytes. Whatever they give, a checkpoint counts that was
signed, or the typed error says that the anchor cannot be used.
"""

from __future__ import annotations

import json
from typing import Any

from acceptd.errors import AnchorError, LedgerError
from acceptd.record import anchor, checkpoint
from fuzz import house
from fuzz.house import KEYRING, LOG, only


def check(raw: bytes) -> None:
    """Give ``raw`` as what ``journalctl`` printed, what a command printed, and what lies in a directory."""
    before = anchor._run
    anchor._run = lambda *_: raw
    try:
        _journal()
        _exported(anchor.Command(("/bin/true",)))
    finally:
        anchor._run = before
    _exported(_Directory(raw))


def _journal() -> None:
    journal = anchor.Journal()
    last = only(AnchorError, lambda: journal.last(LOG) or b"")
    assert last is None or type(last) is bytes
    _exported(journal)


def _exported(place: Any) -> None:
    found = only((LedgerError, AnchorError), lambda: checkpoint.exported(place, KEYRING, LOG))
    assert found is None or (found.origin, found.size, found.root) == (LOG, 3, b"\1" * 32)


class _Directory:
    words = "a directory"

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def last(self, _origin: str) -> bytes | None:
        return self._raw or None

    def others(self) -> list[bytes]:
        return [self._raw]


def seeds() -> dict[str, bytes]:
    """Return notes, journal rows, and notes of other logs."""
    whole, other = house.checkpoint(), house.checkpoint(9, b"\2" * 32, "another")
    rows = [json.dumps({"CHECKPOINT_SIZE": str(size), "CHECKPOINT_NOTE": note.hex()}).encode()
            for size, note in ((3, whole), (9, other))]  # fmt: skip
    binary = json.dumps({"CHECKPOINT_SIZE": "3", "CHECKPOINT_NOTE": [1, 2]}).encode()
    return {
        "note": whole, "others": other + b"\n" + whole, "row": rows[0] + b"\n", "rows": b"\n".join(rows),
        "binary": binary, "null": b'{"CHECKPOINT_SIZE": null, "CHECKPOINT_NOTE": null}',
    }  # fmt: skip
