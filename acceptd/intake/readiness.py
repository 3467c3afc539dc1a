"""When a drop is ready to be claimed: decisions without I/O.

A drop is ready when it arrived by one rename, when its owner put the marker ``<name>.ready`` beside
it, or when nothing in it has changed for the settle time. A name that begins with a dot or ends in
``.part``, ``.tmp`` or ``.partial`` says that the drop is still being written, whatever else holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from acceptd.intake.paths import MARKER

_UNFINISHED: Final = (b".part", b".tmp", b".partial")
_MARKER: Final = MARKER.encode()


def waits(name: bytes) -> bool:
    """Say whether the name alone tells that the drop is unfinished, or not a drop (case is ignored)."""
    return name.startswith(b".") or name.lower().endswith(_UNFINISHED)


def marked_name(name: bytes) -> bytes | None:
    """Return the name of the drop that a marker of this name speaks of; None for any other name."""
    return name[: -len(_MARKER)] if name.endswith(_MARKER) and len(name) > len(_MARKER) else None


def marker_name(name: bytes) -> bytes:
    """Return the name of the marker of the drop ``name``."""
    return name + _MARKER


@dataclass(frozen=True)
class Candidate:
    """What is known of one drop that is not claimed yet.

    ``fingerprint`` stands for the names, sizes and times in it as they were last seen; ``since`` is
    when that fingerprint was seen first, in seconds of a monotonic clock.
    """

    since: float
    fingerprint: bytes = b""
    arrived_by_rename: bool = False
    marked: bool = False

    def looked_at(self, fingerprint: bytes, now: float) -> Candidate:
        """Return the candidate after another look: a changed fingerprint starts the settle time afresh."""
        if fingerprint == self.fingerprint:
            return self
        return replace(self, fingerprint=fingerprint, since=now)

    def wait(self, now: float, settle_seconds: float) -> float:
        """Return how long to wait until the next look; zero when the drop is ready."""
        if self.arrived_by_rename or self.marked:
            return 0.0
        return max(0.0, self.since + settle_seconds - now)
