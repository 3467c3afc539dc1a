"""Wires the rooms: watch, admit, work, recover, stop.

The daemon imports no numpy, onnx or onnxruntime, and reads no byte of a submission's content: jobs in
the cell and the comparer do (a test looks at a running daemon's modules).
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from acceptd import key_rotation
from acceptd.cell import selfcheck
from acceptd.config import Paths, Settings, policies_directory
from acceptd.daemon_lock import acquire
from acceptd.errors import AcceptdError, CellUnavailableError, LedgerError, SigningError, StateError
from acceptd.export.service import Following
from acceptd.intake.claims import Claim
from acceptd.intake.files import remove_tree
from acceptd.intake.inbox import Inbox, InboxSettings, Notice
from acceptd.lifecycle import EXAMINED, Lifecycle
from acceptd.record import reserve
from acceptd.record.anchor import open_anchor
from acceptd.record.entry import moment_of
from acceptd.record.keystore import in_force, open_signer, own_history
from acceptd.record.leases import Leases
from acceptd.record.log import Ledger
from acceptd.record.migrate import migrate
from acceptd.record.notary import Notary
from acceptd.record.queue import Queue
from acceptd.release.reconcile import Reconciled, catch_up, reconcile
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.retention.service import Retention
from acceptd.rules import Rules, load_rules
from acceptd.tools import Tools
from acceptd.work.admission import Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.journal import Journal
from acceptd.work.need import machine, need, require_room
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers

HOUSEKEEPING_SECONDS = 15.0
STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
ROOM, QUIET = -1, -2
"""Words beside the signals: the queue takes submissions again; nothing runs any more."""
log = structlog.get_logger("acceptd.daemon")


@dataclass(frozen=True, slots=True)
class _Rooms:
    """What a running daemon holds open."""

    ledger: Ledger
    queue: Queue
    keys: ReleaseKeys
    lifecycle: Lifecycle
    workers: Workers
    inbox: Inbox
    journal: Journal
    notary: Notary
    retention: Retention


class Daemon:
    """One daemon for one state directory. :meth:`run` returns after :meth:`stop` or a signal."""

    def __init__(self, paths: Paths, settings: Settings) -> None:
        self.paths = paths
        self.settings = settings
        # `put` is written in C and may interrupt itself: the only thing that a signal handler here does.
        self._words: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._rules_lock = threading.Lock()
        self._rules = load_rules(policies_directory(settings), settings.policy)
        self._paused = False
        self._broken = ""
        self.ready = threading.Event()

    def stop(self) -> None:
        """Stop taking drops, let what runs finish for ``stop_seconds``, and return from :meth:`run`."""
        self._words.put(signal.SIGTERM)

    def rules(self) -> Rules:
        """Return the rules in force; reloaded on SIGHUP."""
        with self._rules_lock:
            return self._rules

    def install_signals(self) -> None:
        """SIGTERM and SIGINT stop, SIGHUP reloads the policy. Only from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._words.put)  # type: ignore[arg-type] # the frame is taken for `block`

    def reload(self) -> None:
        """Load the policy again soon; a policy that is refused changes nothing."""
        self._words.put(signal.SIGHUP)

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Work until stopped.

        Raises:
            StateError: another daemon works here, or the state is not whole.
            LedgerError: the log is not what was signed; then nothing more was written.
            CellUnavailableError: a wall that the policy requires does not hold on this host.
        """
        os.umask(0o022)
        with ExitStack() as stack:
            rooms = self._open(stack)
            self._recover(rooms)
            gc.collect()
            gc.freeze()  # what was made up to here stays: no collection needs to go through it again
            self.ready.set()
            log.info("ready", state=str(self.paths.state), policy=self.rules().policy_digest)
            on_ready()
            while not (words := self._listen()) & STOPS:
                if signal.SIGHUP in words:
                    self._guarded(self._reload_rules, rooms)
                if words == {ROOM}:
                    self._guarded(self._offer_again, rooms)
                    continue
                for duty in (self._watch_space, self._look_for_withdrawn, self._offer_again, self._keep_releases):
                    self._guarded(duty, rooms)
                rooms.retention.nudge()
            self._finish(rooms)
            rooms.notary.stop()
            if self._broken:
                raise LedgerError(self._broken)

    def _finish(self, rooms: _Rooms) -> None:
        """Let running work end, up to ``stop_seconds`` or a second signal; then cancel it, and wait for that.

        What is cancelled stays where it stands in the queue and is taken up at the next start.
        """
        seconds = self.settings.stop_seconds
        log.info("stopping", active=rooms.workers.active, waiting=rooms.workers.depth, within_s=seconds)
        rooms.inbox.stop()
        rooms.retention.stop()
        rooms.workers.drain(lambda: self._words.put(QUIET))
        due, word = time.monotonic() + seconds, ROOM
        with contextlib.suppress(queue.Empty):
            while word != QUIET and word not in STOPS:
                word = self._words.get(timeout=max(0.0, due - time.monotonic()))
        if word != QUIET:
            log.warning("cancelling", active=rooms.workers.cancel("stop"))
        rooms.workers.join()
        rooms.journal.stop()

    # -- start ----------------------------------------------------------------------------------------

    def _open(self, stack: ExitStack) -> _Rooms:
        descriptor = acquire(self.paths.lock)
        stack.callback(os.close, descriptor)
        if done := migrate(self.paths.state):
            log.info("migrated", version=done.after, before=done.before, backup=str(done.backup))
        ledger = stack.enter_context(Ledger.open(self.paths.state, create=False))
        ledger.settle(self._end_broken)
        for line in key_rotation.resume(self.paths.state, ledger):
            log.warning("a rotation of a key was interrupted", what=line)
        keys = ReleaseKeys.load(self.paths.state, ledger)
        capacity = machine(self.settings)
        require_room(self.rules(), capacity)
        # What a killed daemon left there; blobs there have no name anyway.
        for name in os.listdir(self.paths.temporary):
            remove_tree(self.paths.temporary, name)
        signer = open_signer(self.paths.state, "ledger")
        in_force(own_history(self.paths.state, ledger), signer)
        anchor = open_anchor(self.settings.checkpoint.anchor, self.paths.state)
        notary = Notary(self.paths.state, ledger, signer, anchor, self._end_broken)
        notary.begin()  # first: a log that is not what was signed gets no further entry
        stack.callback(notary.stop)
        stack.enter_context(Following(self.paths.state, ledger, keys, self.settings.exports, self.settings.hooks))
        tools = stack.enter_context(
            Tools.open(
                self.paths.sealed,
                self.paths.temporary,
                spare=True,
                store=self.paths.store,
                # Ed25519 is deterministic (RFC 8032): a secret that needs no file of its own.
                secret=signer.sign(b"acceptd probe seed v1"),
                on_replaced=lambda reason: log.warning("warm parent replaced", reason=reason),
                lanes=self.settings.workers or capacity.cores,
            )
        )
        for target in self.rules().targets:
            tools.cell.prepare(target.profile)
        selfcheck.require_walls(tools.cell, self.paths.sealed, self.rules().policy)
        queue = Queue(ledger)
        workers, journal = self._workers(ledger, capacity)
        stack.callback(journal.stop)
        inbox = self._inbox()
        lifecycle = Lifecycle(
            paths=self.paths,
            ledger=ledger,
            queue=queue,
            tools=tools,
            capacity=capacity,
            rules=self.rules,
            ledger_signer=signer,
            release_keys=keys,
            discard=inbox.discard,
            standing=lambda: notary.standing,
            on_verdict=lambda *_: notary.nudge(),
        )
        retention = Retention(self.paths.state, ledger, self.rules, self.settings.retention)
        stack.callback(retention.stop)
        self._rooms = _Rooms(ledger, queue, keys, lifecycle, workers, inbox, journal, notary, retention)
        return self._rooms

    def _end_broken(self, reason: str) -> None:
        self._broken = reason
        self._words.put(signal.SIGTERM)

    def _workers(self, ledger: Ledger, capacity: Share) -> tuple[Workers, Journal]:
        leases = Leases(ledger, boot=secrets.token_hex(8))
        closed = leases.open(time.time())
        if closed:
            log.warning("closed leases of a dead daemon", leases=closed)
        journal = Journal(self.paths.state, leases)
        admission = Admission(capacity, limit=self.settings.queue_limit, listen=journal.hear)
        workers = Workers(
            self.settings.workers or capacity.cores,
            admission,
            on_error=self._failed,
            on_room=lambda: self._words.put(ROOM),
            on_change=journal.nudge,
        )
        log.info("budget", cores=capacity.cores, memory_bytes=capacity.memory)
        return workers, journal

    def _inbox(self) -> Inbox:
        table = self.settings.inbox
        wanted = InboxSettings(
            settle_seconds=table.settle_seconds,
            rescan_seconds=table.rescan_seconds,
            polling=table.polling,
            scan_cap=table.max_entries,
        )
        return Inbox(self.paths.inbox, wanted, self._claimed, self._noticed)

    def _recover(self, rooms: _Rooms) -> None:
        """Take up what an earlier daemon left: releases first, then submissions, then unknown claims."""
        self._tell(reconcile(self.paths.state, rooms.ledger, rooms.keys, terms=Terms.of(self.rules().policy)))
        for death in rooms.queue.recover():
            log.warning("taken up after a death", submission=death.id, state=death.state, deaths=death.deaths)
        for claim in rooms.inbox.leftovers():
            rooms.lifecycle.claim(claim)
        rooms.notary.start()
        rooms.workers.start()
        rooms.journal.start(rooms.workers.show)
        self._offer_again(rooms)
        self._watch_space(rooms)  # before the first claim
        rooms.inbox.start()

    def _tell(self, report: Reconciled) -> None:
        for word in report.done:
            log.info("reconciled", what=word)
        for problem in report.problems:
            log.error("not reconciled", what=problem)

    # -- while running ----------------------------------------------------------------------------------

    def _claimed(self, claim: Claim) -> None:
        rooms = self._rooms
        rooms.lifecycle.claim(claim)
        log.info("claimed", submission=claim.id, team=claim.team)
        self._offer(rooms, claim.id, claim.team, "claimed", time.time())

    def _noticed(self, notice: Notice) -> None:
        log.warning("inbox", code=notice.code, team=notice.team, message=notice.message)

    def _offer(self, rooms: _Rooms, submission: str, team: str, state: str, claimed: float) -> None:
        """Queue a submission. One that finds no place stays in the durable queue until there is room."""
        rules = self.rules()
        # Beyond the verdict nothing is examined any more: that needs a worker, and nothing of the machine.
        share = need(rules) if state in EXAMINED else NOTHING
        lifecycle = rooms.lifecycle
        task = Task(
            submission,
            team,
            rules.profile.name,
            share,
            self._deadline(claimed),
            run=lambda hold: lifecycle.process(submission, hold),
            expired=lambda: lifecycle.expire(submission),
            given_up=lambda reason: lifecycle.given_up(submission, reason),
        )
        rooms.workers.offer(task)

    def _deadline(self, claimed: float) -> float:
        """Return the monotonic time at which a claim of that wall-clock time is over.

        A wall clock that was set back meanwhile gives nobody more than the whole time again.
        """
        allowed = float(self.settings.submission_seconds)
        return time.monotonic() + min(allowed, claimed + allowed - time.time())

    def _failed(self, task: Task, error: BaseException) -> None:
        """Keep the submission where it stands: housekeeping offers it again.

        What its own storage or ledger refuses (a full disk) says nothing about the submission: it waits for the
        operator until its time is over, for a key's command without end. Anything else counts as a death.
        """
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
            if isinstance(error, SigningError) or (ours and waited < self.settings.submission_seconds):
                self._rooms.queue.clear(task.id)
            else:
                self._rooms.queue.bump_deaths(task.id)
        except Exception as trouble:  # noqa: BLE001 - the worker goes on
            log.error("cannot count it", submission=task.id, error=str(trouble))  # noqa: TRY400 - no traceback wanted

    def _listen(self) -> set[int]:
        """Wait until a signal comes or housekeeping is due; return all signals that came, each once."""
        words = set()
        with contextlib.suppress(queue.Empty):
            words.add(self._words.get(timeout=HOUSEKEEPING_SECONDS))
            for _ in range(self._words.qsize()):
                words.add(self._words.get_nowait())
        return words

    @staticmethod
    def _guarded(duty: Callable[[_Rooms], None], rooms: _Rooms) -> None:
        """Do one duty of the house; what it meets (a busy ledger, a full disk) never ends the daemon."""
        try:
            duty(rooms)
        except (AcceptdError, OSError) as error:
            log.error("housekeeping", duty=duty.__name__.strip("_"), error=str(error))  # noqa: TRY400 - it says all
        except Exception:
            log.exception("housekeeping", duty=duty.__name__.strip("_"))

    def _offer_again(self, rooms: _Rooms) -> None:
        """Offer what failed before or did not fit into the queue."""
        for submission, team, state, received_at in rooms.queue.unfinished():
            self._offer(rooms, submission, team, state, moment_of(received_at))

    def _look_for_withdrawn(self, rooms: _Rooms) -> None:
        """Give up running work whose drop was taken out of the inbox: nobody waits for its verdict."""
        for submission in rooms.workers.look_at(lambda one: [lease.submission for lease in one.leases.values()]):
            row = rooms.queue.get(submission)
            if row is not None and row.state in EXAMINED and not os.path.lexists(row.path):
                rooms.workers.give_up(submission, "withdrawn")

    def _keep_releases(self, rooms: _Rooms) -> None:
        """Finish what was killed, refresh what expires, promote what has had its time, write a checkpoint."""
        terms = Terms.of(self.rules().policy)
        self._tell(catch_up(self.paths.state, rooms.ledger, rooms.keys, terms=terms))
        rooms.lifecycle.promotions.keep()
        rooms.notary.nudge()

    def _watch_space(self, rooms: _Rooms) -> None:
        free = shutil.disk_usage(self.paths.state).free
        if free < self.settings.min_free_bytes and not self._paused:
            self._paused = True
            rooms.inbox.pause()
            log.error("intake paused: the disk is nearly full", free_bytes=free)
        elif free >= self.settings.min_free_bytes and self._paused:
            self._paused = False
            rooms.inbox.resume()
            log.info("intake resumed", free_bytes=free)
        if not self._paused and not reserve.keep(self.paths.state):
            log.warning("no room for the ledger's reserve", free_bytes=free)

    def _reload_rules(self, rooms: _Rooms) -> None:
        try:
            fresh = load_rules(policies_directory(self.settings), self.settings.policy)
            require_room(fresh, rooms.lifecycle.capacity)
            selfcheck.require_walls(rooms.lifecycle.tools.cell, self.paths.sealed, fresh.policy)
        except AcceptdError as error:
            log.error("policy not reloaded: the old one stays", error=str(error))  # noqa: TRY400
            return
        with self._rules_lock:
            self._rules = fresh
        log.info("policy reloaded", policy=fresh.policy_digest)


__all__ = ["CellUnavailableError", "Daemon", "StateError"]
