"""What is to become current on a channel, whatever the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acceptd.errors import ReleaseError
from acceptd.policy.channels import NO_RULE, Rule
from acceptd.policy.troubles import Trouble, first
from acceptd.release.book import Row
from acceptd.release.heads import kept_runtimes
from acceptd.release.model import AcceptedRuntime, Kind, ReleasedProfile, SessionOptions
from acceptd.release.trust import ReleaseFacts


@dataclass(frozen=True, slots=True)
class Order:
    """What is to become current."""

    model_id: str
    channel: str
    kind: Kind
    digest: str
    manifest: dict[str, Any]
    verdict_seq: int
    options: SessionOptions
    profiles: list[ReleasedProfile]
    reason: str
    decisions: tuple[int, ...] = ()
    runtimes: tuple[AcceptedRuntime, ...] = ()
    """Of an older release; empty: as the verdict's evidence says."""
    by: str = ""
    """Who has it done: :func:`acceptd.release.who.operator`, or the daemon."""
    rule: Rule = NO_RULE
    """What the channel asks for."""
    glass: bool = False
    """Whether somebody broke the glass."""


def again(row: Row, kind: Kind, before: ReleaseFacts, reason: str, by: str) -> Order:
    """Return the order for a bundle that was a release already: ``before`` is its verified ``release.json``."""
    profiles = released_profiles(before.profiles)
    return Order(
        row.model_id,
        row.channel,
        kind,
        row.digest,
        dict(before.manifest),
        row.verdict_seq,
        session_options(before.options),
        profiles,
        reason,
        tuple(before.document.get("decisions", ())),
        tuple(kept_runtimes(before.document.get("runtimes", ()), profiles)),
        by,
    )


def session_options(options: Mapping[str, Any] | SessionOptions) -> SessionOptions:
    """Return validated options; raise ReleaseError where they are none."""
    if isinstance(options, SessionOptions):
        return options
    found = first(dict(options), SessionOptions)
    if isinstance(found, Trouble):
        raise ReleaseError(f"session options: {f'{found.key}: ' if found.key else ''}{found.message}")
    return found


def released_profiles(profiles: Sequence[Mapping[str, Any]]) -> list[ReleasedProfile]:
    """Return validated profiles; raise ReleaseError where one is none."""
    found = [first(dict(one), ReleasedProfile) for one in profiles]
    for one in found:
        if isinstance(one, Trouble):
            raise ReleaseError(f"profiles: {f'{one.key}: ' if one.key else ''}{one.message}")
    return [one for one in found if isinstance(one, ReleasedProfile)]
