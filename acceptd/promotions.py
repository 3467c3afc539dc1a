"""What the daemon promotes by itself: accepted bundles at once, and what has been long enough in another channel.

The ledger is the only memory. A bundle goes to a channel that waits for another one (``after``) when it has been
current there for so long, and once: what was ever a release of the channel does not come back by itself, so that a
rollback stays, and what was judged before its current release does not either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from acceptd.errors import AcceptdError, ChannelClosedError, ReleaseError, UsageError
from acceptd.policy.channels import Rule
from acceptd.record.entry import utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.log import Ledger
from acceptd.record.queue import Submission
from acceptd.release import channel as channels
from acceptd.release import gate
from acceptd.release.book import Row, read_book
from acceptd.release.layout import store_lock
from acceptd.release.promote import Release, promote
from acceptd.release.rests import Rests
from acceptd.release.settle import Terms
from acceptd.release.settled import Settled
from acceptd.release.signers import ReleaseKeys
from acceptd.release.who import DAEMON
from acceptd.review.desk import automatic
from acceptd.rules import Rules

KEPT: Final = ("release", "releases", "promotion_trouble")
"""What the report says of promotions, beside what was judged."""
log = structlog.get_logger("acceptd.promotions")


@dataclass(frozen=True, slots=True)
class Promoted:
    """Where an accepted bundle came to be current at once, and why it did not elsewhere (``trouble``)."""

    releases: tuple[dict[str, Any], ...] = ()
    trouble: str = ""

    def kept(self) -> dict[str, Any]:
        """Return what the queue keeps: the first release (as ever), all where there are several, the trouble."""
        several = list(self.releases) if len(self.releases) > 1 else None
        release = self.releases[0] if self.releases else None
        return {"release": release, "releases": several, "promotion_trouble": self.trouble}


@dataclass(frozen=True, slots=True)
class Due:
    """A bundle that has had its time: the row that made it current where it waited, and the channel's rule."""

    row: Row
    rule: Rule

    @property
    def place(self) -> tuple[str, str, str]:
        """Model, channel and bundle."""
        return self.row.model_id, self.rule.name, self.row.digest


