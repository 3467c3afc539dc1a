"""Warm parents in supply: one kind for acceptd's own interpreter, one for each runtime of a profile.

A :class:`Supplies` belongs to a process and is shared by all its cells. Each supply spawns its parents
from one thread that lives as long as the supply: PDEATHSIG follows the spawning thread (measured).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import subprocess
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.cell import launcher
from acceptd.errors import CellUnavailableError, ConfigError, InternalError, NoThreadError, StateError
from acceptd.policy.profile import Profile
from acceptd.pool import Pool
from acceptd.runtime import operators
from acceptd.runtime.facts import RuntimeFacts
from acceptd.runtime.interpreter import examine
from acceptd.runtime.told import facts_of

CPU: Final = "CPUExecutionProvider"
ANSWER_SECONDS: Final = 60.0
"""A parent answers in a millisecond; one that is silent for so long is stopped or dead."""
ROOMS: Final = 6
"""As in sandbox/parent.py: so many children stand ready, whatever runs."""
GROWTH_BYTES: Final = 16 << 20
"""Anonymous memory that a parent may gain over its time: its rooms and poll set, no more."""

_NO_FORM: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What comes of reading an answer of another form."""
_ASKED: Final = 5
MAX_KINDS: Final = 16
"""Kinds of parents in supply; a profile that was changed leaves its old kind behind until a restart."""
MAX_KNOWN: Final = 512
"""Parents whose facts are kept; those of a parent that still lives always are."""
_numbers = itertools.count(1)
Identity = tuple[tuple[int, int], ...]


