"""From the policy's numbers to the limits of one job, and from a job's end to its cause. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from acceptd.policy.policy import LimitsTable
from sandbox.messages import Limits

Ending = Literal["done", "refused", "limit", "crash", "violation", "lost", "unavailable"]


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What the job enforces on itself (``inner``), and what is enforced from outside. Seconds, bytes."""

    inner: Limits
    wall_seconds: float
    stderr_bytes: int
    frame_bytes: int
    frames: int
    memory_bytes: int


_CPU = {
    "unpack": "unpack_cpu_seconds",
    "manifest": "manifest_cpu_seconds",
    "signature": "manifest_cpu_seconds",
    "inspect": "inspect_cpu_seconds",
    "assets": "inspect_cpu_seconds",
    "vectors": "vectors_cpu_seconds",
    "run": "run_cpu_seconds",
    "reference": "run_cpu_seconds",
    "attack": "run_cpu_seconds",
}
KINDS = tuple(kind for kind in _CPU if kind != "attack")
"""Kinds of jobs that a submission may have."""
_FRAME_BYTES = {
    "manifest": 1 << 20,
    "vectors": 64 << 20,
    "run": 64 << 20,
    "reference": 64 << 20,
    "inspect": 64 << 20,
}


def job_limits(kind: str, limits: LimitsTable, *, mapped_bytes: int = 0) -> JobLimits:
    """Return the limits of a job of ``kind``; ``mapped_bytes`` of external data come on top of memory."""
    cpu = int(getattr(limits, _CPU[kind]))
    memory = limits.memory_bytes if kind in {"run", "attack"} else limits.inspect_memory_bytes
    if kind == "manifest":
        memory = min(memory, 256 << 20)
    # unpack streams the archive's members: what it may say is what a bundle may hold, and a little.
    frame_bytes = limits.bundle_bytes + (64 << 20) if kind == "unpack" else _FRAME_BYTES.get(kind, 16 << 20)
    frames = 4 * limits.files + limits.bundle_bytes // (1 << 16) if kind == "unpack" else 65_536
    return JobLimits(
        inner=Limits(
            cpu_seconds=cpu,
            memory_bytes=memory,
            mapped_bytes=mapped_bytes,
            output_bytes=limits.output_bytes,
            open_files=min(limits.files + 64, 4096),
            threads=limits.threads,
        ),
        wall_seconds=float(cpu * limits.wall_factor),
        stderr_bytes=limits.stderr_bytes,
        frame_bytes=frame_bytes,
        frames=frames,
        memory_bytes=memory,
    )


@dataclass(frozen=True, slots=True)
class Observed:
    """How a job ended, as seen from outside.

    ``status`` is the wait status that pid 1 reported (None when it could not); ``killed_for`` is our
    own reason for killing it, empty when we did not.
    """

    status: int | None
    killed_for: str
    finished: bool
    refused: bool
    cpu_s: float
    wall_s: float


def classify(seen: Observed, limits: JobLimits) -> tuple[Ending, str]:
    """Return (ending, cause) by the design's rule 4: what is the model's fault, and what is not.

    A wall-clock limit counts against the model only when at least half of it was spent as CPU time;
    else the host may have been busy, and the job is ``lost`` (one retry by the caller).
    """
    if seen.killed_for == "wall":
        return ("limit", "wall") if seen.cpu_s >= limits.wall_seconds / 2 else ("lost", "wall")
    if seen.killed_for == "violation":
        return "violation", "protocol"
    if seen.killed_for in {"memory", "output", "stderr", "cpu"}:
        return "limit", seen.killed_for
    if seen.killed_for:
        return "lost", seen.killed_for
    if seen.status is None:
        return "lost", "no wait status"
    number = seen.status & 0x7F
    if number:
        return _by_signal(number, seen, limits)
    code = (seen.status >> 8) & 0xFF
    if code == 97:
        return "unavailable", "a mandatory wall is missing"
    if code or not (seen.finished or seen.refused):
        return "violation", f"ended without a last word (exit code {code})"
    return ("refused", "") if seen.refused else ("done", "")


_OWN_SIGNALS = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGPIPE,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
    }
)
"""What a process brings upon itself. Under seccomp a job can send itself none but SIGABRT, so that every
other signal came from outside."""


def _by_signal(number: int, seen: Observed, limits: JobLimits) -> tuple[Ending, str]:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGXCPU:
        return "limit", "cpu"
    if number == signal.SIGXFSZ:
        return "limit", "output"
    if number not in _OWN_SIGNALS and number != signal.SIGKILL:
        return "lost", f"{name} that acceptd did not send"
    if number == signal.SIGKILL:
        # The hard CPU limit (soft + 1 s) also kills with SIGKILL; else a stranger or the kernel did.
        if seen.cpu_s >= limits.inner.cpu_seconds:
            return "limit", "cpu"
        return "lost", "SIGKILL that acceptd did not send"
    return "crash", name