@dataclass(slots=True)
class Promotions:
    """The daemon's own promotions in one state directory. ``rules`` gives the rules in force."""

    state: Path
    ledger: Ledger
    keys: ReleaseKeys
    rules: Callable[[], Rules]
    clock: Callable[[], str] = utc_now
    """UTC, RFC 3339. Only looked at first: a promotion asks the ledger's own."""
    now: Callable[[], float] = time.monotonic
    """Seconds of a clock that is never set."""
    _told: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Troubles that the log has already: a tick comes every few seconds."""
    _settled: Settled = field(default_factory=Settled)
    """Channels that need nothing: a tick comes every few seconds, and there may be thousands."""
    _rests: Rests = field(init=False)
    """Of what the storage refused: each try burns a number."""

    def __post_init__(self) -> None:
        self._rests = Rests(lambda: self.now())  # noqa: PLW0108 - a test sets that clock later

    def accepted(self, row: Submission, digest: str) -> Promoted:
        """Promote an accepted bundle, stored and under the store's lock, to the channels that its verdict named.

        A channel that does not take it is a line of ``trouble``, and the next one is tried. Safe to call again.
        """
        named = row.data["promote"] or []
        wanted = [named] if isinstance(named, str) else named  # an older version knew one channel
        rules = self.rules()
        seq = next(self.ledger.entries(kind="verdict", submission=row.id)).seq
        releases, troubles = [], []
        for name in wanted:
            if (done := self._was(str(row.model), name, seq)) is not None:
                releases.append(done)
                continue
            if why := self._not_by_itself(str(row.model), name, seq, rules):
                troubles.append(f"{name}: {why}")
                log.warning("not promoted", channel=name, reason=why)
                continue
            try:
                made = promote(
                    self.state,
                    self.ledger,
                    self.keys,
                    model_id=str(row.model),
                    channel=name,
                    digest=digest,
                    manifest_json=row.data["manifest"],
                    verdict_seq=seq,
                    options=row.data["options"],
                    profiles=row.data.get("profiles", ()),
                    reason=f"accepted as submission {row.id}",
                    decide=automatic(self.state, self.ledger, rules, name),
                    rule=rules.policy.channel(name),
                    by=DAEMON,
                    terms=Terms.of(rules.policy),
                )
            except (ReleaseError, UsageError) as error:  # the second: a channel that the policy no longer has
                troubles.append(str(error) if isinstance(error, ChannelClosedError) else f"{name}: {error}")
                log.warning("not promoted", channel=name, reason=str(error))
                continue
            failpoint("lifecycle.judged.promoted")
            log.info("promoted", model=made.model_id, channel=made.channel, number=made.number)
            releases.append({"model": made.model_id, "channel": made.channel, "number": made.number})
        main = rules.policy.release.channel
        releases.sort(key=lambda one: one["channel"] != main)  # it is the one that a short report names
        return Promoted(tuple(releases), "\n".join(troubles))

    def _not_by_itself(self, model_id: str, channel: str, verdict_seq: int, rules: Rules) -> str:
        """Return why a channel takes the bundle from a person alone; empty where it comes there by itself.

        The row of the queue that names the channels proves nothing: others may write there, and may bring an old
        submission back.
        """
        if any(rule.name == channel and not rule.automatic for rule in rules.policy.all_channels()):
            return "nothing comes there by itself"
        rows = read_book(self.ledger).rows(model_id, channel)
        later = [row for row in rows if row.activated_seq >= 0 and row.verdict_seq > verdict_seq]
        return f"what was judged later (entry {later[-1].verdict_seq}) was a release there" if later else ""

    def _was(self, model_id: str, channel: str, verdict_seq: int) -> dict[str, Any] | None:
        """Return what this verdict led to before a death: a person may have rolled that back since."""
        for row in read_book(self.ledger).rows(model_id, channel):
            if row.verdict_seq == verdict_seq and row.kind == "promote" and row.activated_seq >= 0:
                return {"model": model_id, "channel": channel, "number": row.number}
        return None

    def keep(self, between: Callable[[], None] = lambda: None) -> None:
        """Sign channels anew that are about to expire, and promote what is due. For the daemon, now and then.

        ``between`` is called before each channel.
        """
        policy = self.rules().policy
        terms = Terms.of(policy)
        done = channels.refresh(
            self.state, self.ledger, self.keys, life=terms.life, between=between, settled=self._settled
        )
        for problem in done.problems:
            log.error("channel not refreshed", what=problem)
        for due in self.due():
            between()
            if self._rests.due(due.place):
                self._promote(due, terms)

    def due(self) -> Iterator[Due]:
        """Yield what has been long enough in another channel by now, and may go on by itself."""
        policy = self.rules().policy
        for rule in policy.all_channels():
            if not (rule.automatic and rule.after_channel):
                continue
            book = read_book(self.ledger)
            for model_id, channel in sorted(book.channels):
                row = book.current(model_id, channel) if channel == rule.after_channel else None
                if row is None or row.digest in book.revoked or self._observed(model_id):
                    continue
                mine = [one for one in book.rows(model_id, rule.name) if one.activated_seq >= 0]
                current = book.current(model_id, rule.name)
                if any(one.digest == row.digest for one in mine) or (
                    current is not None and current.verdict_seq > row.verdict_seq
                ):
                    continue
                given = gate.facts(book, model_id, rule.name, row.digest, rule)
                if not gate.reasons(given, rule, self.clock()):
                    yield Due(row, rule)

    def _observed(self, model_id: str) -> bool:
        return self.rules().policy.observe.covers(model_id.partition("/")[0], model_id)

    def _promote(self, due: Due, terms: Terms) -> Release | None:
        row, rule = due.row, due.rule
        try:
            with store_lock(self.state, shared=True):
                before = channels.verified_release(self.state, self.keys, row, row.release_digest)
                made = promote(
                    self.state,
                    self.ledger,
                    self.keys,
                    model_id=row.model_id,
                    channel=rule.name,
                    digest=row.digest,
                    manifest_json=dict(before.manifest),
                    verdict_seq=row.verdict_seq,
                    options=before.options,
                    profiles=before.profiles,
                    reason=f"current on {rule.after_channel} (number {row.number}) for {rule.after_seconds} s",
                    decide=automatic(self.state, self.ledger, self.rules(), rule.name),
                    rule=rule,
                    by=DAEMON,
                    terms=terms,
                )
        except (AcceptdError, OSError) as error:
            if (told := (*due.place, str(error))) not in self._told:
                self._told.add(told)
                log.warning("not promoted", model=row.model_id, channel=rule.name, reason=str(error))
            if not isinstance(error, ReleaseError):  # a refusal takes no number; what people say counts at once
                self._rests.failed(due.place)
            return None
        self._rests.over(due.place)
        log.info("promoted", model=made.model_id, channel=made.channel, number=made.number)
        return made