class WarmParent:
    """One warm parent and its control socket. Thread-safe; whoever took it closes it."""

    def __init__(self, parent: launcher.Parent, facts: Future[RuntimeFacts], sealed: Identity) -> None:
        self.number = next(_numbers)
        self.sealed = sealed
        """Device and inode of the directories that its binds show, whatever has their names by now."""
        self.parent = parent
        self.facts = facts
        """Who it is; the libraries are hashed beside the first jobs. Raises OSError: one cannot be read."""
        self.jobs = 0
        self.running = 0
        self.asked = 0
        """How many jobs it had when it was last asked how it is."""
        self.closed = False
        self.retired = ""
        """Why it takes no more jobs; empty while it does."""
        self._lock = threading.Lock()
        self._mute = False
        """Whether a question has no answer yet."""

    def fork(self, descriptors: Sequence[int]) -> int:
        """Fork a job that owns ``descriptors``; return its pid 1's pidfd. OSError or InternalError if dead."""
        rights = array("i", descriptors)
        with self._turn():
            self.parent.control.sendmsg([b"J"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            payload, ancillary, _, _ = self.parent.control.recvmsg(64, socket.CMSG_SPACE(4))
        if payload[:1] != b"S" or not ancillary:
            raise InternalError("the warm parent is gone")
        return int(struct.unpack("i", ancillary[0][2][:4])[0])

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the control socket for one question and its answer; InternalError after one without an answer.

        A late answer would be taken for that of the next question, and another job's pidfd with it.
        """
        with self._lock:
            if self._mute:
                raise InternalError("the warm parent did not answer before")
            self._mute = True
            yield
            self._mute = False

    def ailment(self) -> str:
        """Ask it how it is; return what is wrong, or an empty string. :attr:`running` must not rise meanwhile."""
        for attempt in range(_ASKED):
            try:
                threads, anonymous, children = self._health()
            except (OSError, InternalError, *_NO_FORM) as error:
                return f"silent: {type(error).__name__}"
            if threads != 1:
                return f"threads: {threads}"
            if anonymous > self.parent.anonymous + GROWTH_BYTES:
                return f"memory: {anonymous - self.parent.anonymous} bytes more than when warm"
            if children <= ROOMS + self.running:
                return ""
            time.sleep(0.01 * 2**attempt)  # the last job's pid 1 may be about to end
        return f"children: {children} with {self.running or 'no'} job running, {ROOMS} rooms"

    def _health(self) -> tuple[int, int, int]:
        with self._turn():
            self.parent.control.send(b"P")
            answer = self.parent.control.recv(4096)
        told: dict[str, int] = json.loads(answer[1:]) if answer[:1] == b"P" else {}
        return int(told["threads"]), int(told["anonymous"]), int(told["children"])

    def close(self) -> None:
        """Close the control socket; the parent and everything below it end."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.parent.control.close()
        self.parent.process.kill()
        self.parent.process.wait()
        if self.parent.process.stderr:
            self.parent.process.stderr.close()


@dataclass(frozen=True, slots=True)
class Kind:
    """What tells one supply from another: interpreter (empty: acceptd's own), custom operators, providers."""

    interpreter: str = ""
    operators: tuple[operators.Listed, ...] = ()
    providers: tuple[str, ...] = ()
    """Those that need libraries beside onnxruntime's own."""

    @property
    def role(self) -> str:
        """``all`` serves every job kind; ``run`` a profile's own runtime, which need not have more."""
        return "run" if self.interpreter or self.operators or self.providers else "all"


def kind_of(profile: Profile | None) -> Kind:
    """Return the kind of parent that runs a profile; without one, that of every other job."""
    if profile is None:
        return Kind()
    interpreter = profile.interpreter
    own = not interpreter or examine(interpreter).own
    return Kind(
        "" if own else interpreter, _listed(profile), tuple(one for one in profile.providers if one != CPU)
    )


def _listed(profile: Profile) -> tuple[operators.Listed, ...]:
    return tuple(operators.Listed(one.path, one.sha256) for one in profile.custom_operators)


class ParentSupply:
    """Parents of one kind: the first starts at once, ``spares`` more stand ready whenever one is taken.

    ``later``: the spares only once :meth:`ahead`, :meth:`trouble` or :meth:`keep` says that they will be needed.
    """

    def __init__(
        self,
        kind: Kind,
        sealed: Path,
        *,
        spares: int,
        later: bool = False,
        testing: bool,
        store: Path | None = None,
        started: Callable[[WarmParent], None] = lambda _parent: None,
    ) -> None:
        self.kind = kind
        self._started = started
        self._sealed = sealed
        self._store = store
        self._spares = spares
        self._later = later
        self._testing = testing
        self._lock = threading.Lock()
        self._spawner, self._hasher = Pool(1, "cell-spawner"), Pool(1, "cell-hasher")
        for pool in (self._hasher, self._spawner):
            try:
                pool.fill()  # now: later there may be a parent already whose libraries nobody would hash
            except NoThreadError:
                self._hasher.shutdown()
                raise
        self._starting: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._upcoming: deque[Future[WarmParent]] = deque([self._spawner.submit(self._start)])  # last: it runs

    def take(self) -> WarmParent:
        """Return a parent that nobody else has, warm.

        Raises:
            CellUnavailableError: no cell can be started here, or not with this runtime.
            StateError: the sealed directory is gone.
            ConfigError: the profile's interpreter or a library that it lists is refused.
        """
        with self._lock:
            if self._closed:
                raise CellUnavailableError("the cell is closed")
            upcoming = self._upcoming.popleft() if self._upcoming else self._spawner.submit(self._start)
            if upcoming.done() and upcoming.exception() is not None:
                upcoming = self._spawner.submit(self._start)  # what failed a spare then says nothing of now
            if not self._later:
                self._fill()
        parent = self._awaited(upcoming)
        if not self.sees_sealed(parent):
            parent.close()  # it stood spare while the directory was made anew
            parent = self._awaited(self._spawner.submit(self._start))
        return parent

    def ahead(self) -> None:
        """Start what shall stand spare now: the present parent has nearly done its part."""
        with self._lock:
            if not self._closed:
                self._fill()

    def trouble(self) -> None:
        """Keep the spares from now on: a parent went before its time, and the next may."""
        self._later = False

    def keep(self) -> None:
        """Start what shall stand spare now, and keep it from now on."""
        self.trouble()
        self.ahead()

    def _fill(self) -> None:
        while len(self._upcoming) < self._spares:
            self._upcoming.append(self._spawner.submit(self._start))

    def _awaited(self, upcoming: Future[WarmParent]) -> WarmParent:
        try:
            return upcoming.result()
        except ConfigError as error:
            if self.kind == Kind():  # acceptd's own interpreter: there is no cell
                raise CellUnavailableError(error.message, remedy=error.remedy) from error
            raise

    def sees_sealed(self, parent: WarmParent) -> bool:
        """Whether the parent's bind still shows the sealed directory: it shows the one that was there then.

        Raises StateError: there is none.
        """
        return parent.sealed == self._sealed_identity()

    def _sealed_identity(self) -> Identity:
        places = [self._sealed] if self._store is None else [self._sealed, self._store]
        try:
            found = [place.stat() for place in places]
        except OSError as error:
            raise StateError(
                f"{error.filename}: {error.strerror}", remedy="run `acceptd init` on this state again"
            ) from error
        return tuple((one.st_dev, one.st_ino) for one in found)

    def _start(self) -> WarmParent:
        operators.check(self.kind.operators)
        interpreter = examine(self.kind.interpreter)
        sealed = self._sealed_identity()  # before the bind: replaced in between, it is noticed at the first job
        parent = launcher.start(
            self._sealed,
            interpreter=interpreter,
            role=self.kind.role,
            operators=[one.path for one in self.kind.operators],
            providers=self.kind.providers,
            store=self._store,
            testing=self._testing,
            begun=self._begun,
        )
        parent.control.settimeout(ANSWER_SECONDS)
        warm = WarmParent(
            parent, self._hasher.submit(facts_of, parent.told, interpreter, self.kind.operators), sealed
        )
        self._started(warm)
        return warm

    def _begun(self, process: subprocess.Popen[bytes] | None) -> None:
        """Hear of the process that gets warm just now, and (None) that it is."""
        with self._lock:
            self._starting = process
            if self._closed and process is not None:
                launcher.end(process)

    def close(self) -> None:
        """End the parents that nobody took, also one that is not warm yet."""
        with self._lock:
            self._closed = True
            upcoming, self._upcoming = list(self._upcoming), deque()
            if self._starting is not None:
                launcher.end(self._starting)
        for one in upcoming:
            if not one.cancel():
                with contextlib.suppress(Exception):
                    one.result().close()
        self._spawner.shutdown(wait=True)
        self._hasher.shutdown(wait=True, cancel_futures=True)


class Supplies:
    """All supplies of one process: acceptd's own at once, a profile's when it is first asked for."""

    def __init__(
        self,
        sealed: Path,
        *,
        spare: bool = False,
        later: bool = False,
        testing: bool = False,
        store: Path | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._sealed = sealed
        self._store = store
        self._spares = int(spare)
        self._later = later
        self._testing = testing
        self._known: dict[int, WarmParent] = {}
        self._others: dict[Kind, ParentSupply] = {}
        self._own = self._supply(Kind())
        self._closed = False  # of profiles' kinds; acceptd's own supply knows for itself

    def of(self, kind: Kind) -> ParentSupply:
        """Return the supply of a kind, started if need be. Raises CellUnavailableError: closed."""
        if kind == Kind():
            return self._own
        with self._lock:
            if self._closed:
                raise CellUnavailableError("the cell is closed")
            if kind not in self._others:
                if len(self._others) >= MAX_KINDS:
                    raise CellUnavailableError(
                        f"{MAX_KINDS} runtimes of profiles are in use",
                        remedy="restart the daemon to let old ones go",
                    )
                self._others[kind] = self._supply(kind)
            return self._others[kind]

    def facts(self, number: int) -> RuntimeFacts:
        """Return the facts of the parent of that number, waiting until its files are hashed.

        Raises CellUnavailableError: a file was replaced or cannot be read, or the parent is not known any more.
        """
        with self._lock:
            found = self._known.get(number)
        if found is None:
            raise CellUnavailableError(f"nothing is known of warm parent {number} any more")
        try:
            return found.facts.result()
        except OSError as error:
            raise CellUnavailableError(
                f"the runtime of warm parent {number} cannot be measured: {error.filename}: {error.strerror}",
                remedy="libraries were changed under the running cell: restart it",
            ) from error

    def keep(self) -> None:
        """Start every supply's spares now, and keep them from now on."""
        with self._lock:
            self._later = False
            supplies = (self._own, *self._others.values())
        for supply in supplies:
            supply.keep()

    def _supply(self, kind: Kind) -> ParentSupply:
        return ParentSupply(
            kind,
            self._sealed,
            spares=self._spares,
            later=self._later,
            testing=self._testing,
            store=self._store,
            started=self._remember,
        )

    def _remember(self, parent: WarmParent) -> None:
        with self._lock:
            self._known[parent.number] = parent
            over = len(self._known) - MAX_KNOWN
            # A parent may live as long as the daemon while hundreds of others come and go beside it.
            for one in [one for one in self._known.values() if one.closed][: max(0, over)]:
                del self._known[one.number]

    def close(self) -> None:
        """End every parent that is not taken."""
        with self._lock:
            self._closed = True
            others, self._others = list(self._others.values()), {}
        for supply in (self._own, *others):
            supply.close()
