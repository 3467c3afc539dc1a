"""What a daemon and all that it ever started cost, in processor time, however their processes ended.

A process's own record counts its children only once it has waited for them. Nobody waits for what the kernel ends
with its pid namespace, and a warm parent that is replaced takes with it what its jobs had cost. So the daemon gets
a control group of its own, where this may be done, and the kernel counts for it (cgroup-v1/cpuacct.rst,
``cpuacct.usage``, nanoseconds; cgroup-v2.rst, ``cpu.stat``, ``usage_usec``: of the living and of the dead).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.load import samples

FIRST: Final = Path("/sys/fs/cgroup/cpuacct")
SECOND: Final = Path("/sys/fs/cgroup")
GROUP: Final = "group"
TREE: Final = "tree"
_ENDING_SECONDS: Final = 10.0


class Account:
    """The processor time of one daemon and everything below it. Close it when the daemon has ended."""

    def __init__(self, mounts: Sequence[Path] = (FIRST, SECOND)) -> None:
        """Make a group below the first of ``mounts`` where one may be made and is counted."""
        self.place: Path | None = None
        for mount in mounts:
            place = mount / f"acceptd-load-{os.getpid()}"
            with contextlib.suppress(OSError):
                place.mkdir()
                if counted(place) is not None:
                    self.place = place
                    return
                place.rmdir()

    @property
    def by(self) -> str:
        """How it is counted: by the kernel's group, or from what is left of the tree (then it is too little)."""
        return GROUP if self.place is not None else TREE

    def inside(self) -> tuple[str, ...]:
        """Return what comes before a command line, so that it and all its children are counted here."""
        if self.place is None:
            return ()
        return ("sh", "-c", f'echo $$ > "{self.place}/cgroup.procs" && exec "$@"', "sh")

    def spent(self, root: int) -> float:
        """Return the seconds of all of them until now; ``root`` is the daemon, for where there is no group."""
        found = None if self.place is None else counted(self.place)
        return samples.spent(root) if found is None else found

    def close(self) -> None:
        """Remove the group, once the last of those in it has quite ended (nothing tells when); else it stays."""
        due = time.monotonic() + _ENDING_SECONDS
        while self.place is not None and self.place.exists() and time.monotonic() < due:
            with contextlib.suppress(OSError):
                self.place.rmdir()
                return
            time.sleep(0.01)


def counted(place: Path) -> float | None:
    """Return the seconds that a control group counted; None where it counts none."""
    with contextlib.suppress(OSError, ValueError):
        return int((place / "cpuacct.usage").read_text("ascii")) / 1e9
    with contextlib.suppress(OSError, ValueError):
        for line in (place / "cpu.stat").read_text("ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1e6
    return None
