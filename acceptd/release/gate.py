"""Whether a bundle may be promoted to a channel now: what the ledger says, the channel's rules, the time. Pure.

What people and verdicts have to say comes before (:mod:`acceptd.release.accepted`); this is about the channel: is
it frozen, is its current release pinned, was the bundle long enough where it has to be first. A period begins with
the entry that made the bundle current there and ends with the one that made another bundle current, whatever for;
the bundle has to be current there still. Times are the ledger's own, UTC, RFC 3339, to the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from acceptd.policy.channels import Rule
from acceptd.release.book import Book
from acceptd.release.holds import Hold

Word = Literal["frozen", "pinned", "absent", "early"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the ledger says about promoting one bundle to one channel."""

    freezes: tuple[Hold, ...] = ()
    pin: Hold | None = None
    """Of the current release, where that is another bundle."""
    since: str = ""
    """Since when the bundle has been current in the channel that the rule names; empty where it is not."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why not. ``due`` is when that alone is over by itself; empty where somebody has to do something."""

    word: Word
    text: str
    due: str = ""
    everyone: bool = False
    """Whether it holds for all models."""


def facts(book: Book, model_id: str, channel: str, digest: str, rule: Rule) -> Facts:
    """Return what the ledger says about promoting ``digest``."""
    current = book.current(model_id, channel)
    pin = None
    if current is not None and current.digest != digest and current.digest not in book.revoked:
        pin = book.holds.exactly("pinned", model_id, channel, current.digest)
    since = current_since(book, model_id, rule.after_channel, digest) if rule.after_channel else ""
    return Facts(tuple(book.holds.frozen(model_id, channel)), pin, since)


def current_since(book: Book, model_id: str, channel: str, digest: str) -> str:
    """Return since when ``digest`` is current on a channel without a break; empty where it is not.

    A new number for the same bundle (the exchange of a key) is no break.
    """
    since = ""
    rows = [row for row in book.rows(model_id, channel) if row.activated_seq >= 0]
    for row in sorted(rows, key=lambda one: one.activated_seq, reverse=True):
        if row.digest != digest:
            break
        since = row.activated_at
    return since


def reasons(given: Facts, rule: Rule, now: str, *, glass: bool = False) -> list[Reason]:
    """Return why the bundle may not be promoted at ``now``; none where it may.

    ``glass``: somebody broke the glass. That spares a bundle the time in another channel, which may be what an
    emergency has not; a frozen channel and a pinned release are a person's word, and end with another one.
    """
    found = [
        Reason(
            "frozen",
            f"it is frozen since {one.at}{_all(one)} (entry {one.seq}): {one.reason}",
            everyone=not one.model_id,
        )
        for one in given.freezes
    ]
    if given.pin is not None:
        one = given.pin
        text = f"its release {one.digest[:12]} is pinned since {one.at} (entry {one.seq}): {one.reason}"
        found.append(Reason("pinned", text))
    if not rule.after_channel or glass:
        return found
    wanted = f"current release of {rule.after_channel} for {rule.after_seconds} s without a break"
    if not given.since:
        found.append(Reason("absent", f"it has to be the {wanted} before, and is not its current release"))
    elif now < (due := after(given.since, rule.after_seconds)):
        found.append(Reason("early", f"it has to be the {wanted} before, and is since {given.since}", due))
    return found


def _all(one: Hold) -> str:
    return "" if one.model_id else " for all models"


def after(moment: str, seconds: int) -> str:
    """Return the time ``seconds`` after ``moment``, both UTC, RFC 3339."""
    later = datetime.fromisoformat(moment) + timedelta(seconds=seconds)
    return later.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
