"""Channels of releases: which there are, and what each asks before anything is promoted to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from acceptd.policy.names import Name
from acceptd.policy.table import Table

MOST_SECONDS: Final = 31_536_000
"""A year."""
ValidSeconds = Annotated[int, Field(ge=60, le=MOST_SECONDS)]


class ReleaseTable(Table):
    """Promotion: the main channel, and what channels without keys of their own inherit."""

    automatic: bool = True
    """Whether an accepted bundle is promoted to ``channel`` by itself."""
    channel: Name = "production"
    """The main channel: what submissions are compared with, and where commands look that name none."""
    channel_valid_seconds: ValidSeconds = 86_400


class AfterTable(Table):
    """A time that a bundle has to have been current in another channel, without a break."""

    channel: Name
    """The other channel."""
    seconds: Annotated[int, Field(ge=1, le=MOST_SECONDS)]
    """For how long."""


class ChannelTable(Table):
    """One channel. What is left out is inherited: see :func:`rule`."""

    automatic: bool | None = None
    """Whether what is accepted comes here by itself; left out: ``release.automatic`` for the main one, else no."""
    approvals: Annotated[int, Field(ge=0, le=16)] = 0
    """How many different people must approve here even what was accepted."""
    after: AfterTable | None = None
    """Where it has to have been current before, and for how long."""
    valid_seconds: ValidSeconds | None = None
    """Of its ``channel.json``; left out: ``release.channel_valid_seconds``."""


CHANNELS: Final = {"canary": ChannelTable()}
"""The channels beside the main one of a policy that names none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for one channel, inherited values filled in. Seconds are whole numbers."""

    name: str = ""
    automatic: bool = False
    approvals: int = 0
    after_channel: str = ""
    """Empty: nothing has to be anywhere before."""
    after_seconds: int = 0
    valid_seconds: int = 86_400

    @classmethod
    def recorded(cls, name: str, said: object) -> Rule:
        """Return the rule that a promotion has on record (see :meth:`body`); what is no rule asks for nothing."""
        found = said if isinstance(said, dict) else {}
        approvals, after = found.get("approvals"), found.get("after")
        seconds = after.get("seconds") if isinstance(after, dict) else None
        if not isinstance(after, dict) or type(seconds) is not int:
            after = {}
        return cls(
            name,
            approvals=approvals if type(approvals) is int else 0,
            after_channel=str(after.get("channel") or ""),
            after_seconds=seconds or 0,
        )

    def body(self) -> dict[str, object]:
        """Return what a promotion puts on record of its channel's rules; nothing where it asks for nothing."""
        said: dict[str, object] = {}
        if self.approvals:
            said["approvals"] = self.approvals
        if self.after_channel:
            said["after"] = {"channel": self.after_channel, "seconds": self.after_seconds}
        return said


NO_RULE: Final = Rule()
"""Of a channel that asks for nothing."""


def known(release: ReleaseTable, channels: Mapping[str, ChannelTable]) -> tuple[str, ...]:
    """Return the names of a policy's channels: the main one first, the others in order."""
    return (release.channel, *sorted(name for name in channels if name != release.channel))


def rule(name: str, release: ReleaseTable, channels: Mapping[str, ChannelTable]) -> Rule | None:
    """Return what holds for a channel; None where the policy knows none of that name."""
    if name not in known(release, channels):
        return None
    table = channels.get(name, ChannelTable())
    own = release.automatic if name == release.channel else False
    return Rule(
        name=name,
        automatic=own if table.automatic is None else table.automatic,
        approvals=table.approvals,
        after_channel=table.after.channel if table.after else "",
        after_seconds=table.after.seconds if table.after else 0,
        valid_seconds=table.valid_seconds or release.channel_valid_seconds,
    )


def ordered(release: ReleaseTable, channels: Mapping[str, ChannelTable]) -> list[Rule]:
    """Return all rules, a channel before those that wait for it. Call only for :func:`trouble`-free tables."""
    rules = {one: found for one in known(release, channels) if (found := rule(one, release, channels))}
    done: list[Rule] = []

    def add(one: Rule) -> None:
        if one.after_channel and rules[one.after_channel] not in done:
            add(rules[one.after_channel])
        if one not in done:
            done.append(one)

    for one in rules.values():
        add(one)
    return done


def trouble(release: ReleaseTable, channels: Mapping[str, ChannelTable]) -> str:
    """Return what is wrong with the channels as a whole, with the key; empty where nothing is."""
    names = known(release, channels)
    for name, table in sorted(channels.items()):
        place = f"channels.{name}.after"
        if table.after is not None and table.after.channel not in names:
            return f"{place}: there is no channel {table.after.channel!r}; there are {', '.join(sorted(names))}"
        chain = [name]
        while (after := channels.get(chain[-1], ChannelTable()).after) is not None and after.channel in names:
            chain.append(after.channel)
            if after.channel == name:
                return f"{place}: waits for itself: {' → '.join(chain)}"
            if len(chain) > len(names):
                break  # a circle further on, which is told at its own channels
    return ""
