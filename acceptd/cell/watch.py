"""Watches one running job from outside: frames, stderr, memory, clocks; kills through pid 1's pidfd."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from acceptd.cell.limits import JobLimits
from acceptd.cell.protocol import Frame, Reader
from acceptd.cell.samples import Samples
from acceptd.errors import AcceptdError, ProtocolViolationError
from acceptd.evidence import Walls

SAMPLE_SECONDS: Final = 0.05
"""A resident set grows by 26 MiB a millisecond (measured): sampling is a backstop, not the limit."""
CPU_GRACE_SECONDS: Final = 0.05
"""The kernel's SIGXCPU comes first. A job that ignores it would live on to the hard limit, a second later
(measured: 1,007 ms), and is killed from outside instead."""


@dataclass(slots=True)
class Watched:
    """What the watcher saw of one job. Seconds and bytes."""

    killed_for: str = ""
    violation: str = ""
    status: int | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    max_rss: int = 0
    sampled_peak: int = 0
    """Peak of RssAnon + RssShmem at the samples; 0 when the job ended before the first."""
    stage: str = ""
    stderr: bytes = b""
    cancelled: bool = False
    samples: Samples = field(default_factory=Samples)
    threads: int = 0
    """The most that a sample saw; 0 when the job ended before the first."""
    faults: tuple[int, int] | None = None
    """Minor and major page faults, of pid 1's report; None when it made none."""


def outer_pid(pidfd: int) -> int:
    """Return the pid in our namespace of a pidfd that came from inside the cell (fdinfo; -1 when dead)."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    return -1


def memory_and_threads(init_pid: int) -> tuple[int, int]:
    """Return RssAnon + RssShmem in bytes and the threads of the only child of ``init_pid``; 0 when it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{init_pid}/task/{init_pid}/children", encoding="ascii") as file:
            child = int(file.read().split()[0])
        threads = [int(name) for name in os.listdir(f"/proc/{child}/task")]
        # A job whose main thread has exited has no memory in its own status, but its other threads do.
        for thread in (child, *threads):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{child}/task/{thread}/status", encoding="ascii") as file,
            ):
                sizes = [
                    int(line.split()[1]) * 1024 for line in file if line.startswith(("RssAnon:", "RssShmem:"))
                ]
                if sizes:
                    return sum(sizes), len(threads)
    return 0, 0


def kill(pidfd: int) -> None:
    """Kill the namespace's init, and with it everything inside, without a race over pids."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def end(pidfd: int) -> None:
    """Kill the namespace's init and wait until it is dead."""
    kill(pidfd)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.poll()


def watch(
    *,
    pidfd: int,
    job: int,
    status: int,
    stderr: int,
    reader: Reader,
    limits: JobLimits,
    baseline: int,
    on_frame: Callable[[Frame], None],
    cancelled: Callable[[], bool] = lambda: False,
    since: float | None = None,
) -> Watched:
    """Drive one job to its end; returns only when its whole pid namespace is dead.

    ``since``: when it was about to be given its order, by the monotonic clock. It may be done before this thread
    is given the processor again: counted from here, it would have taken no time.

    All descriptors are read ends owned by the caller. ``baseline`` is the parent's anonymous memory
    in bytes. ``on_frame`` may raise a deliberate error (a sealing cap, for example): then the job is
    killed and the error is raised here, after the job is dead.
    """
    seen = Watched()
    pending: AcceptdError | None = None
    init_pid = outer_pid(pidfd)
    start = time.monotonic() if since is None else since
    deadline = start + limits.wall_seconds
    poller = select.poll()
    for descriptor in (pidfd, job, status, stderr):
        poller.register(descriptor, select.POLLIN)
    report = b""
    alive = True
    open_ends = {job, status, stderr}

    def stop(reason: str) -> None:
        if not seen.killed_for:
            seen.killed_for = reason
        kill(pidfd)

    next_sample = start + SAMPLE_SECONDS
    alone = False
    while alive or open_ends:
        if alone and report and not open_ends - {status}:
            # pid 2 is dead by pid 1's word, and under seccomp it had no child: nobody writes a blob now.
            kill(pidfd)
            break
        now = time.monotonic()
        wait = max(0.0, min(next_sample, deadline) - now) if not seen.killed_for else 1.0
        events = poller.poll(wait * 1000 + 1)
        for descriptor, _ in events:
            if descriptor == pidfd:
                poller.unregister(pidfd)
                alive = False
                continue
            chunk = os.read(descriptor, 1 << 16 if descriptor != job else 1 << 20)
            if not chunk:
                poller.unregister(descriptor)
                open_ends.discard(descriptor)
            elif descriptor == status:
                report += chunk[:4096]
            elif descriptor == stderr:
                seen.stderr = (seen.stderr + chunk)[: limits.stderr_bytes + 1]
                if len(seen.stderr) > limits.stderr_bytes:
                    stop("stderr")
            elif not seen.killed_for:
                try:
                    for frame in reader.feed(chunk):
                        seen.stage = frame.type if frame.body is not None else seen.stage
                        if isinstance(frame.body, Walls):
                            alone = frame.body.states.get("seccomp") == "enforced"
                        on_frame(frame)
                except ProtocolViolationError as error:
                    seen.violation = str(error)
                    stop("violation")
                except AcceptdError as error:
                    pending = error
                    stop("caller")
        now = time.monotonic()
        if alive and now >= next_sample:
            next_sample = now + SAMPLE_SECONDS
            anonymous, threads = memory_and_threads(init_pid)
            used = max(0, anonymous - baseline)
            seen.sampled_peak, seen.threads = max(seen.sampled_peak, used), max(seen.threads, threads)
            if anonymous:
                seen.samples.add(round(now - start, 3), used)
            if used > limits.memory_bytes + limits.inner.mapped_bytes:
                stop("memory")
            seen.cpu_s = max(seen.cpu_s, _cpu_seconds(init_pid))
            if seen.cpu_s >= limits.inner.cpu_seconds + CPU_GRACE_SECONDS:
                stop("cpu")
            if cancelled():
                seen.cancelled = True
                stop("cancelled")
        if alive and now >= deadline and not seen.killed_for:
            seen.cpu_s = max(seen.cpu_s, _cpu_seconds(init_pid))
            stop("wall")
    seen.wall_s = time.monotonic() - start
    _read_report(seen, report)
    if not seen.killed_for:
        try:
            reader.close()
        except ProtocolViolationError as error:
            # A job that died of a signal leaves half a frame; that is its death's doing, not a lie.
            if seen.status is not None and seen.status & 0x7F == 0:
                seen.violation, seen.killed_for = str(error), "violation"
    if pending is not None:
        raise pending
    return seen


def _cpu_seconds(init_pid: int) -> float:
    """Return the CPU seconds of the job so far (fields 14 and 15 of /proc/pid/stat)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{init_pid}/task/{init_pid}/children", encoding="ascii") as file:
            child = int(file.read().split()[0])
        with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _read_report(seen: Watched, report: bytes) -> None:
    """Take pid 1's report: written by our own code, on a pipe that the job never held."""
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
        facts = json.loads(report)
        seen.status = int(facts["status"])
        seen.cpu_s = max(seen.cpu_s, float(facts["utime"]) + float(facts["stime"]))
        seen.max_rss = int(facts["maxrss"])
        seen.faults = int(facts["minflt"]), int(facts["majflt"])
