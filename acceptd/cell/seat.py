"""The seat of one kind of warm parent in a cell: who sits there, why it goes, whether a profile may use it."""

from __future__ import annotations

import threading
from typing import Final

from acceptd.cell.supply import ParentSupply, WarmParent
from acceptd.evidence import JobRecord
from acceptd.policy.profile import Profile
from acceptd.runtime import pins
from acceptd.runtime.facts import Library

JOBS_PER_PARENT: Final = 1000
AHEAD: Final = 100
"""So many jobs before its last one the next parent is begun, where none stands ready."""
JOBS_PER_HEALTH: Final = 32
"""So often a parent is asked how it is (about 0.1 ms), and after every job that did not end well."""


class Seat:
    """The parent of one kind that a cell uses at present; replaced after a death, an illness or N jobs."""

    def __init__(self, supply: ParentSupply) -> None:
        self.supply = supply
        self.parent: WarmParent | None = None
        self.lock = threading.Lock()

    def take(self) -> tuple[WarmParent, str]:
        """Return a parent for a job, and why another one had to go first, or an empty string."""
        reason = ""
        with self.lock:
            stale = self.parent
            if stale is not None and not stale.retired and not self.supply.sees_sealed(stale):
                reason = stale.retired = "sealed: the directory was made anew"
                if stale.running == 0:
                    stale.close()
            if self.parent is None or self.parent.retired:
                self.parent = self.supply.take()
            self.parent.running += 1
            self.parent.jobs += 1
            if self.parent.jobs == JOBS_PER_PARENT - AHEAD:
                self.supply.ahead()
            return self.parent, reason

    def give_back(self, parent: WarmParent, *, trouble: str, suspect: bool) -> str:
        """Take a parent back after a job; return why it is replaced, or an empty string.

        ``suspect``: the job did not end well; the parent is asked at once.
        """
        with self.lock:
            parent.running -= 1
            if not parent.retired:
                parent.retired = trouble or (f"jobs: {parent.jobs}" if parent.jobs >= JOBS_PER_PARENT else "")
                if not parent.retired and (suspect or parent.jobs - parent.asked >= JOBS_PER_HEALTH):
                    parent.asked = parent.jobs
                    parent.retired = parent.ailment()
                reason = parent.retired
                if reason and not reason.startswith("jobs"):
                    self.supply.trouble()
            else:
                reason = ""  # told once, when it was retired
            finished = bool(parent.retired) and parent.running == 0
            if finished and self.parent is parent:
                self.parent = None
        if finished:
            parent.close()
        return reason

    def close(self) -> None:
        with self.lock:
            parent, self.parent = self.parent, None
        if parent is not None:
            parent.close()


def unfit(parent: WarmParent, profile: Profile) -> JobRecord | None:
    """Return the record of a job that does not start because the parent is not what the profile pins, or None.

    Waits for the digests of the parent's libraries only where the profile pins some.
    """
    told = parent.parent.told
    libraries: tuple[Library, ...] = ()
    if profile.libraries:
        try:
            libraries = parent.facts.result().libraries
        except OSError as error:
            message = f"{error.filename}: {error.strerror}"
            return refusal(pins.LIBRARY, message, parent.number)
    found = pins.differences(profile.libraries, libraries, profile.onnxruntime, told.onnxruntime)
    if not found:
        return None
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return refusal(found[0].code, f"profile {profile.name}: {found[0].sentence()}{more}", parent.number)


def refusal(cause: str, message: str, parent: int = 0) -> JobRecord:
    """Return the record of a ``run`` that does not start for want of the profile's runtime."""
    return JobRecord(kind="run", ending="unavailable", cause=cause, message=message[:600], parent=parent)
