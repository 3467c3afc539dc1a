"""The last step: the submitter is told, and what is not needed any more goes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from acceptd.config import Paths
from acceptd.errors import AcceptdError
from acceptd.intake import files
from acceptd.intake.claims import Claim
from acceptd.promotions import KEPT
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.report.outbox import write_outbox
from acceptd.report.verification import place

log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Finishing:
    """Writes the outbox and clears up; it needs no key and no cell."""

    paths: Paths
    ledger: Ledger
    queue: Queue
    discard: Callable[[Claim], list[str]] = lambda _claim: []
    keep_held: bool = True
    """Whether what a person may still approve is kept here; in a fleet it is at the promoter."""

    def finish(self, row: Row) -> None:
        """Tell the submitter, clear up, and say that the submission is done."""
        document = self.write(row)
        failpoint("lifecycle.promoted.outbox")
        self.discard_drop(row)
        self.put_away(row)
        self.queue.advance(row.id, "done", document=document)

    def write(self, row: Row) -> dict[str, Any]:
        """Write the outbox; return the report as it stands there."""
        document, statement = self._told(row, row.data["document"])
        document |= {key: row.data[key] for key in KEPT if row.data.get(key)}
        write_outbox(self.paths.outbox, row.team, row.id, document, statement)
        return document

    def _told(self, row: Row, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return a report with the drop's name and where it stands in the ledger, and the signed statement."""
        told = {**document, "drop": row.name}
        entry = next(self.ledger.entries(kind="verdict", submission=row.id), None)
        if entry is None:
            return told, None
        return told | {"entry": place(entry, self.ledger.origin)}, entry.body.get("statement")

    def discard_drop(self, row: Row) -> None:
        """Take the claimed drop out of the inbox."""
        claim = Claim(row.team, row.name, Path(row.path), row.id, row.kind, row.uid or 0)  # type: ignore[arg-type]
        with contextlib.suppress(FileNotFoundError):
            self.discard(claim)

    def put_away(self, row: Row) -> None:
        """Remove the sealed copy, or keep it aside where a person may still approve it."""
        sealed = self.paths.sealed / row.id
        held = row.data.get("verdict") == "held" and not row.data.get("observed")
        if held and self.keep_held and sealed.is_dir():
            _keep(self.paths, row)  # without a quarantine it waits here for the operator
        if left := files.remove_tree(self.paths.sealed, row.id):
            log.warning("left behind", places=left[:3])

    # -- quarantine: two daemon deaths in one state ---------------------------------------------------

    def set_aside(self, row: Row) -> None:
        """Keep the sealed bytes aside, as far as there are any."""
        with contextlib.suppress(OSError):
            _keep(self.paths, row)

    def quarantined(self, row: Row) -> None:
        """Tell the submitter of a quarantined submission; the drop goes where its bytes are kept aside."""
        if (self.paths.quarantine / row.id / "bundle").is_dir():
            self.discard_drop(row)  # its bytes are in quarantine
        elif os.path.lexists(row.path):
            log.warning("left in the inbox: nothing of it was sealed, so it is all there is", place=row.path)
        document, statement = self._told(row, row.data.get("document") or {})
        with contextlib.suppress(AcceptdError, OSError):
            write_outbox(self.paths.outbox, row.team, row.id, document, statement)


def _keep(paths: Paths, row: Row) -> None:
    """Move what is sealed to the quarantine, without what a seal that was cut off left half copied."""
    with contextlib.suppress(OSError):
        files.remove_temporaries(paths.sealed / row.id)
    (paths.sealed / row.id).rename(paths.quarantine / row.id)
