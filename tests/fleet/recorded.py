"""What is on record of each drop, and the comparison of two runs on the same drops, byte for byte.

Compared as canonical JSON (RFC 8785): the body of every verdict's entry, and every finding of the report for
reviewers with the evidence that it carries. Left out is what is measured or made anew in each run, and nothing
else:

- ``judged_at`` and ``uid``: when, and who dropped it;
- ``evidence_digest`` and ``report_digest``: what they cover holds timings, resources and the submission's own id;
- ``statement``: it signs all of these, with the submission's id and the entry's place in the log;
- ``nodes``: which machines of a fleet the verdict rests on; an embedded daemon names none;
- in a finding's evidence, figures of time and of memory that a job was seen to take (:data:`MEASURED`);
- the finding that says which probes a busy host had no time for (:data:`OF_THE_HOST`): it never decides.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from acceptd.record.canonical import plain_bytes
from acceptd.record.entry import Filter
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release.book import Row, read_book

OF_THIS_RUN: Final = ("judged_at", "uid", "evidence_digest", "report_digest", "statement", "nodes")
"""Keys of a verdict entry's body that differ in two runs on the same bundle."""
MEASURED: Final = re.compile(r"(^|_)(ms|seconds|s)$|^peak_rss_bytes$")
"""Keys in a finding's evidence whose values are measured time or memory."""

OF_THE_HOST: Final = frozenset({"behaviour/probes-left-out"})


@dataclass(frozen=True, slots=True)
class Recorded:
    """One verdict: of which drop, what, and the bytes that every run has to agree on."""

    drop: str
    submission: str
    seq: int
    verdict: str
    reason: str
    model: str
    digest: str
    """The bundle's; empty where it could not be sealed."""
    body: bytes
    findings: bytes


@dataclass
class Book:
    """Everything on record in one state."""

    verdicts: list[Recorded] = field(default_factory=list)
    releases: list[Row] = field(default_factory=list)
    """Every release number that was ever taken."""
    states: dict[str, str] = field(default_factory=dict)
    """The state of each submission that was ever claimed."""

    def by_drop(self) -> dict[str, list[Recorded]]:
        """Return the verdicts of each drop."""
        found: dict[str, list[Recorded]] = collections.defaultdict(list)
        for one in self.verdicts:
            found[one.drop].append(one)
        return dict(found)


def read(state: Path) -> Book:
    """Read the record that a state directory leads to."""
    book = Book()
    with Ledger.open(state, create=False) as ledger:
        rows = {row.id: row for row in Queue(ledger).find()}
        for entry in ledger.export(Filter(type="verdict")):
            name = entry["submission"]
            document = rows[name].data.get("document") or {"findings": []} if name in rows else {"findings": []}
            book.verdicts.append(_recorded(name, entry["seq"], entry["body"], document))
        book.states = {name: row.state for name, row in rows.items()}
        channels = read_book(ledger).channels
        book.releases = [row for numbers in channels.values() for _, row in sorted(numbers.items())]
    return book


def _recorded(name: str, seq: int, body: Mapping[str, Any], document: Mapping[str, Any]) -> Recorded:
    same = {key: value for key, value in body.items() if key not in OF_THIS_RUN}
    same["findings"] = anywhere(same["findings"])
    findings = unmeasured(anywhere(document["findings"]))
    return Recorded(
        body["drop"], name, seq, body["verdict"], body["reason"], body.get("model") or "",
        body.get("bundle_digest") or "", plain_bytes(same), plain_bytes(findings),
    )  # fmt: skip


def anywhere(findings: Any) -> list[Any]:
    """Return findings without those that depend on how busy a host was."""
    return [one for one in findings if one["code"] not in OF_THE_HOST]


def unmeasured(value: Any) -> Any:
    """Return ``value`` without figures of measured time and memory, however deep they are."""
    if isinstance(value, Mapping):
        return {key: unmeasured(one) for key, one in value.items() if not MEASURED.search(key)}
    if isinstance(value, list | tuple):
        return [unmeasured(one) for one in value]
    return value


def differences(one: Book, other: Book) -> list[str]:
    """Return a line for each drop, and each model's releases, on which two runs do not agree byte for byte."""
    left, right = one.by_drop(), other.by_drop()
    found = [f"{drop}: only one run has a verdict" for drop in sorted(left.keys() ^ right.keys())]
    for drop in sorted(left.keys() & right.keys()):
        mine, theirs = left[drop][0], right[drop][0]
        if mine.verdict != theirs.verdict:
            found.append(f"{drop}: {mine.verdict} ({mine.reason}) and {theirs.verdict} ({theirs.reason})")
        for what in ("body", "findings"):
            a, b = getattr(mine, what), getattr(theirs, what)
            if a != b:
                found.append(f"{drop}: its {what} differ: {_apart(a, b)}")
    released = [_released(book) for book in (one, other)]
    if released[0] != released[1]:
        found += [f"releases of {model} differ" for model in _unlike(*released)]
    return found


def _released(book: Book) -> dict[str, list[tuple[str, str, str, str]]]:
    """Return what each model's channel was given, in order. A number that a crash burnt is not among them."""
    found: dict[str, list[tuple[str, str, str, str]]] = collections.defaultdict(list)
    for row in book.releases:
        if row.state != "abandoned":
            found[row.model_id].append((row.channel, row.digest, row.kind, row.state))
    return dict(found)


def _unlike(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _apart(one: bytes, other: bytes) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    at = next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(0, at - 80)
    return " and ".join(f"…{data[start : at + 80].decode(errors='replace')}…" for data in (one, other))
