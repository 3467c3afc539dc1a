"""The fourth step: an accepted bundle is kept in the store, and promoted where it goes by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from acceptd.config import Paths
from acceptd.errors import ReleaseError
from acceptd.evidence import Sealed
from acceptd.metrics.counting import Counting
from acceptd.promotions import Promoted, Promotions
from acceptd.record.failpoint import failpoint
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.release.layout import store_lock
from acceptd.release.store import put

log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class Promoting:
    """Keeps and promotes; it needs the release keys and no cell."""

    paths: Paths
    queue: Queue
    promotions: Promotions
    on_stage: Callable[[Row, str], None] = lambda _row, _stage: None
    count: Counting = field(default_factory=Counting)
    bring: Callable[[Row, Sealed], None] = lambda _row, _sealed: None
    """Sees that the sealed bundle is here, where it was sealed elsewhere."""
    stored: Callable[[Sealed], None] = lambda _sealed: None
    """Told that the bundle is in the store, before it is promoted."""

    def promote(self, row: Row) -> None:
        """Keep an accepted bundle in the store, and promote it to every channel that it comes to by itself.

        What was only observed is promoted by nobody, so its bytes are not kept.
        """
        done = Promoted()
        if row.data.get("verdict") == "accepted" and not row.data.get("observed"):
            self.on_stage(row, "promote")
            try:
                with store_lock(self.paths.state, shared=True):  # what is found there is not removed meanwhile
                    sealed = Sealed.model_validate(row.data["sealed"])
                    self.bring(row, sealed)
                    put(self.paths.state, self.paths.sealed / row.id / "bundle", sealed)
                    failpoint("lifecycle.judged.stored")
                    self.stored(sealed)
                    done = self.promotions.accepted(row, sealed.digest)
            except ReleaseError as error:
                done = Promoted(trouble=str(error))
                log.warning("not promoted", reason=str(error))
        self.queue.advance(row.id, "promoted", **done.kept())
        if done.releases:
            self.count.promoted(row.id)
