"""Recorded evaluations that do not follow from their own figures, or speak of releases that were not current.

A part of ``ledger verify``. That an entry is the one that was appended, other parts of the audit see to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

from acceptd.canary.decide import decide
from acceptd.canary.figures import RULES, Evaluation, Side
from acceptd.record.audit import Difference
from acceptd.record.canonical import canonical
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release.book import Book, read_book

KIND: Final = "canary"


def examine(ledger: Ledger) -> list[Difference]:
    """Return what is wrong with the evaluations on record, each with its entry."""
    book = read_book(ledger)
    found = []
    for entry in ledger.entries(kind=KIND):
        found += [Difference("canary", f"entry {entry.seq}", message) for message in _wrong(entry, book)]
    return found


def _wrong(entry: Entry, book: Book) -> Iterator[str]:
    try:
        evaluation = Evaluation.model_validate_json(canonical(entry.body))
    except ValidationError as error:
        yield f"is no evaluation: {error.error_count()} members are of another form"
        return
    for side in (evaluation.canary, evaluation.against):
        if not _was_current(entry.seq, evaluation.model, side, book):
            yield f"says that number {side.number} was current on {side.channel}, the ledger says otherwise"
    counts = evaluation.counts
    if sum(counts.model_dump().values()) != sum(one.lines for one in evaluation.files):
        yield "counts other lines than its files have"
    if evaluation.rules != RULES:
        return  # judged by the rules of another version
    judged = decide(evaluation.compared, evaluation.limits)
    if (judged.decision, judged.reasons) != (evaluation.decision, evaluation.reasons):
        yield f"decided {evaluation.decision}, and its figures come to {judged.decision} or to other reasons"


def _was_current(seq: int, model_id: str, side: Side, book: Book) -> bool:
    rows = [row for row in book.rows(model_id, side.channel) if 0 <= row.activated_seq < seq]
    last = max(rows, key=lambda row: row.activated_seq, default=None)
    return last is not None and (last.number, last.digest, last.release_digest) == (
        side.number, side.digest, side.release_digest,
    )  # fmt: skip
