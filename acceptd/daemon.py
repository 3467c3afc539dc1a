"""The main loop of a daemon: signals, the rules in force, the sign of life, and an end that lets work finish.

What it works at is its :class:`~acceptd.site.Site`: everything on one machine, or the roles of a fleet's node.
The daemon imports no numpy, onnx or onnxruntime, and reads no byte of a submission's content: jobs in
the cell and the comparer do (a test looks at a running daemon's modules).
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import structlog

from acceptd.config import Paths, Settings
from acceptd.embedded import Embedded
from acceptd.errors import CellUnavailableError, LedgerError, StateError
from acceptd.housekeeping import guarded
from acceptd.metrics.counting import counting
from acceptd.rules import Rules
from acceptd.rules_in_force import RulesInForce, tell_observed
from acceptd.site import Helm, Site
from acceptd.supervisor.notify import Notifier
from acceptd.supervisor.pulse import EXTENSION, Pulse

HOUSEKEEPING_SECONDS = 15.0
ENDING_SECONDS = 900.0
"""How long the end of cancelled work may ask the service manager for more time."""
STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
ROOM, QUIET = -1, -2
"""Words beside the signals: the queue takes submissions again; nothing runs any more."""
log = structlog.get_logger("acceptd.daemon")


class Daemon:
    """One daemon for one state directory. :meth:`run` returns after :meth:`stop` or a signal."""

    def __init__(self, paths: Paths, settings: Settings, site: Callable[[Helm], Site] = Embedded) -> None:
        self.paths = paths
        self.settings = settings
        # `put` is written in C and may interrupt itself: the only thing that a signal handler here does.
        self._words: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._in_force = RulesInForce(settings)
        self._broken = ""
        self._notifier = Notifier.take(os.environ)
        self._count = counting(settings.metrics)
        self.ready = threading.Event()
        helm = Helm(
            paths,
            settings,
            rules=lambda: self.rules(),  # noqa: PLW0108 - a test puts another there
            notifier=self._notifier,
            count=self._count,
            room=lambda: self._words.put(ROOM),
            end=self._end_broken,
            beat=lambda: self._pulse.beat(),  # noqa: PLW0108 - made below
        )
        self.site = site(helm)
        self._pulse = Pulse(self._notifier, self.site.watched)

    def stop(self) -> None:
        """Stop taking drops, let what runs finish for ``stop_seconds``, and return from :meth:`run`."""
        self._words.put(signal.SIGTERM)

    def rules(self) -> Rules:
        """Return the rules in force; reloaded on SIGHUP."""
        return self._in_force.now()

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
            self.site.open(stack)
            self.site.begin()
            stack.enter_context(self.site.shown(self._pulse))
            gc.collect()
            gc.freeze()  # what was made up to here stays: no collection needs to go through it again
            self.ready.set()
            log.info("ready", state=str(self.paths.state), policy=self.rules().policy_digest)
            tell_observed(self.rules())
            on_ready()
            self._tell_standing(self._notifier.ready)
            while not (words := self._listen()) & STOPS:
                if signal.SIGHUP in words:
                    guarded(self._reload_rules)
                if words == {ROOM}:
                    guarded(self.site.room)
                    continue
                self.site.duties()
                self._tell_standing(self._notifier.status)
            self._finish()
            if self._broken:
                raise LedgerError(self._broken)

    def _finish(self) -> None:
        """Let running work end, up to ``stop_seconds`` or a second signal; then cancel it, and wait for that.

        What is cancelled stays where it stands in the queue and is taken up at the next start.
        """
        seconds = self.settings.stop_seconds
        running, waiting = self.site.load()
        log.info("stopping", active=running, waiting=waiting, within_s=seconds)
        self._notifier.stopping(f"stopping: {running} running, {seconds} s to finish")
        self.site.drain(lambda: self._words.put(QUIET))
        due, word = time.monotonic() + seconds, ROOM
        while word != QUIET and word not in STOPS and (left := due - time.monotonic()) > 0:
            self._pulse.stopping()
            with contextlib.suppress(queue.Empty):
                word = self._words.get(timeout=min(left, self._pulse.interval, EXTENSION / 2))
        if word != QUIET:
            log.warning("cancelling", active=self.site.cancel())
        given_up = time.monotonic() + ENDING_SECONDS
        while not self.site.join(min(self._pulse.interval, EXTENSION / 2)):
            if time.monotonic() < given_up:  # after that the service manager's patience counts, not ours
                self._pulse.stopping()
        self.site.end()

    def _end_broken(self, reason: str) -> None:
        self._broken = reason
        self._words.put(signal.SIGTERM)

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

    def _reload_rules(self) -> None:
        """Put the policy in force as it stands in its file now; one that is refused changes nothing."""
        self._notifier.reloading()
        try:
            accepted = self._in_force.reload(self.site.allow)
            self._count.reloaded(accepted=accepted)
            if accepted:
                self.site.reloaded()
        finally:  # whatever came of it: the service manager waits for this word
            self._tell_standing(self._notifier.ready)

    def _tell_standing(self, tell: Callable[[str], None]) -> None:
        """Tell the service manager in one line how things stand; nothing that a submitter wrote is in it."""
        if self._pulse.trouble:
            return  # what is wrong stays to be read
        rules, (running, waiting) = self.rules(), self.site.load()
        words = [f"{running} running, {waiting} waiting", f"policy {rules.policy.name} {rules.policy_digest[:12]}"]
        tell("; ".join(word for word in (self._in_force.trouble, *words, self.site.remark()) if word))


__all__ = ["CellUnavailableError", "Daemon", "StateError"]
