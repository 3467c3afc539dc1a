"""The cell as the rest of acceptd sees it: give it a job, get a :class:`JobRecord`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from acceptd.cell import cgroup, host, launcher, syscalls
from acceptd.cell.collected import OWN_WALLS, Collected, profile_of, with_own
from acceptd.cell.limits import JobLimits, Observed, classify
from acceptd.cell.protocol import Frame, Reader
from acceptd.cell.seat import Seat, refusal, unfit
from acceptd.cell.supply import Kind, Supplies, WarmParent, kind_of
from acceptd.cell.watch import Watched, end, outer_pid, watch
from acceptd.errors import CellUnavailableError, ConfigError, InternalError
from acceptd.evidence import JobRecord, Variant
from acceptd.policy.profile import Profile
from acceptd.runtime.facts import RuntimeFacts
from acceptd.runtime.pins import OPERATORS
from acceptd.runtime.told import Told
from sandbox import messages

IDLE_SHARE: Final = 0.05
"""Of the wall clock: a job that used less of it as CPU time was asleep, not held up."""


def _rewind(descriptor: int) -> None:
    """Bring a blob's own descriptor back to its beginning, emptied if it is for writing."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _send_order(sock: socket.socket, order: dict[str, Any]) -> None:
    payload = json.dumps(order, ensure_ascii=True).encode()
    # A job that dies before it has read its order shows in its wait status, not here.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(messages.HEADER.pack(messages.JSON, len(payload)) + payload)


