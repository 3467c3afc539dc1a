"""The record as JSON lines: each entry with its number and leaf hash; for reviewers with what only they see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from acceptd.record.canonical import digest, plain
from acceptd.record.entry import Entry, Filter
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue


def lines(ledger: Ledger, wanted: Filter, *, reviewers: bool = False) -> Iterator[str]:
    """Yield one line of ASCII JSON for each entry that ``wanted`` keeps, in order, in constant memory.

    An entry of a verdict holds the findings for the team and a digest of the rest. With ``reviewers`` the line has
    the rest too, as ``reviewer_findings`` beside ``body``: None where they are not kept, or are not what the entry
    binds; and a filter by code then looks at them as well.
    """
    found = _reviewed(ledger, wanted) if reviewers else ledger.export(wanted)
    for one in found:
        # DEL is the one control character that JSON's escapes leave alone.
        yield json.dumps(one, ensure_ascii=True, sort_keys=True).replace("\x7f", "\\u007f")


def _reviewed(ledger: Ledger, wanted: Filter) -> Iterator[dict[str, Any]]:
    code, queue = wanted.code, Queue(ledger)
    others = replace(wanted, code=None)
    size = ledger.tree().size
    for entry in ledger.entries(before=size, kind=wanted.kind, since=wanted.since):
        if not others.keeps(entry):
            continue
        line, hidden = entry.as_json(), None
        if entry.type == "verdict":
            line["reviewer_findings"] = hidden = _hidden(queue, entry)
        if code is None or wanted.keeps(entry) or any(one.get("code") == code for one in hidden or ()):
            yield line


def _hidden(queue: Queue, entry: Entry) -> list[dict[str, Any]] | None:
    """Return the findings for reviewers alone of a verdict, from its report, where its entry binds them."""
    bound = entry.body.get("reviewer_findings")
    if not isinstance(bound, dict):
        return None
    row = queue.get(str(entry.submission))
    report = (row.data.get("document") or {}) if row is not None else {}
    found = [one for one in report.get("findings", ()) if one.get("audience") != "team"]
    return found if digest(plain(found)) == bound.get("digest") else None
