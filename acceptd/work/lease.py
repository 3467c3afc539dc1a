"""A lease of the machine and the states that it goes through. Pure.

``held`` is work under way. Work that is given up goes through four recorded states::

    held ── abandoned ── cancel-requested ── still-running ── released
      │         │               │                                ▲
      └─────────┴───────────────┴────────────────────────────────┘  the work ended by itself

``abandoned``: nobody waits for its result any more. ``cancel-requested``: its jobs are told to end.
``still-running``: they have been sent the kill, which the kernel has not confirmed. ``released``: every
process of it is dead. The budget returns at ``released`` and at no other time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from acceptd.errors import InternalError
from acceptd.work.budget import Share

State = Literal["held", "abandoned", "cancel-requested", "still-running", "released"]
Reason = Literal["", "deadline", "stop", "withdrawn", "interrupted"]

STATES: Final[tuple[State, ...]] = ("held", "abandoned", "cancel-requested", "still-running", "released")
GIVEN_UP: Final = frozenset(STATES[1:4])
LEGAL: Final[dict[State, frozenset[State]]] = {
    "held": frozenset({"abandoned", "released"}),
    "abandoned": frozenset({"cancel-requested", "released"}),
    "cancel-requested": frozenset({"still-running", "released"}),
    "still-running": frozenset({"released"}),
    "released": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: ``monotonic`` seconds, and ``wall`` seconds since the epoch."""

    monotonic: float
    wall: float


@dataclass(slots=True)
class Lease:
    """One submission's part of the machine. ``extras`` are shares of further jobs beside its first."""

    number: int
    submission: str
    team: str
    profile: str
    share: Share
    deadline: float
    granted: Moment
    slot: int = 0
    state: State = "held"
    reason: Reason = ""
    extras: dict[int, Share] = field(default_factory=dict)
    entered: dict[State, Moment] = field(default_factory=dict)

    @property
    def whole(self) -> Share:
        """The share with all extras."""
        return sum(self.extras.values(), self.share) if self.extras else self.share


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of one lease. ``was`` is empty for the grant; ``share`` is what it held, extras included."""

    lease: int
    submission: str
    team: str
    profile: str
    slot: int
    share: Share
    was: State | Literal[""]
    state: State
    reason: Reason
    at: Moment
    seconds: float
    """Spent in ``was``, on the monotonic clock."""


def granted(lease: Lease) -> Transition:
    """Return the first step of a new lease."""
    lease.entered["held"] = lease.granted
    return _told(lease, "", lease.share, lease.granted, 0.0)


def step(lease: Lease, to: State, at: Moment, reason: Reason = "") -> Transition:
    """Move a lease on. InternalError for a step that is not legal, or a release with extras still out."""
    if to not in LEGAL[lease.state]:
        raise InternalError(f"lease {lease.number} cannot go from {lease.state} to {to}")
    if to == "released" and lease.extras:
        raise InternalError(f"lease {lease.number} is released while {len(lease.extras)} of its extras are out")
    was, since = lease.state, lease.entered[lease.state]
    lease.state = to
    lease.entered[to] = at
    if reason:
        lease.reason = reason
    return _told(lease, was, lease.whole, at, at.monotonic - since.monotonic)


def _told(lease: Lease, was: State | Literal[""], share: Share, at: Moment, seconds: float) -> Transition:
    return Transition(
        lease=lease.number,
        submission=lease.submission,
        team=lease.team,
        profile=lease.profile,
        slot=lease.slot,
        share=share,
        was=was,
        state=lease.state,
        reason=lease.reason,
        at=at,
        seconds=seconds,
    )
