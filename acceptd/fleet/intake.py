"""The intake's work on one drop: sealed, uploaded, signed for; and at the end the outbox and a clear inbox."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from acceptd.acceptance import BUNDLE, Acceptance
from acceptd.config import Paths
from acceptd.errors import FleetAwayError, LedgerError, ObjectStoreError, StateError
from acceptd.fleet.handover import Handover
from acceptd.fleet.host import this_node
from acceptd.fleet.orders import MANIFEST_FILE
from acceptd.fleet.seal import sign_seal
from acceptd.fleet.task import Cancel, FleetTask
from acceptd.fleet.tasks import Tasks
from acceptd.intake import files
from acceptd.intake.claims import Claim
from acceptd.objectstore.objects import Objects
from acceptd.record.entry import moment_of, utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Signer
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.report.logs import bound
from acceptd.rules import Rules
from acceptd.steps.ends import DIED, EXPIRED, GIVEN_UP, MAX_DEATHS, End
from acceptd.steps.finishing import Finishing
from acceptd.steps.sealing import NotSealed, SealedDrop, Sealing, drop_of
from acceptd.work.budget import Share
from acceptd.work.hold import Hold
from acceptd.work.lease import Reason
from acceptd.work.need import need

log = structlog.get_logger("acceptd.fleet")


@dataclass(frozen=True, slots=True)
class Intake:
    """Works the drops of its own inbox. It holds no key but the node's, and writes no verdict."""

    node: str
    paths: Paths
    queue: Queue
    tasks: Tasks
    objects: Objects
    sealing: Sealing
    finishing: Finishing
    signer: Signer
    rules: Callable[[], Rules]
    capacity: Share

    def claim(self, claim: Claim) -> None:
        """Make a claimed drop durable in the record; an id that is known already is left as it is."""
        self.sealing.claim(claim, node=self.node)

    def process(self, submission: str, hold: Hold) -> Share | None:
        """Seal a claimed drop and hand it over; None when that is done, else the lease that it needs."""
        row = self.queue.get(submission)
        if row is None or row.state != "claimed":
            return None
        with bound(row.id, row.team, row.model):
            rules = self.rules()
            if not hold.fit(wanted := need(rules, capacity=self.capacity)):
                return wanted
            if self.queue.note_start(row.id, row.state) >= MAX_DEATHS:
                log.error("given up", state=row.state)
                self._hand_over(row, DIED.of(row.state))
                return None
            failpoint("lifecycle.claimed.begin")
            self._seal(row, rules, hold)
        return None

    def given_up(self, submission: str, reason: Reason) -> None:
        """Hand over why there is nothing to examine; after a stop it is taken up at the next start instead."""
        row = self.queue.get(submission)
        if row is None or row.state != "claimed":
            return
        with bound(row.id, row.team, row.model):
            if reason not in GIVEN_UP:
                self.queue.clear(submission)  # nobody's death
                log.info("put back", reason=reason, state=row.state)
                return
            self._hand_over(row, GIVEN_UP[reason])

    def expire(self, submission: str) -> None:
        """Hand over that a drop's deadline passed before it was started."""
        row = self.queue.get(submission)
        if row is not None and row.state == "claimed":
            with bound(row.id, row.team, row.model):
                self._hand_over(row, EXPIRED)

    def withdrawn(self, row: Row) -> None:
        """Hand over that a drop was taken out of the inbox while the fleet examines it: nobody waits for it."""
        with bound(row.id, row.team, row.model):
            self._hand_over(row, GIVEN_UP["withdrawn"])

    def _seal(self, row: Row, rules: Rules, hold: Hold) -> None:
        found = self.sealing.seal(row, rules, hold)
        model = ""
        if isinstance(found, SealedDrop):
            model = self._model(row, rules, hold, found)
            hold.finish()
            try:
                self.objects.put_bundle("sealed", self.paths.sealed / row.id / BUNDLE, found.sealed)
            except ObjectStoreError as error:
                raise FleetAwayError(f"objects: {error}") from error
            failpoint("fleet.seal.uploaded")
        self._hand_over(row, found, model)
        files.remove_tree(self.paths.sealed, row.id)

    def _model(self, row: Row, rules: Rules, hold: Hold, found: SealedDrop) -> str:
        """Return the id in the manifest, as a job reads it: the promoter orders by it, a worker reads it again.

        Empty where there is none, or none that is valid. Raises StateError where that could not be found out.
        """
        if all(file.path != MANIFEST_FILE for file in found.sealed.files):
            return ""
        acceptance = Acceptance(drop_of(row), rules, self.sealing.tools, hold)
        acceptance.read_manifest()
        if acceptance.jobs[-1].ending in {"lost", "unavailable"}:
            raise StateError(f"the manifest of {row.id} could not be read: {acceptance.jobs[-1].ending}")
        return acceptance.manifest.bundle.id if acceptance.manifest is not None else ""

    def _hand_over(self, row: Row, found: SealedDrop | NotSealed | End, model: str = "") -> None:
        if isinstance(found, SealedDrop):
            seal = sign_seal(
                self.signer, this_node(self.node), submission=row.id, team=row.team, drop=row.name, uid=row.uid,
                sealed=found.sealed, jobs=found.unpack, model=model, at=utc_now(),
            )  # fmt: skip
            fields = found.kept() | {"seal": seal, "declared_model": model}
        else:
            handed = Handover.of(row, self.node, found)
            fields = {"handover": handed.signed(self.signer), "ended": handed.ended is not None}
        try:
            self.queue.advance(row.id, "sealed", durable=True, **fields)
        except LedgerError:
            now = self.queue.get(row.id)
            if now is not None and (now.final or now.state in {"judged", "promoted"}):
                log.warning("it has its verdict already", state=now.state)
                return
            raise
        failpoint("fleet.seal.handed-over")
        self.tasks.order(row.id, model, team=row.team)

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self, task: FleetTask, _cancel: Cancel) -> None:
        """Write the outbox and clear the drop of a submission that was promoted, or ended otherwise."""
        row = self.queue.get(task.submission)
        if row is None or row.node != self.node:
            return
        with bound(row.id, row.team, row.model):
            if row.state == "promoted":
                failpoint("lifecycle.promoted.begin")
                self.finishing.finish(row)
                log.info("finished", seconds=round(time.time() - moment_of(row.received_at), 3))
            elif row.state == "quarantined":
                self.finishing.quarantined(row)

    def ended(self, submission: str) -> bool:
        """Whether it was handed over that there is nothing to examine."""
        row = self.queue.get(submission)
        return row is None or bool(row.data.get("ended"))

    def gone(self, row: Row) -> bool:
        """Whether the drop of a submission was taken out of the inbox."""
        return not os.path.lexists(row.path)
