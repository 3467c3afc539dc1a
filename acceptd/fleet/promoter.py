"""The promoter's work on one submission, from sealed to promoted; what came before and after is the intake's."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from acceptd.acceptance import BUNDLE, Outcome
from acceptd.config import Paths
from acceptd.errors import DuplicateEntryError, FleetAwayError, ObjectStoreError
from acceptd.evidence import Sealed
from acceptd.fleet import kept
from acceptd.fleet.decisions import Decisions, Ordered, Waits
from acceptd.fleet.readable import unreadable
from acceptd.fleet.task import Cancel, FleetTask
from acceptd.fleet.tasks import Offered, Tasks
from acceptd.intake import files
from acceptd.objectstore.objects import Objects
from acceptd.record.entry import moment_of
from acceptd.record.failpoint import failpoint
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.release import store
from acceptd.report.logs import bound
from acceptd.rules import Rules
from acceptd.steps.ends import DIED, GIVEN_UP, REFUSED, End
from acceptd.steps.finishing import Finishing
from acceptd.steps.promoting import Promoting
from acceptd.steps.recording import Recording

GRACE: Final = 60.0
"""Seconds that an intake has to end a drop of its own whose time is over, before the promoter does."""
MOST_WAITS: Final = 10_000
"""Of the submissions that wait for the operator so many are remembered."""
log = structlog.get_logger("acceptd.fleet")


@dataclass(frozen=True, slots=True)
class Promoter:
    """Works submissions of the whole fleet. Safe from threads, and to call again after a kill at any point."""

    paths: Paths
    queue: Queue
    tasks: Tasks
    objects: Objects
    decisions: Decisions
    recording: Recording
    promoting: Promoting
    finishing: Finishing
    rules: Callable[[], Rules]
    seconds: float
    """That a submission may take, from the claim on."""
    sure: Callable[[], None]
    """Raises AcceptdError unless this is the one promoter, asked before each step."""
    waits: dict[str, str]
    """Why submissions wait for a person, by id; for ``acceptd fleet status`` and the log."""

    # -- the tasks --------------------------------------------------------------------------------------

    def work(self, task: FleetTask, cancel: Cancel) -> None:
        """Do all that is due for a submission now: what ``order`` and ``decide`` ask for."""
        self.go_on(task.submission, cancel)

    def given_up(self, task: FleetTask, cancel: Cancel) -> None:
        """End what killed whoever worked it, twice."""
        row = self.row(task.submission)
        if row is None or row.final:
            return
        with bound(row.id, row.team, row.model):
            if task.why != "deadline":
                self._died(row, task)
            self.go_on(row.id, cancel)

    def _died(self, row: Row, task: FleetTask) -> None:
        died = DIED.of(row.state)
        if row.state == "sealed":
            if task.what == "examine":
                order = self.decisions.orders.current(row)
                if order is None or order.round != task.round or task.profile not in order.profiles:
                    return  # of an earlier order
            log.error("given up", state=row.state, what=task.what)
            self._set_aside(row)
            self._end(row, died)
        elif row.state == "judged" and task.what in {"order", "decide"}:
            log.error("not promoted", state=row.state, reason=died.message)
            self.queue.advance(row.id, "promoted", promotion_trouble=died.message)
        elif row.state == "promoted" and task.what == "finish":
            self.queue.advance(row.id, "quarantined", trouble=died.message)

    # -- one submission ---------------------------------------------------------------------------------

    def row(self, submission: str) -> Row | None:
        """Return a submission that can be worked; None for one that nobody can, which waits for the operator."""
        try:
            row = self.queue.get(submission)
            why = "" if row is None else unreadable(row)
        except (ValueError, RecursionError, MemoryError) as error:
            row, why = None, f"its data cannot be read: {error}"[:200]
        if not why:
            return row
        if submission not in self.waits and len(self.waits) < MOST_WAITS:
            self.waits[submission] = why
            log.error(
                "a row of the record that nobody can work waits for the operator", row=submission, reason=why
            )
        return None

    def go_on(self, submission: str, cancel: Cancel | None = None) -> None:
        """Take a submission as far as it goes now."""
        while (row := self.row(submission)) is not None and not row.final:
            if cancel is not None and cancel.reason != "withdrawn":
                cancel.check()
            with bound(row.id, row.team, row.model):
                self.sure()
                failpoint(f"lifecycle.{row.state}.begin")
                if not self._step(row):
                    return

    def _step(self, row: Row) -> bool:
        """Do one step; False where nothing more is to be done here."""
        if row.state == "claimed":
            if not self._overdue(row, GRACE):
                return False
            self._end(row, GIVEN_UP["deadline"])
        elif row.state == "sealed":
            return self._decide(row)
        elif not self._has_verdict(row):
            log.error("the record says that it is judged, and the ledger has no verdict", state=row.state)
            self._end(row, REFUSED.of("the record said that it was judged, and it was not"), row.state)
        elif row.state == "judged":
            self._promote(row)
        else:
            self.tasks.finish(row.id, row.node or "", team=row.team)
            return False
        return True

    def _has_verdict(self, row: Row) -> bool:
        """Whether the ledger has a verdict: who may write submissions could say so of one that nobody judged."""
        return next(self.recording.ledger.entries(kind="verdict", submission=row.id), None) is not None

    def _decide(self, row: Row) -> bool:
        rules = self.rules()
        if self._overdue(row):
            self._end(row, GIVEN_UP["deadline"])
            return True
        found = self.decisions.decide(row, rules)
        if isinstance(found, Waits):
            self._waits(row, found)
            return False
        self.waits.pop(row.id, None)
        if isinstance(found, Ordered):
            return False
        if isinstance(found, End):
            self._end(row, found)
            return True
        self._record(row, rules, found)
        return True

    def _record(self, row: Row, rules: Rules, outcome: Outcome) -> None:
        named = kept.named(outcome.submission)
        kept.fetch(self.objects, self.paths.outputs, named, rules.policy.evidence.keep_outputs_bytes)
        failpoint("lifecycle.sealed.before-record")
        with self._once(row):
            self.recording.record(row, rules, outcome)

    def _end(self, row: Row, end: End, state: str = "judged") -> None:
        """Record ``inconclusive`` with the reason, and stop whoever still examines it."""
        self.waits.pop(row.id, None)
        rules = self.rules()
        believed = self.decisions.believed(row, rules)
        if believed.data.get("sealed") is None and row.data.get("sealed") is not None:
            self.queue.advance(row.id, row.state, sealed=None, bundle_digest=None)  # nobody who counts said so
        with self._once(row):
            self.recording.end(believed, rules, end, state)
        self.tasks.cancel(row.id)

    @contextlib.contextmanager
    def _once(self, row: Row):  # type: ignore[no-untyped-def]
        try:
            yield
        except DuplicateEntryError:
            # The last line of defence: whoever wrote the other verdict moved the submission on in the same breath.
            log.warning("it has its verdict already", state=row.state)

    def _overdue(self, row: Row, grace: float = 0.0) -> bool:
        return time.time() - moment_of(row.received_at) > self.seconds + grace

    def _waits(self, row: Row, waits: Waits) -> None:
        if waits.reason and self.waits.get(row.id) != waits.reason:
            self.waits[row.id] = waits.reason
            log.error("waits for the operator", reason=waits.reason)

    # -- judged -> promoted ---------------------------------------------------------------------------

    def _promote(self, row: Row) -> None:
        if row.data.get("verdict") == "held" and not row.data.get("observed"):
            self._set_aside(row)  # before it is said to be promoted: a person may still approve it
        self.promoting.promote(row)
        files.remove_tree(self.paths.sealed, row.id)

    def _set_aside(self, row: Row) -> None:
        """Bring the bundle of a submission into quarantine here, as far as there is one."""
        if row.data.get("sealed") and not os.path.lexists(self.paths.quarantine / row.id):
            self.bring(row, Sealed.model_validate(row.data["sealed"]))
            self.finishing.set_aside(row)

    def bring(self, row: Row, sealed: Sealed) -> None:
        """See that the sealed bundle lies here, whole and hashed, unless the store has it.

        Raises FleetAwayError where it cannot be had now.
        """
        if (self.paths.sealed / row.id / BUNDLE).is_dir() or store.path(self.paths.state, sealed.digest).exists():
            return
        home = self.paths.sealed / row.id
        home.mkdir(mode=0o755, exist_ok=True)
        try:
            self.objects.fetch_bundle("sealed", sealed.digest, home / BUNDLE)
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error

    def stored(self, sealed: Sealed) -> None:
        """See that the approved bundle lies in the object store too, for workers to compare with."""
        try:
            self.objects.put_bundle("approved", store.path(self.paths.state, sealed.digest), sealed)
        except ObjectStoreError as error:
            raise FleetAwayError(f"objects: {error}") from error

    # -- what stands still ------------------------------------------------------------------------------

    def push(self, submission: str) -> None:
        """Have a submission gone on with that nobody does anything about: by a task, not by who looks."""
        row = self.row(submission)
        if row is None or row.final:
            return
        if row.state in {"claimed", "sealed"}:
            self.tasks.order(row.id, row.model or "", team=row.team)
        elif row.state == "promoted":
            self.tasks.finish(row.id, row.node or "", team=row.team)
        else:
            self.tasks.decide(row.id, row.model or "", team=row.team)

    def offer(self, submission: str) -> Offered:
        """Put what the record wants of a sealed submission next into the task queue."""
        row = self.row(submission)
        if row is None or row.state != "sealed":
            return "known"
        order = self.decisions.orders.current(row)
        if order is None or self._overdue(row):
            return self.tasks.order(row.id, row.model or "", team=row.team)
        missing = self.decisions.missing(row, order)
        if missing:
            return self.decisions.orders.offer(row, order, self.rules(), missing)
        return self.tasks.decide(row.id, order.model, team=row.team)
