"""What the daemon's main loop does every few seconds beside the submissions: space, withdrawals, releases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from acceptd.canary.evaluate import People
from acceptd.canary.resume import Unfinished, resume
from acceptd.config import Paths, Settings
from acceptd.errors import AcceptdError
from acceptd.lifecycle import EXAMINED
from acceptd.policy.load import load_reviewers
from acceptd.record import reserve
from acceptd.release.reconcile import Reconciled, catch_up
from acceptd.release.rests import Rests
from acceptd.release.settle import Terms
from acceptd.review.desk import Desk
from acceptd.rooms import Rooms
from acceptd.rules import Rules

log = structlog.get_logger("acceptd.daemon")


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
    paused: bool = False
    """Nothing is claimed: the disk is nearly full."""
    rests: Rests = field(default_factory=Rests)
    """Of what cannot be caught up with: each try may burn a number."""
    canaries: Unfinished = field(init=False)

    def __post_init__(self) -> None:
        self.canaries = Unfinished(self.rooms.ledger)

    def do(self) -> None:
        """Do one duty after the other."""
        for duty in (self.watch_space, self.look_for_withdrawn, self.offer_again, self.keep_releases):
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

    def keep_releases(self) -> None:
        """Finish what was killed, refresh what expires, promote what has had its time, write a checkpoint."""
        terms = Terms.of(self.rules().policy)
        rooms = self.rooms
        tell(
            catch_up(self.paths.state, rooms.ledger, rooms.keys, terms=terms, between=self.beat, rests=self.rests)
        )
        self.finish_canaries()
        self.rooms.lifecycle.promotions.keep(self.beat)
        self.rooms.notary.nudge()

    def finish_canaries(self) -> None:
        """Carry out what an evaluation of a canary decided, where a kill came between its entry and that."""
        rooms, rules = self.rooms, self.rules()
        found = self.canaries.cut_off()
        if found:
            desk = Desk(self.paths.state, rooms.ledger, rules.policy, load_reviewers(rules.directory))
            people = People(desk.decided, desk.rejected, rules.policy.channel)
            terms = Terms.of(rules.policy)
            tell(resume(self.paths.state, rooms.ledger, rooms.keys, found, people, terms=terms, rests=self.rests))

    def watch_space(self) -> None:
        """Stop claiming where the disk is nearly full, and go on where it is not any more; keep the reserve."""
        free = shutil.disk_usage(self.paths.state).free
        if free < self.settings.min_free_bytes and not self.paused:
            self.paused = True
            self.rooms.inbox.pause()
            log.error("intake paused: the disk is nearly full", free_bytes=free)
        elif free >= self.settings.min_free_bytes and self.paused:
            self.paused = False
            self.rooms.inbox.resume()
            log.info("intake resumed", free_bytes=free)
        if not self.paused and not reserve.keep(self.paths.state):
            log.warning("no room for the ledger's reserve", free_bytes=free)


def guarded(duty: Callable[[], None]) -> None:
    """Do one duty of the house; what it meets (a busy ledger, a full disk) never ends the daemon."""
    name = duty.__name__.strip("_")
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
