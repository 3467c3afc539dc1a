"""One command as a bounded child: processor time, wall clock, address space, files, no network, no leftovers."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

CRASHES: Final = frozenset({"SIGSEGV", "SIGFPE", "SIGABRT", "SIGBUS", "SIGILL", "SIGTRAP"})
KEPT: Final = 1 << 20
"""Bytes of what a child said that are looked at: the first half and the last of as many."""
RELAY: Final = Path(__file__).resolve().with_name("measured.py")
OUT_OF_MEMORY: Final = ("bad_alloc", "MemoryError", "Failed to allocate memory", "Cannot allocate memory")


@dataclass(frozen=True)
class Bounds:
    """What one child may use. ``cpu_seconds`` and ``memory_bytes`` hold for each process; None: no limit."""

    wall_seconds: float = 300.0
    cpu_seconds: int | None = 20
    memory_bytes: int | None = 4 << 30
    file_bytes: int = 1 << 30
    nests: bool = False
    """Whether it makes user namespaces of its own: then it is not put into one to lose the network."""


@dataclass(frozen=True)
class Ended:
    """How a child ended. ``code`` is None where a signal ended it."""

    code: int | None
    signal: str
    hung: bool
    seconds: float
    cpu_seconds: float
    """Of the child and of every descendant that was waited for."""
    peak_bytes: int
    """Resident set of the largest process among them."""
    said: str
    at_limit: bool = False
    """Whether it held nearly all the memory that it may: what kills it then is the want of more."""

    @property
    def crashed(self) -> bool:
        """Whether a signal ended it that it brought upon itself."""
        return self.signal in CRASHES and not self.out_of_memory

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed and spoke of memory, died at its limit, or was killed by somebody else than us."""
        spoke = any(words in self.said for words in OUT_OF_MEMORY)
        return not self.hung and self.code != 0 and (spoke or self.at_limit or self.signal == "SIGKILL")


@cache
def without_network(*, nests: bool = False) -> tuple[str, ...]:
    """Return the words before a command that take the network away; none where the host does not allow it."""
    ways = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])
    for way in ways[:1] if nests else ways:
        if (
            shutil.which(way[0])
            and not subprocess.run([*way, "true"], capture_output=True, check=False).returncode
        ):
            return tuple(way)
    return ()


def _limits(bounds: Bounds) -> list[str]:
    words = ["prlimit", f"--fsize={bounds.file_bytes}", "--core=0"]
    if bounds.cpu_seconds is not None:
        words.append(f"--cpu={bounds.cpu_seconds}:{bounds.cpu_seconds + 2}")
    if bounds.memory_bytes is not None:
        words.append(f"--as={bounds.memory_bytes}")
    return words


def _text(file: Path) -> str:
    data = file.read_bytes()
    if len(data) > KEPT:
        data = data[: KEPT // 2] + b"\n...\n" + data[-KEPT // 2 :]
    return data.decode("utf-8", "replace")


def run(command: Sequence[str], bounds: Bounds, scratch: Path, environment: dict[str, str]) -> Ended:
    """Run ``command`` in ``scratch`` and wait for its end, its own or ours. What it left running is killed too."""
    kept = scratch / "said.txt"
    source, target = os.pipe()
    relay = [sys.executable, "-I", "-S", str(RELAY), str(target)]
    words = [*relay, *_limits(bounds), *without_network(nests=bounds.nests), *command]
    started = time.monotonic()
    with kept.open("wb") as file, os.fdopen(source, "rb") as report:
        child = subprocess.Popen(
            words,
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            pass_fds=(target,),
        )
        os.close(target)
        watched = os.pidfd_open(child.pid)
        try:
            ready, _, _ = select.select([watched], [], [], bounds.wall_seconds)
        finally:
            os.close(watched)
        with suppress(ProcessLookupError):  # what it left running too
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        seconds = time.monotonic() - started
        told = report.read().split()
    late = not told
    # Without a report it was killed with its relay: by us, late, or by somebody else.
    status, peak, cpu = (
        (int(told[0]), int(told[1]) * 1024, int(told[2]) / 1e6) if told else (signal.SIGKILL, 0, 0.0)
    )
    code = os.waitstatus_to_exitcode(status)
    name = signal.Signals(-code).name if code < 0 else ""
    # The kernel counts the limit by ticks, and what wait4 tells differs from it by a little.
    killed = name == "SIGKILL" and bounds.cpu_seconds is not None and cpu >= bounds.cpu_seconds * 0.9
    return Ended(
        code=None if name else code,
        signal=name,
        hung=(late and not ready) or killed or name == "SIGXCPU",
        seconds=seconds,
        cpu_seconds=cpu,
        peak_bytes=peak,
        said=_text(kept),
        at_limit=bounds.memory_bytes is not None and peak >= bounds.memory_bytes * 0.9,
    )
