"""What a running daemon holds open, and which of its threads must live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from acceptd.export.service import Following
from acceptd.intake.inbox import Inbox
from acceptd.lifecycle import Lifecycle
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary
from acceptd.record.queue import Queue
from acceptd.release.signers import ReleaseKeys
from acceptd.retention.service import Retention
from acceptd.supervisor.pulse import Watched
from acceptd.work.journal import Journal
from acceptd.work.workers import Workers


@dataclass(frozen=True, slots=True)
class Rooms:
    """The rooms of one daemon."""

    ledger: Ledger
    queue: Queue
    keys: ReleaseKeys
    lifecycle: Lifecycle
    workers: Workers
    inbox: Inbox
    journal: Journal
    notary: Notary
    retention: Retention
    following: Following

    def watched(self) -> Iterator[Watched]:
        """Yield the threads without which a daemon looks well and does nothing.

        A worker may be at one submission for as long as that may take: its deadline is the warden's business.
        """
        yield Watched(self.inbox.thread, self.inbox.turns)
        yield Watched(self.notary.thread, self.notary.turns)
        yield Watched(self.journal.thread, self.journal.turns)
        for thread in (*self.workers.threads, *self.following.threads):
            yield Watched(thread)