class Cell:
    """Runs jobs in warm parents, which it takes from supplies and replaces after a death or N jobs.

    Thread-safe: jobs of several threads run side by side. ``sealed`` is the directory that jobs'
    files lie below, ``store`` that of approved bundles, where there is one. Several cells may share
    ``supplies``; without, the cell has its own, and ``spare`` keeps a second parent ready.
    ``on_replaced`` is told why a parent is replaced.
    """

    def __init__(
        self,
        sealed: Path,
        *,
        spare: bool = False,
        testing: bool = False,
        supplies: Supplies | None = None,
        store: Path | None = None,
        on_replaced: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self._area, _ = cgroup.area()  # first: it moves this process, and what starts later is born in its leaf
        self._testing = testing
        self._owned = supplies is None
        self._seccomp = "" if syscalls.available() else syscalls.compiled().hex()
        self._supplies = supplies or Supplies(sealed, spare=spare, testing=testing, store=store)
        self._on_replaced = on_replaced
        self._lock = threading.Lock()
        self._seats: dict[Kind, Seat] = {}
        self._closed = False
        self.replacements: Counter[str] = Counter()
        """How many parents were replaced, by the first word of the reason."""
        self.outer_states, self.outer_notes = launcher.outer_walls()

    @property
    def replaced(self) -> int:
        """How many parents were replaced."""
        return self.replacements.total()

    def prepare(self, profile: Profile) -> None:
        """Let the parent for a profile start beside what comes before its first run; what is wrong shows there."""
        with contextlib.suppress(CellUnavailableError, ConfigError):
            self._supplies.of(kind_of(profile))

    def told(self, profile: Profile | None = None) -> Told:
        """Return what the parent for a profile said of itself; starts it if need be.

        Raises CellUnavailableError or ConfigError: it cannot be started.
        """
        seat, parent = self._take(kind_of(profile))
        self._give_back(seat, parent, trouble="", suspect=False)
        return parent.parent.told

    def facts(self, profile: Profile | None = None) -> RuntimeFacts:
        """Return the facts of the parent for a profile, all files hashed; starts it if need be.

        Raises CellUnavailableError or ConfigError: it cannot be started or measured.
        """
        seat, parent = self._take(kind_of(profile))
        self._give_back(seat, parent, trouble="", suspect=False)
        return self.runtime(parent.number)

    def versions(self) -> dict[str, str]:
        """Return the library versions inside the cell; starts it if need be."""
        return self.told().versions()

    def runtime(self, number: int) -> RuntimeFacts:
        """Return the facts of the warm parent of that number (``JobRecord.parent``), all files hashed.

        Raises CellUnavailableError: a file that it has mapped was replaced or cannot be read, or nothing is
        known of it any more.
        """
        return self._supplies.facts(number)

    def _take(self, kind: Kind) -> tuple[Seat, WarmParent]:
        with self._lock:
            if self._closed:
                raise CellUnavailableError("the cell is closed")
            if kind not in self._seats:
                self._seats[kind] = Seat(self._supplies.of(kind))
            seat = self._seats[kind]
        parent, reason = seat.take()
        self._tell(reason)
        return seat, parent

    def _seat_for(self, profile: Profile | None) -> tuple[Seat, WarmParent] | JobRecord:
        """Return a parent for a job, or why this profile's runtime cannot be used here."""
        kind = Kind()
        try:
            kind = kind_of(profile)
            return self._take(kind)
        except (CellUnavailableError, ConfigError, InternalError) as error:
            if kind == Kind() and not isinstance(error, ConfigError):
                raise  # acceptd's own: no cell at all
            return refusal(OPERATORS if "custom_operators" in str(error) else "runtime", str(error))

    def _give_back(self, seat: Seat, parent: WarmParent, *, trouble: str, suspect: bool) -> None:
        self._tell(seat.give_back(parent, trouble=trouble, suspect=suspect))

    def _tell(self, reason: str) -> None:
        if reason:
            with self._lock:
                self.replacements[reason.partition(":")[0]] += 1
            self._on_replaced(reason)

    def run(
        self,
        kind: str,
        *,
        files: Mapping[str, str],
        area: launcher.Area = "sealed",
        spec: dict[str, Any],
        limits: JobLimits,
        required_walls: Sequence[str],
        blobs: Mapping[str, int] | None = None,
        on_frame: Callable[[Frame], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        model: str = "",
        profile: Profile | None = None,
        variant: Variant = "",
        proc_fd: bool = False,
        scratch: bool = False,
        walls_off: Sequence[str] = (),
    ) -> JobRecord:
        """Run one job to its end; a ``lost`` one once more (design, rule 4).

        Args:
            files: path inside the job's root -> path below ``area``.
            area: the sealed directory, or the store of approved bundles.
            profile: whose runtime runs the job (``run`` alone); without one, acceptd's own.
            blobs: name -> descriptor handed to the job: a private open of its own, read-only or
                write-only, never one that the trusted side goes on using.
            proc_fd: gives the job its own descriptors at ``/proc/self/fd`` and nothing else of /proc:
                onnxruntime from 1.32 on reads external data only where it can name what it opened.
            scratch: gives the job a small directory that it may write to, for onnxruntime's profiler.
            on_frame: called for ``entry`` and data frames of ``unpack`` as they arrive; what it raises
                (AcceptdError) kills the job and comes out here.

        Raises:
            CellUnavailableError: no cell can be started here. Where the profile's own runtime cannot, that
                is a record with ending ``unavailable`` instead.
        """
        if kind == "attack" and not self._testing:
            raise InternalError("the attack job exists only in tests")
        if walls_off and not self._testing:
            raise InternalError("walls are switched off only in tests")
        order = {
            "kind": kind,
            "files": [[inside, f"{launcher.AREAS[area]}/{source}"] for inside, source in sorted(files.items())],
            "spec": spec,
            "limits": {name: getattr(limits.inner, name) for name in messages.Limits.__slots__},
            "required_walls": [name for name in required_walls if name not in OWN_WALLS],
            "seccomp": syscalls.compiled(scratch=True).hex() if scratch and self._seccomp else self._seccomp,
            "blobs": list(blobs or {}),
            "proc_fd": proc_fd,
            "scratch": scratch,
            "walls_off": list(walls_off),
        }
        attempts, slept = 0, 0
        while True:
            attempts += 1
            record = self._once(order, kind, limits, blobs or {}, on_frame, cancelled, required_walls, profile)
            timed_out = record.ending == "lost" and record.cause == "wall"
            slept += timed_out and record.cpu_s < IDLE_SHARE * limits.wall_seconds
            # A job that streams to the caller cannot be replayed; the caller starts afresh.
            again = record.ending == "lost" and attempts < 2 and record.cause != "cancelled" and on_frame is None
            if not again:
                break
        if slept > 1:
            # Twice without using the processor: it sleeps or is deadlocked, and that is its own doing. One
            # that did use it was held up by a busy host, and stays inconclusive.
            record = record.model_copy(update={"ending": "limit", "cause": "wall"})
        named = profile.name if profile is not None else ""
        return record.model_copy(
            update={"attempts": attempts, "model": model, "profile": named, "variant": variant}
        )

    def _once(
        self,
        order: dict[str, Any],
        kind: str,
        limits: JobLimits,
        blobs: Mapping[str, int],
        on_frame: Callable[[Frame], None] | None,
        cancelled: Callable[[], bool],
        required: Sequence[str],
        profile: Profile | None,
    ) -> JobRecord:
        for descriptor in blobs.values():
            _rewind(descriptor)
        found = self._seat_for(profile)
        if isinstance(found, JobRecord):
            return found
        seat, parent = found
        if profile is not None and (record := unfit(parent, profile)) is not None:
            self._give_back(seat, parent, trouble="", suspect=False)
            return record
        ours, theirs = socket.socketpair()
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        stderr_read, stderr_write = os.pipe2(os.O_CLOEXEC)
        pidfd = -1
        collected = Collected()
        trouble, suspect = "", False
        box: cgroup.JobCgroup | None = None
        note = ""
        try:
            try:
                pidfd = parent.fork([status_write, theirs.fileno(), stderr_write, *blobs.values()])
            except (OSError, InternalError) as error:
                trouble = f"lost: {error}"[:200]
                return JobRecord(kind=kind, ending="lost", cause="parent", message=str(error)[:200])
            finally:
                theirs.close()
                os.close(status_write)
                os.close(stderr_write)
            reader = Reader(kind, max_bytes=limits.frame_bytes, max_frames=limits.frames)
            if self._area is not None:
                try:
                    box = self._area.admit(limits, outer_pid(pidfd))
                except OSError as error:
                    note = f"the job could not be moved into a cgroup of its own: {error}"[:300]
            if note and "memory_cgroup" in required:
                end(pidfd)
                cause = "a mandatory wall is missing"
                return JobRecord(kind=kind, ending="unavailable", cause=cause, message=note)
            before = host.read() if order["spec"].get("timing") else None
            began = time.monotonic()
            _send_order(ours, order)

            def take(frame: Frame) -> None:
                collected.add(frame)
                if on_frame is not None and frame.type in {"entry", "data"}:
                    on_frame(frame)

            seen = watch(
                pidfd=pidfd,
                job=ours.fileno(),
                status=status_read,
                stderr=stderr_read,
                reader=reader,
                limits=limits,
                baseline=parent.parent.anonymous,
                on_frame=take,
                cancelled=cancelled,
                since=began,
            )
            if not seen.killed_for and box is not None and box.out_of_memory():
                seen.killed_for = "memory"
            record = self._record(kind, seen, reader, collected, limits)
            walls = with_own(record.walls, self._area is not None, note)
            update: dict[str, Any] = {
                "baseline_rss_bytes": parent.parent.resident,
                "walls": walls,
                "parent": parent.number,
            }
            if before is not None:
                update["host"] = host.between(before, host.read())
            record = record.model_copy(update=update)
            states = record.walls.states if record.walls is not None else {}
            if (
                record.ending == "unavailable"
                and states
                and all(states.get(name) == "enforced" for name in order["required_walls"])
            ):
                # The exit code of a missing wall, from a job whose walls all stood: a lie.
                record = record.model_copy(update={"ending": "violation", "cause": "protocol"})
            # Forks share one address layout: after a crash by signal it must be a new one. And a job that
            # is lost without our doing may have died with its parent: the retry must not meet a dead one.
            if record.ending in {"crash", "violation"} or (record.ending == "lost" and not seen.killed_for):
                trouble = f"{record.ending}: {record.cause}"
            suspect = record.ending != "done"
            return record
        finally:
            ours.close()
            for descriptor in (status_read, stderr_read, pidfd):
                if descriptor >= 0:
                    os.close(descriptor)
            if box is not None:
                box.close()
            self._give_back(seat, parent, trouble=trouble, suspect=suspect)

    def _record(
        self, kind: str, seen: Watched, reader: Reader, collected: Collected, limits: JobLimits
    ) -> JobRecord:
        ending, cause = classify(
            Observed(
                status=seen.status,
                killed_for=seen.killed_for,
                finished=reader.grammar.finished,
                refused=reader.grammar.refused,
                cpu_s=seen.cpu_s,
                wall_s=seen.wall_s,
            ),
            limits,
        )
        stderr = seen.stderr[-2048:].decode("utf-8", "backslashreplace")
        message = seen.violation or (stderr.strip().splitlines() or [""])[-1][:300] if ending != "done" else ""
        return JobRecord(
            kind=kind,
            ending=ending,
            cause=cause,
            stage=seen.stage,
            message=message,
            wall_s=round(seen.wall_s, 6),
            cpu_s=round(seen.cpu_s, 6),
            peak_rss_bytes=seen.max_rss,
            resource_profile=profile_of(seen),
            stderr_tail=stderr,
            **collected.fields(),
        )

    def close(self) -> None:
        """End the parents and everything below them."""
        with self._lock:
            self._closed = True
            seats, self._seats = list(self._seats.values()), {}
        for seat in seats:
            seat.close()
        if self._owned:
            self._supplies.close()
        if self._area is not None:
            self._area.sweep()

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
