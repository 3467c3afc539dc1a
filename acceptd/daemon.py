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
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import structlog

from acceptd import key_rotation
from acceptd.cell import selfcheck
from acceptd.config import Paths, Settings, policies_directory
from acceptd.daemon_lock import acquire
from acceptd.errors import AcceptdError, CellUnavailableError, LedgerError, SigningError, StateError
from acceptd.export.service import Following
from acceptd.housekeeping import Housekeeping, guarded, tell
from acceptd.intake.claims import Claim
from acceptd.intake.files import remove_tree
from acceptd.intake.inbox import Inbox, InboxSettings, Notice
from acceptd.lifecycle import EXAMINED, Lifecycle
from acceptd.metrics.counting import counting
from acceptd.record.anchor import open_anchor
from acceptd.record.entry import moment_of
from acceptd.record.keystore import in_force, open_signer, own_history
from acceptd.record.leases import Leases
from acceptd.record.log import Ledger
from acceptd.record.migrate import migrate
from acceptd.record.notary import Notary
from acceptd.record.queue import Queue
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.retention.service import Retention
from acceptd.rooms import Rooms
from acceptd.rules import Rules, load_rules
from acceptd.supervisor.notify import Notifier
from acceptd.supervisor.pulse import EXTENSION, Pulse
from acceptd.tools import Tools
from acceptd.work import progress
from acceptd.work.admission import Admission
from acceptd.work.budget import NOTHING, Share
from acceptd.work.journal import Journal
from acceptd.work.need import machine, need, require_room
from acceptd.work.rotation import Task
from acceptd.work.workers import Workers

HOUSEKEEPING_SECONDS = 15.0
ENDING_SECONDS = 900.0
"""How long the end of cancelled work may ask the service manager for more time."""
STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
ROOM, QUIET = -1, -2
"""Words beside the signals: the queue takes submissions again; nothing runs any more."""
log = structlog.get_logger("acceptd.daemon")


