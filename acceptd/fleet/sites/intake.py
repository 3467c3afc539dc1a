"""The intake's wing: the inbox, sealing, the outbox and what teams are told meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import structlog

from acceptd import opening
from acceptd.errors import LedgerError, StateError
from acceptd.fleet.intake import Intake
from acceptd.fleet.sites.machine import Machine
from acceptd.fleet.sites.node import Node
from acceptd.fleet.sites.wing import Taking
from acceptd.fleet.task import intake_queue
from acceptd.fleet.taskworker import TaskWorker
from acceptd.housekeeping import Space
from acceptd.intake.claims import Claim
from acceptd.record.entry import moment_of
from acceptd.record.node_key import node_signer
from acceptd.record.queue import Submission as Row
from acceptd.steps.finishing import Finishing
from acceptd.steps.sealing import Sealing
from acceptd.supervisor.pulse import Watched
from acceptd.work import progress
from acceptd.work.need import need
from acceptd.work.rotation import Task

SLOTS = 2
"""Submissions that are finished at once."""
PROGRESS_SECONDS = 1.0
"""Between two looks at how drops stand."""
MOST = 4096
"""Rows of this node that one look goes through."""
log = structlog.get_logger("acceptd.fleet")


class IntakeWing:
    """See :class:`~acceptd.fleet.sites.wing.Wing`."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self._node = node
        self._machine = machine
        self._due = 0.0

    def open(self, stack: ExitStack) -> None:  # noqa: ARG002 - nothing to close
        """Open inbox and outbox."""
        node, machine, helm = self._node, self._machine, self._node.helm
        signer = node_signer(helm.paths.state)
        self.key_id = signer.key_id
        self._inbox = opening.inbox(helm, self._claimed)
        self._progress = progress.Progress(helm.paths.outbox, machine.journal.nudge)
        self._intake = Intake(
            node=node.name,
            paths=helm.paths,
            queue=node.queue,
            tasks=node.tasks,
            objects=node.objects,
            sealing=Sealing(helm.paths, node.queue, machine.tools),
            finishing=Finishing(helm.paths, node.ledger, node.queue, self._inbox.discard, keep_held=False),
            signer=signer,
            rules=helm.rules,
            capacity=machine.capacity,
        )
        self._space = Space(
            helm.paths.state, helm.settings.min_free_bytes, self._inbox, keep_reserve=node.role == "all"
        )
        self.slots = SLOTS
        self.queues = [intake_queue(node.name)]
        self._taking = Taking(
            lambda alone: TaskWorker(
                node.url,
                self.queues,
                self.slots,
                {"finish": self._intake.finish},
                node=node.name,
                former=helm.paths.state / "tasks-intake" if alone else None,
                settled=lambda task, end: helm.count.task(task.kind, end),
                beat_seconds=node.table.beat_seconds,
                back_off=node.table.retry_seconds,
            )
        )

    def begin(self) -> None:
        """Take up what an earlier daemon of this node left, then drops."""
        for death in self._node.queue.recover(node=self._node.name):
            log.warning("taken up after a death", submission=death.id, state=death.state, deaths=death.deaths)
        for claim in self._inbox.leftovers():
            self._intake.claim(claim)
        self._machine.on_error = self._failed
        self._machine.beside = self._write_progress
        self._taking.start()
        self.offer_again()
        self._space.watch_space()  # before the first claim
        self._inbox.start()
        log.info("intake", teams=len(list(self._node.helm.paths.inbox.iterdir())))

    # -- drops ------------------------------------------------------------------------------------------

    def _claimed(self, claim: Claim) -> None:
        self._intake.claim(claim)
        self._progress.claimed(claim.id, claim.name)
        log.info("claimed", submission=claim.id, team=claim.team)
        self._offer(claim.id, claim.team, time.time(), fresh=True)

    def _offer(self, submission: str, team: str, claimed: float, *, fresh: bool = False) -> None:
        helm, intake = self._node.helm, self._intake
        rules = helm.rules()
        task = Task(
            submission,
            team,
            rules.profile.name,
            need(rules),
            opening.deadline(float(helm.settings.submission_seconds), claimed),
            run=lambda hold: intake.process(submission, hold),
            expired=lambda: intake.expire(submission),
            given_up=lambda reason: intake.given_up(submission, reason),
        )
        self._machine.workers.offer(task, fresh=fresh)

    def _failed(self, task: Task, error: BaseException) -> None:
        """Keep the drop where it stands: it is offered again. What is ours to mend is nobody's death."""
        self._node.helm.count.failed()
        ours = isinstance(error, StateError | LedgerError | OSError)
        words = f"{type(error).__name__}: {error}"
        log.error("drop not handed over", submission=task.id, error=words, exc_info=None if ours else error)
        queue = self._node.queue
        try:
            queue.clear(task.id) if ours else queue.bump_deaths(task.id)
        except Exception as trouble:  # noqa: BLE001 - the worker goes on
            log.error("cannot count it", submission=task.id, error=str(trouble))  # noqa: TRY400 - no traceback wanted

    # -- duties -----------------------------------------------------------------------------------------

    def duties(self) -> list[Callable[[], None]]:
        """Return what is due: space, drops that were taken out, and whatever stands still."""
        return [
            self._space.watch_space,
            self.look_for_withdrawn,
            self.offer_again,
            self.finish_again,
            self._machine.journal.nudge,
            self._machine.tools.cells.keep_spares,
        ]

    def look_for_withdrawn(self) -> None:
        """Give up, or have the fleet give up, what was taken out of the inbox: nobody waits for its verdict."""
        for row in self._own("claimed", "sealed"):
            if self._intake.gone(row):
                if row.state == "claimed":
                    self._machine.workers.give_up(row.id, "withdrawn")
                elif not self._intake.ended(row.id):
                    self._intake.withdrawn(row)

    def offer_again(self) -> None:
        """Offer the claimed drops that wait for nobody, and sweep what was sealed and is handed over."""
        with self._machine.workers.refill() as refill:
            claimed = self._own("claimed")
            refill.whole = len(claimed) < MOST
            for row in claimed:
                self._offer(row.id, row.team, moment_of(row.received_at))

    def finish_again(self) -> None:
        """Finish what the promoter is done with and nobody told us of."""
        for row in self._own("promoted"):
            self._node.tasks.finish(row.id, self._node.name, team=row.team)

    def _own(self, *states: str) -> list[Row]:
        return self._node.queue.of_node(self._node.name, states, limit=MOST)

    def _write_progress(self) -> None:
        """Tell teams how their drops stand: by the record, and by what is examined just now."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PROGRESS_SECONDS
        own = self._own("claimed", "sealed", "judged", "promoted")
        examined = (
            {one.submission for one in self._node.tasks.running() if one.kind == "examine"} if own else set()
        )
        told = [(row, _stage(row, examined)) for row in own]
        self._progress.elsewhere(told)
        waiting: dict[str, list[str]] = {}
        for row, stage in told:
            if not stage:
                waiting.setdefault(row.team, []).append(row.id)
        self._progress.write(waiting)

    # -- the rest of a wing -------------------------------------------------------------------------------

    def reloaded(self) -> None:
        """Show which rules are in force."""
        self._machine.journal.nudge()

    def load(self) -> tuple[int, int]:
        """Return how many submissions are finished just now; the machine knows of the rest."""
        return self._taking.load()

    def remark(self) -> str:
        """Say that nothing is claimed, where it is so."""
        if self._space.paused:
            return "intake paused: the disk is nearly full"
        return self._taking.remark()

    def take(self, on: bool, /) -> None:
        """Claim drops, or none; what is under way is finished all the same."""
        self._inbox.resume() if on and not self._space.paused else self._inbox.pause()

    def room(self) -> None:
        """Offer the drops that found no place here."""
        self.offer_again()

    def drain(self, quiet: Callable[[], None]) -> None:
        """Claim nothing more, finish nothing more."""
        self._inbox.stop()
        self._taking.drain(quiet)

    def cancel(self) -> int:
        """Cancel what runs."""
        return self._taking.cancel()

    def join(self, seconds: float) -> bool:
        """Wait for the worker's thread."""
        return self._taking.join(seconds)

    def end(self) -> None:
        """Say nothing more to teams: nobody would keep it true."""
        self._progress.clear()

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        yield Watched(self._inbox.thread, self._inbox.turns)
        yield from self._taking.watched()


def _stage(row: Row, examined: set[str]) -> str:
    """Return what is done with a submission now; empty: it waits."""
    if row.state in {"judged", "promoted"}:
        return "promote"
    if row.state == "claimed":
        return "seal" if row.working else ""
    return "examine" if row.id in examined else ""
