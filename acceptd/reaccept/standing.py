"""What is promoted now, and what is on record of its acceptance. Reads the ledger and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from acceptd.errors import LedgerError
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release.book import Row, read_book

DECISIVE = frozenset({"reject", "hold"})


@dataclass(frozen=True, slots=True)
class Standing:
    """One promoted bundle, with every channel and number that it is current under.

    ``verdict`` is the one on record, ``accepted`` or ``held`` (people approved it); ``held_for`` are the codes
    that held it then. ``runtimes`` are the identities of the runtimes that it was accepted under.
    """

    model_id: str
    bundle_digest: str
    places: tuple[tuple[str, int], ...]
    verdict: str
    verdict_seq: int
    judged_at: str
    held_for: frozenset[str]
    runtimes: tuple[str, ...]
    revoked: bool

    @property
    def where(self) -> str:
        """The channels and numbers, for people."""
        return ", ".join(f"{channel} {number}" for channel, number in self.places)


def promoted(ledger: Ledger, selects: Callable[[str, str], bool]) -> list[Standing]:
    """Return every bundle that is current where ``selects`` (model id, channel) says so, by model and digest."""
    book = read_book(ledger)
    found: dict[tuple[str, str], list[Row]] = {}
    for model_id, channel in sorted(book.channels):
        row = book.current(model_id, channel)
        if row is not None and selects(model_id, channel):
            found.setdefault((model_id, row.digest), []).append(row)
    return [
        _standing(ledger, model_id, digest, rows, revoked=digest in book.revoked)
        for (model_id, digest), rows in sorted(found.items())
    ]


def _standing(ledger: Ledger, model_id: str, digest: str, rows: list[Row], *, revoked: bool) -> Standing:
    seq = rows[-1].verdict_seq
    try:
        entry = ledger.entry(seq)
        body: dict[str, Any] = dict(entry.body) if entry.type == "verdict" else {}
    except LedgerError:
        body, entry = {}, None
    codes = set(_codes(body.get("findings", ())))
    submission = entry.submission if entry is not None else None
    row = Queue(ledger).get(submission) if submission else None
    if row is not None:  # reviewers' findings are on record by their digest alone; the queue has their words
        codes |= set(_codes((row.data.get("document") or {}).get("findings", ())))
    profiles = body.get("profiles")
    identities = [one.get("runtime_identity") for one in profiles or () if isinstance(one, dict)]
    return Standing(
        model_id=model_id,
        bundle_digest=digest,
        places=tuple((row.channel, row.number) for row in rows),
        verdict=str(body.get("verdict", "unknown")),
        verdict_seq=seq,
        judged_at=str(body.get("judged_at", "")),
        held_for=frozenset(codes),
        runtimes=tuple(dict.fromkeys(str(one) for one in identities if one)),
        revoked=revoked,
    )


def _codes(findings: Any) -> Iterator[str]:
    for one in findings if isinstance(findings, list | tuple) else ():
        if isinstance(one, dict) and one.get("severity") in DECISIVE:
            yield str(one.get("code"))
