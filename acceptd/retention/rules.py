"""What goes and what stays, by the operator's days. Pure: no clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from acceptd.config import RetentionTable

What = Literal["rejected", "quarantined", "held", "outputs", "store", "backup", "object"]
KEYS: Final[dict[What, str]] = {
    "rejected": "rejected_days",
    "quarantined": "quarantined_days",
    "held": "held_days",
    "outputs": "outputs_days",
    "store": "superseded_days",
    "backup": "backups_days",
}
"""Which key of ``[retention]`` holds for which kind of thing; contents in an object store have another."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing below the state directory that may go some day."""

    what: What
    folder: str
    """Relative to the state directory."""
    name: str
    """In ``folder``: a submission, a digest, or a file's name."""
    size: int
    """Bytes on disk."""
    since: str
    """When its time began: UTC, RFC 3339. Empty where that is not known: then it stays."""
    digest: str = ""
    """Of the bundle."""
    team: str = ""
    model: str = ""
    keeps: str = ""
    """Why it stays however old it is."""

    @property
    def place(self) -> str:
        """Relative to the state directory."""
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Decided:
    """A thing with what becomes of it now, and why."""

    thing: Thing
    goes: bool
    reason: str


def decide(thing: Thing, table: RetentionTable, now: str) -> Decided:
    """Say whether ``thing`` goes at ``now`` (UTC, RFC 3339). What is in doubt stays."""
    key = KEYS[thing.what]
    days: int = getattr(table, key)
    if thing.keeps:
        return Decided(thing, False, thing.keeps)
    pinned = {thing.digest, thing.model} - {""} & set(table.pinned)
    if pinned:
        return Decided(thing, False, f"pinned: {min(pinned)}")
    if days == 0:
        return Decided(thing, False, f"{key} = 0: for ever")
    if not thing.since:
        return Decided(thing, False, "nobody knows since when it lies there")
    due = after(thing.since, days)
    if now < due:
        return Decided(thing, False, f"until {due[:10]} ({key} = {days})")
    return Decided(thing, True, f"since {thing.since[:10]}, longer than {key} = {days}")


def after(moment: str, days: int) -> str:
    """Return the time ``days`` after ``moment``, both UTC, RFC 3339."""
    try:
        later = datetime.fromisoformat(moment) + timedelta(days=days)
    except OverflowError:
        return "9999-12-31T23:59:59Z"
    return later.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
