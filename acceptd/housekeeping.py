"""What the daemon's main loop does every few seconds beside the submissions: space, withdrawals, releases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from acceptd.canary.evaluate import People
from acceptd.canary.resume import Unfinished, resume
from acceptd.config import Paths, Settings
from acceptd.errors import AcceptdError
from acceptd.heap import give_back
from acceptd.lifecycle import EXAMINED
from acceptd.policy.load import load_reviewers
from acceptd.promotions import Promotions
from acceptd.record import reserve
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary
from acceptd.release.reconcile import Reconciled, catch_up
from acceptd.release.rests import Rests
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.review.desk import Desk
from acceptd.rooms import Rooms
from acceptd.rules import Rules

log = structlog.get_logger("acceptd.daemon")


@dataclass(slots=True)
class Releases:
    """What releases need beside promotions: whoever holds the release keys sees to it now and then."""

    state: Path
    rules: Callable[[], Rules]
    ledger: Ledger
    keys: ReleaseKeys
    promotions: Promotions
    notary: Notary
    beat: Callable[[], None]
    """Gives the sign of life, between two steps."""
    rests: Rests = field(default_factory=Rests)
    """Of what cannot be caught up with: each try may burn a number."""
    canaries: Unfinished = field(init=False)

    def __post_init__(self) -> None:
        self.canaries = Unfinished(self.ledger)

    def keep_releases(self) -> None:
        """Finish what was killed, refresh what expires, promote what has had its time, write a checkpoint."""
        terms = Terms.of(self.rules().policy)
        tell(catch_up(self.state, self.ledger, self.keys, terms=terms, between=self.beat, rests=self.rests))
        self.finish_canaries()
        self.promotions.keep(self.beat)
        self.notary.nudge()

    def finish_canaries(self) -> None:
        """Carry out what an evaluation of a canary decided, where a kill came between its entry and that."""
        rules, found = self.rules(), self.canaries.cut_off()
        if found:
            desk = Desk(self.state, self.ledger, rules.policy, load_reviewers(rules.directory))
            people = People(desk.decided, desk.rejected, rules.policy.channel)
            terms = Terms.of(rules.policy)
            tell(resume(self.state, self.ledger, self.keys, found, people, terms=terms, rests=self.rests))


@dataclass(slots=True)
class Space:
    """Stops the inbox where the disk is nearly full."""

    state: Path
    least: int
    """Bytes."""
    inbox: Pausing
    keep_reserve: bool = True
    """Whether the ledger, and with it its reserve, is on this disk."""
    paused: bool = False

    def watch_space(self) -> None:
        """Stop claiming where the disk is nearly full, and go on where it is not any more; keep the reserve."""
        free = shutil.disk_usage(self.state).free
        if free < self.least and not self.paused:
            self.paused = True
            self.inbox.pause()
            log.error("intake paused: the disk is nearly full", free_bytes=free)
        elif free >= self.least and self.paused:
            self.paused = False
            self.inbox.resume()
            log.info("intake resumed", free_bytes=free)
        if not self.paused and self.keep_reserve and not reserve.keep(self.state):
            log.warning("no room for the ledger's reserve", free_bytes=free)


class Pausing(Protocol):
    """Who can be told to claim nothing for a while."""

    def pause(self) -> None:
        """Claim nothing more."""

    def resume(self) -> None:
        """Claim again."""


@dataclass(slots=True)
class Housekeeping:
    """The duties of one daemon. ``offer_again`` queues what failed before or did not fit."""

    paths: Paths
    settings: Settings
    rules: Callable[[], Rules]
    rooms: Rooms
    offer_again: Callable[[], None]
    beat: Callable[[], None]
    """Gives the sign of life, between two steps."""
    releases: Releases = field(init=False)
    space: Space = field(init=False)

    def __post_init__(self) -> None:
        rooms = self.rooms
        self.releases = Releases(
            self.paths.state,
            self.rules,
            rooms.ledger,
            rooms.keys,
            rooms.lifecycle.promotions,
            rooms.notary,
            self.beat,
        )
        self.space = Space(self.paths.state, self.settings.min_free_bytes, rooms.inbox)

    @property
    def paused(self) -> bool:
        """Whether nothing is claimed: the disk is nearly full."""
        return self.space.paused

    def do(self) -> None:
        """Do one duty after the other."""
        duties = (
            self.space.watch_space, self.look_for_withdrawn, self.offer_again, self.releases.keep_releases,
            give_back,
        )  # fmt: skip
        for duty in duties:
            guarded(duty)
            self.beat()
        self.rooms.retention.nudge()
        self.rooms.lifecycle.tools.cells.keep_spares()  # not before: the start and its drops need the cores

    def look_for_withdrawn(self) -> None:
        """Give up running work whose drop was taken out of the inbox: nobody waits for its verdict."""
        rooms = self.rooms
        for submission in rooms.workers.look_at(lambda one: [lease.submission for lease in one.leases.values()]):
            row = rooms.queue.get(submission)
            if row is not None and row.state in EXAMINED and not os.path.lexists(row.path):
                rooms.workers.give_up(submission, "withdrawn")


def guarded(duty: Callable[[], object], name: str = "") -> None:
    """Do one duty of the house; what it meets (a busy ledger, a full disk) never ends the daemon."""
    name = name or duty.__name__.strip("_")
    try:
        duty()
    except (AcceptdError, OSError) as error:
        log.error("housekeeping", duty=name, error=str(error))  # noqa: TRY400 - it says all
    except Exception:
        log.exception("housekeeping", duty=name)


def tell(report: Reconciled) -> None:
    """Log what was mended, and what could not be."""
    for word in report.done:
        log.info("reconciled", what=word)
    for problem in report.problems:
        log.error("not reconciled", what=problem)
