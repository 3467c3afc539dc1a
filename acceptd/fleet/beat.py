"""A node's heartbeat: a thread that tells the record how the node stands, and hears whether it is to drain.

It waits for a word, never polls: of the operator (PostgreSQL's NOTIFY), of the node itself (:meth:`Beat.nudge`),
or until the next beat is due. A database that is away is waited out; the node works on what it has meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from acceptd.errors import AcceptdError
from acceptd.fleet.ear import Ear
from acceptd.fleet.nodes import BEAT_SECONDS, CHANNEL, Nodes, Told, new_boot
from acceptd.supervisor.turns import Turns
from acceptd.threads import Thread

_APART: Final = 0.25
"""Seconds between two beats that others asked for."""
_PATIENCE: Final = 5.0
"""Seconds that a stop waits for the last beat; a database that is away keeps no node from stopping."""
log = structlog.get_logger("acceptd.fleet")


class Beat:
    """The heartbeat of one node. ``tell`` gives its standing, ``on_drain`` hears what the operator asks.

    ``on_drain`` is called in the thread of the beats, at the first beat where the node is to drain and at each
    change; an exception of it is logged, and it is called again at the next beat. ``on_outdated`` hears once why
    this version may not go on: the record was brought to a schema that it does not know. ``url`` is the database
    that says changes at once; without one they are seen at the next beat.
    """

    def __init__(
        self,
        nodes: Nodes,
        tell: Callable[[], Told],
        on_drain: Callable[[bool], None],
        *,
        on_outdated: Callable[[str], None] = lambda _reason: None,
        url: str = "",
        seconds: float = BEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._tell = tell
        self._on_drain = on_drain
        self._on_outdated = on_outdated
        self._outdated = False
        self._seconds = seconds
        self._clock = clock
        self._boot = new_boot()
        self._ear = Ear(url, CHANNEL)
        self._stopping = threading.Event()
        self._obeyed = False
        self._first = True
        self._told = ""
        self._rival = False
        self._last = clock()
        self.turns = Turns()
        self.thread = Thread(self._run, name="heartbeat")

    @property
    def draining(self) -> bool:
        """Whether the node was told to drain, and has heard it."""
        return self._obeyed

    def silent_for(self) -> float:
        """Return the seconds since the record last took a beat, or since the start."""
        return max(0.0, self._clock() - self._last)

    def start(self) -> None:
        """Begin; the first beat is written at once."""
        self.thread.start()

    def nudge(self) -> None:
        """Something that is told has changed: beat now. Safe from threads."""
        self._ear.wake()

    def stop(self) -> None:
        """Say that the node stops, if the record can be reached soon, and end."""
        self._stopping.set()
        self._ear.wake()
        if self.thread.ident is not None:
            self.thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                with self.turns.turn():
                    self._beat()
                self._wait()
            if not self._told:  # the record took the last one: it will take this one
                self._beat(stopped=True)
        finally:
            self._ear.close()

    def _wait(self) -> None:
        """Wait until a beat is due, or somebody speaks of this node."""
        due = self._clock() + self._seconds
        while not self._stopping.is_set() and (left := due - self._clock()) > 0:
            try:
                heard = self._ear.wait(left)
            except Exception as error:  # noqa: BLE001 - an ear that is broken must not end the beats
                self._say(f"{type(error).__name__}: {error}")
                self._stopping.wait(left)
                return
            if not heard:  # a word of our own, or the time is over
                return
            if self._name in heard:
                # Whoever may connect may speak to us without end: so many beats a second, and no more.
                self._stopping.wait(max(0.0, self._last + _APART - self._clock()))
                return

    _name = ""

    def _beat(self, *, stopped: bool = False) -> None:
        try:
            told = self._tell()
            self._name = told.name
            if self._rival:
                told = replace(told, standing="another process beats under this node's name")
            heard = self._nodes.beat(told, self._boot, first=self._first, stopped=stopped)
        except (AcceptdError, OSError) as error:
            self._say(str(error))
            return
        except Exception:
            if self._told != "broken":
                log.exception("heartbeat")
            self._told = "broken"
            return
        if self._told:
            log.info("heartbeats are written again", silent_s=round(self.silent_for(), 1))
        self._told, self._first, self._last = "", False, self._clock()
        if heard.rival and not self._rival:
            log.error("another process beats under this node's name: each node needs a name of its own")
        self._rival = heard.rival
        if heard.outdated and not self._outdated:
            log.critical("the record was migrated, and this version may not go on", reason=heard.outdated)
            self._on_outdated(heard.outdated)
        self._outdated = bool(heard.outdated)
        if heard.draining != self._obeyed and not stopped:
            self._obey(heard.draining)

    def _obey(self, draining: bool) -> None:
        log.warning("asked to drain", drain=draining)
        try:
            self._on_drain(draining)
        except Exception:
            log.exception("drain")
            return
        self._obeyed = draining
        self._ear.wake()  # tell at once that it is heard

    def _say(self, reason: str) -> None:
        if reason != self._told:
            log.warning("heartbeat not written", reason=reason)
        self._told = reason or "unknown"
