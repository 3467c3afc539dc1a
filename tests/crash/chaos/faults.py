"""Every kind of fault, with its share of a run."""

from __future__ import annotations

from typing import Final

from tests.crash.chaos import limits, places
from tests.crash.chaos.calls import GROUPS, failing_calls
from tests.crash.chaos.kills import Act, its_cell

FAULTS: Final[dict[str, tuple[int, Act]]] = {
    **{f"system call fails: {group}": (4, failing_calls(group)) for group in GROUPS},
    "the disk is full": (3, limits.full_disk),
    "no descriptors": (3, limits.no_descriptors),
    "no memory": (3, limits.no_memory),
    "no processes": (2, limits.no_processes),
    "the clock is set": (2, places.clock_jump),
    "the disk is read-only": (2, limits.read_only_disk),
    "the database is corrupt": (2, places.corrupt_database),
    "no cell can start": (2, places.no_cell),
    "cell, comparer or sealer is killed": (2, its_cell),
    "inotify overflows": (1, places.overflow),
    "no inotify": (1, places.no_inotify),
}
"""By name: the share, and the act."""
