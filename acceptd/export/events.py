"""What a hook is told: one event for each ledger entry that made a release current or revoked a bundle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from acceptd.errors import LoaderError
from acceptd.export.follow import Origin
from acceptd.export.settings import HookTable
from acceptd.record.entry import Entry
from acceptd.release import channel as channels
from acceptd.release.book import read_book
from acceptd.release.layout import release_path

KINDS: Final = ("activated", "revoked")


def entries(origin: Origin, after: int, before: int) -> Iterator[Entry]:
    """Yield the entries after ``after`` and before ``before`` that a hook may be told of, in order."""
    for entry in origin.ledger.entries(after=after, before=before) if after + 1 < before else ():
        if entry.type in KINDS:
            yield entry


def event(origin: Origin, hook: HookTable, entry: Entry) -> dict[str, Any] | None:
    """Return what ``hook`` is told of an entry; None where it is not about what it selects.

    Raises LoaderError where the release's own file does not verify: nothing unverified is told.
    """
    head = {"schema": 1, "log": origin.ledger.origin, "seq": entry.seq, "at": entry.at}
    return (
        _activated(origin, hook, entry, head) if entry.type == "activated" else _revoked(origin, hook, entry, head)
    )


def _activated(origin: Origin, hook: HookTable, entry: Entry, head: dict[str, Any]) -> dict[str, Any] | None:
    body = entry.body
    model_id, channel, number = str(body["model"]), str(body["channel"]), int(body["number"])
    if not hook.selects(model_id, channel):
        return None
    row = next((row for row in read_book(origin.ledger).rows(model_id, channel) if row.number == number), None)
    if row is None:
        raise LoaderError(f"{model_id} {channel} has no number {number}")
    facts, digest = channels.read_release(origin.state, origin.keys, row, row.release_digest)
    return head | {
        "event": row.kind,
        "model_id": model_id,
        "channel": channel,
        "number": number,
        "bundle_digest": row.digest,
        "release_digest": digest,
        "release_path": os.fspath(origin.state / release_path(model_id, channel, number) / "release.json"),
        "release": dict(facts.document),
    }


def _revoked(origin: Origin, hook: HookTable, entry: Entry, head: dict[str, Any]) -> dict[str, Any] | None:
    digest = str(entry.body["digest"])
    book = read_book(origin.ledger)
    places = [
        {"model_id": model_id, "channel": channel, "number": row.number, "current": row.state == "active"}
        for model_id, channel in sorted(book.channels)
        if hook.selects(model_id, channel)
        for row in book.rows(model_id, channel)
        if row.digest == digest and row.release_digest
    ]
    if not places:
        return None
    return head | {
        "event": "revoke",
        "bundle_digest": digest,
        "reason": str(entry.body.get("reason", "")),
        "releases": places,
    }
