"""The work of a daemon that does everything on one machine: watch, admit, examine, judge, promote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import structlog

from acceptd import opening
from acceptd.cell import selfcheck
from acceptd.errors import LedgerError, SigningError, StateError
from acceptd.housekeeping import Housekeeping, guarded, tell
from acceptd.intake.claims import Claim
from acceptd.lifecycle import EXAMINED, Lifecycle
from acceptd.record.entry import moment_of
from acceptd.record.queue import Queue
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms
from acceptd.retention.service import Retention
from acceptd.rooms import Rooms
from acceptd.rules import Rules
from acceptd.site import Helm
from acceptd.supervisor.pulse import Pulse, Watched
from acceptd.work import progress
from acceptd.work.budget import NOTHING
from acceptd.work.need import machine, need, require_room
from acceptd.work.rotation import Task

log = structlog.get_logger("acceptd.daemon")


class Embedded:
    """All rooms in one process, with a queue in memory before the durable one. See :class:`acceptd.site.Site`."""

    def __init__(self, helm: Helm) -> None:
        self._helm = helm
        self._paths = helm.paths
        self._settings = helm.settings

    # -- start ----------------------------------------------------------------------------------------

    def open(self, stack: ExitStack) -> None:
        """Open every room."""
        helm = self._helm
        opening.own(self._paths, stack)
        ledger = opening.record(helm, stack)
        keys, signer = opening.keys(helm, ledger)
        capacity = machine(self._settings)
        require_room(helm.rules(), capacity)
        opening.sweep_temporary(self._paths)
        notary = opening.notary(helm, stack, ledger, signer)  # first: a log that is not what was signed grows not
        following = opening.following(helm, stack, ledger, keys)
        # Ed25519 is deterministic (RFC 8032): a secret that needs no file of its own.
        secret = signer.sign(b"acceptd probe seed v1")
        tools = opening.tools(helm, stack, lanes=self._settings.workers or capacity.cores, secret=secret)
        queue = Queue(ledger)
        workers, journal = opening.workers(helm, stack, ledger, capacity, self._failed)
        self._progress = progress.Progress(self._paths.outbox, journal.nudge)
        inbox = opening.inbox(helm, self._claimed)
        lifecycle = Lifecycle(
            paths=self._paths,
            ledger=ledger,
            queue=queue,
            tools=tools,
            capacity=capacity,
            rules=helm.rules,
            ledger_signer=signer,
            release_keys=keys,
            discard=inbox.discard,
            standing=lambda: notary.standing,
            on_verdict=notary.nudge,
            count=helm.count,
            on_stage=self._progress.stage,
        )
        retention = Retention(
            self._paths.state, ledger, helm.rules, self._settings.retention, self._settings.objects
        )
        stack.callback(retention.stop)
        self._rooms = Rooms(ledger, queue, keys, lifecycle, workers, inbox, journal, notary, retention, following)
        self._house = Housekeeping(
            self._paths, self._settings, helm.rules, self._rooms, self._offer_again, helm.beat
        )

    def begin(self) -> None:
        """Take up what an earlier daemon left: releases first, then submissions, then unknown claims."""
        rooms = self._rooms
        terms = Terms.of(self._helm.rules().policy)
        tell(reconcile(self._paths.state, rooms.ledger, rooms.keys, terms=terms))
        guarded(self._house.releases.finish_canaries)
        for death in rooms.queue.recover():
            log.warning("taken up after a death", submission=death.id, state=death.state, deaths=death.deaths)
        for claim in rooms.inbox.leftovers():
            rooms.lifecycle.claim(claim)
        rooms.notary.start()
        rooms.workers.start()
        rooms.journal.start(
            lambda meter: rooms.workers.show(meter) | opening.told(self._helm.rules()),
            beside=self._write_progress,
        )
        self._offer_again()
        self._house.space.watch_space()  # before the first claim
        rooms.inbox.start()

    def shown(self, pulse: Pulse) -> AbstractContextManager[None]:
        """Show figures meanwhile."""
        return self._helm.count.shown(self._rooms, self._house, pulse)

    def _write_progress(self) -> None:
        self._progress.write(self._rooms.workers.look_at(progress.waiting_by_team))

    # -- while running ----------------------------------------------------------------------------------

    def _claimed(self, claim: Claim) -> None:
        self._rooms.lifecycle.claim(claim)
        self._progress.claimed(claim.id, claim.name)
        log.info("claimed", submission=claim.id, team=claim.team)
        self._offer(claim.id, claim.team, "claimed", time.time(), fresh=True)

    def _offer(self, submission: str, team: str, state: str, claimed: float, *, fresh: bool = False) -> None:
        """Queue a submission. One that finds no place stays in the durable queue until there is room."""
        rules = self._helm.rules()
        # Beyond the verdict nothing is examined any more: that needs a worker, and nothing of the machine.
        share = need(rules) if state in EXAMINED else NOTHING
        lifecycle = self._rooms.lifecycle
        task = Task(
            submission,
            team,
            rules.profile.name,
            share,
            opening.deadline(float(self._settings.submission_seconds), claimed),
            run=lambda hold: self._progress.during(submission, lambda: lifecycle.process(submission, hold)),
            expired=lambda: self._progress.during(submission, lambda: lifecycle.expire(submission)),
            given_up=lambda reason: self._progress.during(
                submission, lambda: lifecycle.given_up(submission, reason)
            ),
        )
        self._rooms.workers.offer(task, fresh=fresh)

    def _failed(self, task: Task, error: BaseException) -> None:
        """Keep the submission where it stands: housekeeping offers it again.

        What its own storage or ledger refuses (a full disk) says nothing about the submission: it waits for the
        operator until its time is over, for a key's command without end. Anything else counts as a death.
        """
        self._helm.count.failed()
        ours = isinstance(error, StateError | LedgerError | OSError)
        log.error(
            "submission failed",
            submission=task.id,
            error=f"{type(error).__name__}: {error}",
            exc_info=None if ours else error,
        )
        try:
            row = self._rooms.queue.get(task.id)
            waited = time.time() - moment_of(row.received_at) if row is not None else 0.0
            if isinstance(error, SigningError) or (ours and waited < self._settings.submission_seconds):
                self._rooms.queue.clear(task.id)
            else:
                self._rooms.queue.bump_deaths(task.id)
        except Exception as trouble:  # noqa: BLE001 - the worker goes on
            log.error("cannot count it", submission=task.id, error=str(trouble))  # noqa: TRY400 - no traceback wanted

    def room(self) -> None:
        """Offer again what found no place."""
        self._offer_again()

    def _offer_again(self) -> None:
        """Offer what failed before or did not fit into the queue."""
        with self._rooms.workers.refill():
            for submission, team, state, received_at in self._rooms.queue.unfinished():
                self._offer(submission, team, state, moment_of(received_at))

    def duties(self) -> None:
        """Look after space, withdrawn drops, the queue and the releases."""
        self._house.do()

    def allow(self, fresh: Rules) -> None:
        """Refuse rules whose submissions would fit nowhere here, or whose walls do not hold."""
        lifecycle = self._rooms.lifecycle
        require_room(fresh, lifecycle.capacity)
        selfcheck.require_walls(lifecycle.tools.cell, self._paths.sealed, fresh.policy)

    def reloaded(self) -> None:
        """Show which rules are in force."""
        self._rooms.journal.nudge()

    def load(self) -> tuple[int, int]:
        """Return how many submissions run, and how many wait in memory."""
        return self._rooms.workers.active, self._rooms.workers.depth

    def remark(self) -> str:
        """Say that nothing is claimed, where it is so."""
        return "intake paused: the disk is nearly full" if self._house.paused else ""

    # -- stop -------------------------------------------------------------------------------------------

    def drain(self, quiet: Callable[[], None]) -> None:
        """Claim nothing more and begin nothing more."""
        self._rooms.inbox.stop()
        self._rooms.retention.stop()
        self._rooms.workers.drain(quiet)

    def cancel(self) -> int:
        """Cancel what runs; it is taken up at the next start."""
        return self._rooms.workers.cancel("stop")

    def join(self, seconds: float) -> bool:
        """Wait for the workers."""
        return self._rooms.workers.join(seconds)

    def end(self) -> None:
        """Write the last of journal, progress and checkpoints."""
        self._rooms.journal.stop()
        self._progress.clear()
        self._rooms.notary.stop()

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        return self._rooms.watched()
