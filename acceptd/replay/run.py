"""All stored submissions of a span of time, judged again, one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from acceptd.compare.client import Comparer
from acceptd.compare.task import CompareTask
from acceptd.errors import LedgerError
from acceptd.evidence import KeptFile, Statistics
from acceptd.kept import KeptOutputs
from acceptd.policy.policy import Policy
from acceptd.record.entry import Entry, Filter
from acceptd.record.log import Ledger
from acceptd.replay.again import Replayed, again
from acceptd.replay.stored import NotReplayableError, Shelf


@dataclass(slots=True)
class Replay:
    """Judges stored submissions under one policy. The comparer is started by the first that needs it."""

    ledger: Ledger
    kept: KeptOutputs
    policy: Policy
    damaged: int = 0
    """Submissions whose evidence or outputs are not what their digest says."""

    def chosen(self, wanted: Filter) -> list[int]:
        """Return the numbers of the verdicts that ``wanted`` keeps, oldest first."""
        entries = self.ledger.entries(kind="verdict", since=wanted.since)
        return [entry.seq for entry in entries if wanted.keeps(entry)]

    def run(self, numbers: list[int]) -> Iterator[Replayed]:
        """Yield what becomes of each verdict."""
        shelf = Shelf(self.ledger)
        with Comparer() as comparer:
            for number in numbers:
                yield self._one(self.ledger.entry(number), shelf, comparer)

    def _one(self, entry: Entry, shelf: Shelf, comparer: Comparer) -> Replayed:
        def compare(task: CompareTask, files: Mapping[str, KeptFile]) -> Statistics | None:
            with ExitStack() as stack:
                opened: dict[str, int] = {}
                for key, file in files.items():
                    descriptor = self.kept.open(file)
                    if descriptor is None:
                        return None
                    stack.callback(os.close, descriptor)
                    opened[key] = descriptor
                return comparer.compare(task, opened)

        try:
            return again(shelf.read(entry), self.policy, compare)
        except NotReplayableError as error:
            return _left(entry, str(error))
        except LedgerError as error:
            self.damaged += 1
            return _left(entry, str(error))


def _left(entry: Entry, reason: str) -> Replayed:
    body = entry.body
    return Replayed(
        submission=str(entry.submission),
        team=str(body.get("team") or ""),
        model=str(body.get("model") or ""),
        judged_at=str(body["judged_at"]),
        status="not-replayable",
        old=str(body["verdict"]),
        reason=reason,
    )
