"""Whether teams were served in turns, told from one order of events alone: no clock is asked. Pure.

The daemon logs each claim, each beginning and each verdict; its log is one order of all. From it follow, for every
drop, how many of its own team's drops waited before it (``before``) and how many verdicts of other teams came
between its claim and its own (``passed``). Turns promise (docs/operations.md, Order) at most
``(before + 1) * teams * (overtakings + 1)`` of them, and those that were being worked already; first come first
served promises nothing but the whole queue.

The index of fairness is Jain's (R. Jain et al., DEC-TR-301, 1984) over ``got / due``: ``got`` is how often a team
was served, ``due`` what it would have been served had each verdict been shared by all teams that waited then. 1:
exactly in turns; 1 / n: one team of n got everything.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Event = tuple[Literal["claimed", "begun", "judged"], str, str]
"""What happened, to which submission, of which team."""


@dataclass(frozen=True, slots=True)
class Waited:
    """What one submission waited for, in verdicts."""

    submission: str
    team: str
    before: int
    """Of its own team, when it was claimed."""
    waiting: int
    """Of all teams, when it was claimed: what it would wait for if nobody took turns."""
    passed: int
    """Verdicts of other teams between its claim and its own."""
    own: int
    """Drops of its own team that were begun between its claim and its own beginning."""


@dataclass
class Order:
    """What an order of events says."""

    waited: list[Waited] = field(default_factory=list)
    index: float = 1.0
    most_waiting: int = 0
    """The longest that the queue of all claimed and unjudged drops was."""

    def late(self, teams: int, overtakings: int, lanes: int) -> list[Waited]:
        """Return those that waited for more verdicts of others than turns allow."""
        each = teams * (overtakings + 1)
        return [one for one in self.waited if one.passed > (one.before + 1) * each + lanes]

    def overtaken(self, lanes: int) -> list[Waited]:
        """Return those that more of their own team went before than waited before: not first come, first served.

        What is begun at the same time may be told in another order: ``lanes`` of them.
        """
        return [one for one in self.waited if one.own > one.before + lanes]


def order(events: Sequence[Event]) -> Order:
    """Return what the events, in their order, say."""
    found = Order()
    claimed: dict[str, tuple[int, int, int, int]] = {}
    began: dict[str, int] = {}
    waiting: collections.Counter[str] = collections.Counter()
    queued: collections.Counter[str] = collections.Counter()
    begun: collections.Counter[str] = collections.Counter()
    judged: collections.Counter[str] = collections.Counter()
    due: collections.Counter[str] = collections.Counter()
    got: collections.Counter[str] = collections.Counter()
    for what, submission, team in events:
        if what == "claimed":
            claimed[submission] = (queued[team], waiting.total(), begun[team], judged.total() - judged[team])
            waiting[team] += 1
            queued[team] += 1
            found.most_waiting = max(found.most_waiting, waiting.total())
            continue
        before, whole, own, others = claimed.get(submission, (0, 0, begun[team], judged.total() - judged[team]))
        if submission not in began:
            began[submission] = begun[team] - own
            begun[team] += 1
            queued[team] -= 1
        if what == "begun":
            continue
        those = [one for one, number in waiting.items() if number > 0]
        if len(those) > 1:  # alone, a team is served whatever the rule is
            got[team] += 1
            for one in those:
                due[one] += 1 / len(those)  # type: ignore[assignment]
        passed = judged.total() - judged[team] - others
        found.waited.append(Waited(submission, team, before, whole, passed, began[submission]))
        judged[team] += 1
        waiting[team] -= 1
    shares = [got[team] / part for team, part in due.items() if part >= 1]
    if shares:
        found.index = sum(shares) ** 2 / (len(shares) * sum(one * one for one in shares))
    return found
