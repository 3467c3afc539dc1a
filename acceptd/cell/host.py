"""The machine around a job: load, pressure, steal, processor, governor. Linux files alone; nothing submitted."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from dataclasses import dataclass
from typing import Final

from acceptd.performance_facts import HostLoad

_SHORTEST_FOR_TICKS: Final = 0.1
"""Seconds: the kernel counts stolen time in ticks of 10 ms."""
_STEAL: Final = 7
"""Field of the ``cpu`` line of /proc/stat (proc_stat(5))."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The machine at one instant. ``pressure_us`` None: this kernel has no PSI."""

    at: float
    load1: float
    pressure_us: int | None
    stolen: int
    ticks: int


def read(proc: str = "/proc") -> Reading:
    """Return the machine as it is now; what cannot be read counts as nothing."""
    load1, pressure, ticks = 0.0, None, [0]
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{proc}/loadavg", encoding="ascii") as file:
        load1 = float(file.read(256).split()[0])
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"{proc}/pressure/cpu", encoding="ascii") as file,
    ):
        # some avg10=0.00 avg60=0.00 avg300=0.00 total=<microseconds> (Documentation/accounting/psi.rst)
        pressure = int(file.readline(256).rpartition("total=")[2])
    with contextlib.suppress(OSError, ValueError), open(f"{proc}/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline(512).split()[1:]]
    # guest time (the last two) is counted in user time already
    return Reading(time.monotonic(), load1, pressure, ticks[_STEAL] if len(ticks) > _STEAL else 0, sum(ticks[:8]))


def between(before: Reading, after: Reading) -> HostLoad:
    """Return what the machine was like from one reading to the other."""
    took = after.at - before.at
    pressure = steal = None
    if before.pressure_us is not None and after.pressure_us is not None and took > 0:
        pressure = _share(after.pressure_us - before.pressure_us, took * 1e6)
    if took >= _SHORTEST_FOR_TICKS and after.ticks > before.ticks:
        steal = _share(after.stolen - before.stolen, after.ticks - before.ticks)
    return HostLoad(
        cores=os.cpu_count() or 1,
        load1=max(before.load1, after.load1),
        pressure=pressure,
        steal=steal,
        governor=_governor(),
        processor=_processor(),
    )


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part / whole)), 4)


@functools.cache
def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "Model", "CPU part")):
                return line.partition(":")[2].strip()[:256]
    return ""


def _governor() -> str:
    with (
        contextlib.suppress(OSError),
        open("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", encoding="ascii", errors="replace") as file,
    ):
        return file.read(64).strip()
    return ""