class Daemon:
    """One daemon for one state directory. :meth:`run` returns after :meth:`stop` or a signal."""

    def __init__(self, paths: Paths, settings: Settings) -> None:
        self.paths = paths
        self.settings = settings
        # `put` is written in C and may interrupt itself: the only thing that a signal handler here does.
        self._words: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._rules_lock = threading.Lock()
        self._rules = load_rules(policies_directory(settings), settings.policy)
        self._broken = ""
        self._told = ""
        """What the service manager is to read first."""
        self._notifier = Notifier.take(os.environ)
        self._count = counting(settings.metrics)
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
            stack.enter_context(self._count.shown(rooms, self._house, self._pulse))
            gc.collect()
            gc.freeze()  # what was made up to here stays: no collection needs to go through it again
            self.ready.set()
            log.info("ready", state=str(self.paths.state), policy=self.rules().policy_digest)
            _tell_observed(self.rules())
            on_ready()
            self._tell_standing(rooms, self._notifier.ready)
            while not (words := self._listen()) & STOPS:
                if signal.SIGHUP in words:
                    guarded(self._reload_rules)
                if words == {ROOM}:
                    guarded(self._offer_again)
                    continue
                self._house.do()
                self._tell_standing(rooms, self._notifier.status)
            self._finish(rooms)
            rooms.notary.stop()
            if self._broken:
                raise LedgerError(self._broken)

    def _finish(self, rooms: Rooms) -> None:
        """Let running work end, up to ``stop_seconds`` or a second signal; then cancel it, and wait for that.

        What is cancelled stays where it stands in the queue and is taken up at the next start.
        """
        seconds = self.settings.stop_seconds
        log.info("stopping", active=rooms.workers.active, waiting=rooms.workers.depth, within_s=seconds)
        self._notifier.stopping(f"stopping: {rooms.workers.active} running, {seconds} s to finish")
        rooms.inbox.stop()
        rooms.retention.stop()
        rooms.workers.drain(lambda: self._words.put(QUIET))
        due, word = time.monotonic() + seconds, ROOM
        while word != QUIET and word not in STOPS and (left := due - time.monotonic()) > 0:
            self._pulse.stopping()
            with contextlib.suppress(queue.Empty):
                word = self._words.get(timeout=min(left, self._pulse.interval, EXTENSION / 2))
        if word != QUIET:
            log.warning("cancelling", active=rooms.workers.cancel("stop"))
        given_up = time.monotonic() + ENDING_SECONDS
        while not rooms.workers.join(min(self._pulse.interval, EXTENSION / 2)):
            if time.monotonic() < given_up:  # after that the service manager's patience counts, not ours
                self._pulse.stopping()
        rooms.journal.stop()
        self._progress.clear()

    # -- start ----------------------------------------------------------------------------------------

    def _open(self, stack: ExitStack) -> Rooms:
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
        following = stack.enter_context(
            Following(self.paths.state, ledger, keys, self.settings.exports, self.settings.hooks)
        )
        tools = stack.enter_context(
            Tools.open(
                self.paths.sealed,
                self.paths.temporary,
                spare=True,
                store=self.paths.store,
                # Ed25519 is deterministic (RFC 8032): a secret that needs no file of its own.
                secret=signer.sign(b"acceptd probe seed v1"),
                on_replaced=self._replaced,
                lanes=self.settings.workers or capacity.cores,
            )
        )
        for target in self.rules().targets:
            tools.cell.prepare(target.profile)
        self._notifier.status("proving the walls")
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
            on_verdict=notary.nudge,
            count=self._count,
            on_stage=self._progress.stage,
        )
        retention = Retention(self.paths.state, ledger, self.rules, self.settings.retention)
        stack.callback(retention.stop)
        rooms = Rooms(ledger, queue, keys, lifecycle, workers, inbox, journal, notary, retention, following)
        self._rooms = rooms
        self._pulse = Pulse(self._notifier, rooms.watched)
        self._house = Housekeeping(
            self.paths, self.settings, self.rules, rooms, self._offer_again, self._pulse.beat
        )
        return rooms

    def _replaced(self, reason: str) -> None:
        log.warning("warm parent replaced", reason=reason)
        self._count.replaced(reason)

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
        self._progress = progress.Progress(self.paths.outbox, journal.nudge)
        log.info("budget", cores=capacity.cores, memory_bytes=capacity.memory)
        return workers, journal

    def _write_progress(self) -> None:
        self._progress.write(self._rooms.workers.look_at(progress.waiting_by_team))

    def _inbox(self) -> Inbox:
        table = self.settings.inbox
        settle, rescan = table.settle_seconds, table.rescan_seconds
        wanted = InboxSettings(
            settle_seconds=settle, rescan_seconds=rescan, polling=table.polling, scan_cap=table.max_entries
        )
        return Inbox(self.paths.inbox, wanted, self._claimed, self._noticed)

    def _recover(self, rooms: Rooms) -> None:
        """Take up what an earlier daemon left: releases first, then submissions, then unknown claims."""
        tell(reconcile(self.paths.state, rooms.ledger, rooms.keys, terms=Terms.of(self.rules().policy)))
        guarded(self._house.finish_canaries)
        for death in rooms.queue.recover():
            log.warning("taken up after a death", submission=death.id, state=death.state, deaths=death.deaths)
        for claim in rooms.inbox.leftovers():
            rooms.lifecycle.claim(claim)
        rooms.notary.start()
        rooms.workers.start()
        rooms.journal.start(
            lambda meter: rooms.workers.show(meter) | self._rules_told(), beside=self._write_progress
        )
        self._offer_again()
        self._house.watch_space()  # before the first claim
        rooms.inbox.start()

    # -- while running ----------------------------------------------------------------------------------

    def _claimed(self, claim: Claim) -> None:
        rooms = self._rooms
        rooms.lifecycle.claim(claim)
        self._progress.claimed(claim.id, claim.name)
        log.info("claimed", submission=claim.id, team=claim.team)
        self._offer(rooms, claim.id, claim.team, "claimed", time.time())

    def _noticed(self, notice: Notice) -> None:
        log.warning("inbox", code=notice.code, team=notice.team, message=notice.message)

    def _offer(self, rooms: Rooms, submission: str, team: str, state: str, claimed: float) -> None:
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
            run=lambda hold: self._progress.during(submission, lambda: lifecycle.process(submission, hold)),
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
        self._count.failed()
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
        words: set[int] = set()
        due = time.monotonic() + HOUSEKEEPING_SECONDS
        while not words and (left := due - time.monotonic()) > 0:
            self._pulse.beat()
            with contextlib.suppress(queue.Empty):
                words.add(self._words.get(timeout=min(left, self._pulse.interval)))
                for _ in range(self._words.qsize()):
                    words.add(self._words.get_nowait())
        return words

    def _offer_again(self) -> None:
        """Offer what failed before or did not fit into the queue."""
        rooms = self._rooms
        for submission, team, state, received_at in rooms.queue.unfinished():
            self._offer(rooms, submission, team, state, moment_of(received_at))

    def _reload_rules(self) -> None:
        """Put the policy in force as it stands in its file now; one that is refused changes nothing."""
        rooms = self._rooms
        self._notifier.reloading()
        try:
            fresh = load_rules(policies_directory(self.settings), self.settings.policy)
            require_room(fresh, rooms.lifecycle.capacity)
            selfcheck.require_walls(rooms.lifecycle.tools.cell, self.paths.sealed, fresh.policy)
        except AcceptdError as error:
            log.error("policy not reloaded: the old one stays", error=str(error))  # noqa: TRY400
            self._told = f"policy not reloaded: {error}; "
            self._count.reloaded(accepted=False)
        else:
            with self._rules_lock:
                self._rules = fresh
            log.info("policy reloaded", policy=fresh.policy_digest)
            _tell_observed(fresh)
            self._told = ""
            self._count.reloaded(accepted=True)
            rooms.journal.nudge()
        finally:  # whatever came of it: the service manager waits for this word
            self._tell_standing(rooms, self._notifier.ready)

    def _rules_told(self) -> dict[str, Any]:
        """Return what is in force now, for whoever must not rely on what the files say."""
        rules = self.rules()
        return {"policy_digest": rules.policy_digest, "observe": rules.policy.observe.model_dump()}

    def _tell_standing(self, rooms: Rooms, tell: Callable[[str], None]) -> None:
        """Tell the service manager in one line how things stand; nothing that a submitter wrote is in it."""
        if self._pulse.trouble:
            return  # what is wrong stays to be read
        intake = "; intake paused: the disk is nearly full" if self._house.paused else ""
        rules = self.rules()
        policy = f"policy {rules.policy.name} {rules.policy_digest[:12]}"
        tell(f"{self._told}{rooms.workers.active} running, {rooms.workers.depth} waiting; {policy}{intake}")


def _tell_observed(rules: Rules) -> None:
    if words := list(rules.policy.observe.words()):
        log.warning("observe mode: judged and recorded, never promoted", observed="; ".join(words))


__all__ = ["CellUnavailableError", "Daemon", "StateError"]
