"""Channels that needed nothing when they were looked at last, known again by their file alone.

A daemon looks after every channel it ever opened, every few seconds. To read one under its locks, verify its
signature and ask the ledger costs a millisecond; with some thousands of models that is all that the daemon does.
What was settled stays so while nothing it follows from has changed: the file itself, the row of the ledger, the
number of the revocation list, the keys, and the time that is left.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptd.record.keys import Keyring
from acceptd.release.book import Row
from acceptd.release.layout import CHANNEL_FILE, channel_path

_QUIET_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was read may change again within one tick of the clock, unseen."""
Print = tuple[int, int, int, int, int]
"""Device, inode, size, mtime_ns, ctime_ns. A write changes it, and so does another file in its place; the last one
cannot be set back but with the clock."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What one round of looks stands on, the same for all channels."""

    keyring: Keyring
    revocations: int


@dataclass(slots=True)
class Settled:
    """Remembers, between two rounds, which channels were found settled. For one thread."""

    _ground: Ground | None = None
    _known: dict[tuple[str, str], tuple[Print, int, str, float]] = field(default_factory=dict)

    def begin(self, ground: Ground | None) -> None:
        """Begin a round; on another ground, or on none, nothing that was known counts any more."""
        if ground is None or ground != self._ground:
            self._known.clear()
        self._ground = ground

    def still(self, state: Path, row: Row, valid_seconds: int, now: float) -> bool:
        """Whether a channel needs nothing: all is as :meth:`note` was told, and its time is not near."""
        known = self._known.get((row.model_id, row.channel))
        if known is None:
            return False
        seen, number, release_digest, expires = known
        return (
            (number, release_digest) == (row.number, row.release_digest)
            and in_time(expires - now, valid_seconds)
            and seen == fingerprint(state, row)
        )

    def note(self, row: Row, seen: Print | None, expires: float) -> None:
        """Remember a settled channel by what its file was before it was read; one that changed just now is not."""
        place = (row.model_id, row.channel)
        self._known.pop(place, None)
        if self._ground is not None and seen is not None and time.time_ns() - max(seen[3:]) > _QUIET_NS:
            self._known[place] = (seen, row.number, row.release_digest, expires)


def in_time(left: float, valid_seconds: int) -> bool:
    """Whether so many seconds until a channel expires are neither too few nor more than it should have.

    One that is valid for longer than it should be is no better than one that is about to expire: a clock that was
    ahead, or a life that the policy has shortened since, must not let it be withheld for years.
    """
    return valid_seconds / 2 < left <= valid_seconds


def fingerprint(state: Path, row: Row) -> Print | None:
    """Return what tells a channel's file from any other; None where it cannot be looked at."""
    try:
        found = os.lstat(f"{state}/{channel_path(row.model_id, row.channel)}/{CHANNEL_FILE}")
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
