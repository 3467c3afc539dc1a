"""The promoter's wing: orders, decides, promotes. It alone has the keys of ledger and releases, and no cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from acceptd import opening
from acceptd.errors import FleetAwayError
from acceptd.fleet.alone import Alone
from acceptd.fleet.decisions import Decisions
from acceptd.fleet.holding import Watch
from acceptd.fleet.opening import Trusted
from acceptd.fleet.orders import Orders
from acceptd.fleet.promoter import Promoter
from acceptd.fleet.refill import Refill
from acceptd.fleet.sites.node import Node
from acceptd.fleet.sites.wing import Taking
from acceptd.fleet.task import PROMOTER, Cancel, FleetTask
from acceptd.fleet.taskworker import TaskWorker
from acceptd.housekeeping import Releases, guarded, tell
from acceptd.known_rules import KnownRules
from acceptd.promotions import Promotions
from acceptd.record.queue import Submission as Row
from acceptd.release import store
from acceptd.release.book import read_book
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms
from acceptd.retention.service import Retention
from acceptd.sealed_facts import BundleFile, Sealed
from acceptd.steps.finishing import Finishing
from acceptd.steps.lookups import Lookups
from acceptd.steps.promoting import Promoting
from acceptd.steps.recording import Recording
from acceptd.supervisor.pulse import Watched

log = structlog.get_logger("acceptd.fleet")
MOST = 256
"""Submissions that one look goes on with."""
KEPT_HOURS = 7 * 24
"""That the queue keeps tasks whose worker died, or that were cancelled."""
FORGET_SECONDS = 3600.0
SLOTS = 2
"""Decisions at once: the ledger takes one entry at a time anyway."""


class PromoterWing:
    """See :class:`~acceptd.fleet.sites.wing.Wing`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def open(self, stack: ExitStack) -> None:
        """Keep other promoters out, then open everything that signs."""
        node, helm = self._node, self._node.helm
        paths, rules = helm.paths, helm.rules
        self._alone = stack.enter_context(Alone(node.url))
        keys, signer = opening.keys(helm, node.ledger)
        self.notary = opening.notary(helm, stack, node.ledger, signer)
        self._following = opening.following(helm, stack, node.ledger, keys)
        known = KnownRules(node.ledger)
        lookups = Lookups(node.ledger, keys, known)
        promotions = Promotions(paths.state, node.ledger, keys, rules)
        self._releases = Releases(paths.state, rules, node.ledger, keys, promotions, self.notary, helm.beat)
        orders = Orders(
            ledger=node.ledger,
            queue=node.queue,
            tasks=node.tasks,
            objects=node.objects,
            lookups=lookups,
            known=known,
            signer=signer,
            keyring=lambda: keys.keyring,
            rules=rules,
            # Ed25519 is deterministic (RFC 8032): a secret without a file of its own, the embedded daemon's too.
            secret=signer.sign(b"acceptd probe seed v1"),
            most=node.table.rounds,
        )
        recording = Recording(
            node.ledger, node.queue, signer, known, lambda: self.notary.standing, self.notary.nudge, helm.count
        )
        self.promoter = Promoter(
            paths=paths,
            queue=node.queue,
            tasks=node.tasks,
            objects=node.objects,
            decisions=Decisions(orders, Trusted(node.objects), lookups, helm.count),
            recording=recording,
            promoting=Promoting(
                paths,
                node.queue,
                promotions,
                count=helm.count,
                bring=self._bring,
                stored=self._stored,
            ),
            finishing=Finishing(paths, node.ledger, node.queue),
            rules=rules,
            seconds=float(helm.settings.submission_seconds),
            sure=self._sure,
            waits={},
        )
        self._keys = keys
        self._approved: set[str] = set()
        self._forget_due = 0.0
        self._behind: dict[str, int] = {}
        self._retention = Retention(
            paths.state, node.ledger, rules, helm.settings.retention, helm.settings.objects
        )
        stack.callback(self._retention.stop)
        self._refill = Refill(node.ledger.reading, self.promoter.offer)
        self.slots = SLOTS
        self.queues = [PROMOTER]
        self._taking = Taking(
            lambda alone: TaskWorker(
                node.url,
                self.queues,
                self.slots,
                {
                    "order": self._work,
                    "decide": self._work,
                    "given-up": self.promoter.given_up,
                },
                node=node.name,
                former=helm.paths.state / "tasks-promoter" if alone else None,
                watch=Watch(node.table.stalled_seconds),
                settled=lambda task, end: helm.count.task(task.kind, end),
                beat_seconds=node.table.beat_seconds,
                back_off=node.table.retry_seconds,
            )
        )

    def begin(self) -> None:
        """Take up releases that a killed promoter left, then tasks."""
        node, state = self._node, self._node.helm.paths.state
        terms = Terms.of(node.helm.rules().policy)
        tell(reconcile(state, node.ledger, self._keys, terms=terms))
        guarded(self._releases.finish_canaries)
        self.notary.start()
        self._taking.start()
        log.info("promoter", slots=self.slots)

    # -- duties -----------------------------------------------------------------------------------------

    def duties(self) -> list[Callable[[], None]]:
        """Return what is due: releases, and whatever stands still in the record."""
        return [
            self._sure,
            self._releases.keep_releases,
            self.stands_still,
            self.forget_tasks,
            self.keep_approved,
            self._retention.nudge,
        ]

    def _sure(self) -> None:
        """Go on only as the one promoter; end where another came while the record could not be reached."""
        if not self._alone.held():
            words = "another promoter took over while the record could not be reached"
            self._node.helm.end(words)
            raise FleetAwayError(words)

    def stands_still(self) -> None:
        """Do again, or put into the queue again, whatever the record wants done and nobody does."""
        for submission in self._overdue():
            guarded(partial(self.promoter.push, submission), "push")
        self._refill.all()

    def forget_tasks(self) -> None:
        """Let rows of tasks that did not end well go, when nobody reads them any more."""
        if time.monotonic() >= self._forget_due:
            self._forget_due = time.monotonic() + FORGET_SECONDS
            self._node.tasks.forget(KEPT_HOURS)

    def _bring(self, row: Row, sealed: Sealed) -> None:
        self.promoter.bring(row, sealed)

    def _stored(self, sealed: Sealed) -> None:
        self.promoter.stored(sealed)

    def _work(self, task: FleetTask, cancel: Cancel) -> None:
        self.promoter.work(task, cancel)
        self._refill.team(task.team)  # a place became free, perhaps

    def _overdue(self) -> list[str]:
        """Return submissions whose time is over, and those that stand between the verdict and the end."""
        allowed = self._node.helm.settings.submission_seconds
        queue, look = self._node.queue, self._node.table.look_seconds
        found = []
        # Each state for itself, and each look behind the one before: what cannot go on hides nothing else.
        for state in ("judged", "promoted", "claimed", "sealed"):
            late = ("", _ago(look)) if state in {"judged", "promoted"} else (_ago(allowed), "")
            behind = self._behind.get(state, 0)
            ids = queue.standing(
                [state], limit=MOST, behind=behind, received_before=late[0], updated_before=late[1]
            )
            self._behind[state] = behind + MOST if len(ids) == MOST else 0
            found += ids
        return found

    def keep_approved(self) -> None:
        """See that what is current lies in the object store: workers compare with it, whoever approved it."""
        book = read_book(self._node.ledger)
        for model_id, channel in list(book.channels):
            row = book.current(model_id, channel)
            if row is None or row.digest in self._approved:
                continue
            if not self._node.objects.has("approved", row.digest):
                self.promoter.stored(_sealed(self._node.helm.paths.state, row.digest))
            self._approved.add(row.digest)

    # -- the rest of a wing -------------------------------------------------------------------------------

    def reloaded(self) -> None:
        """Look at everything again: what was ordered under other rules is ordered anew."""
        self._node.helm.room()

    def load(self) -> tuple[int, int]:
        """Return how many tasks run."""
        return self._taking.load()

    def remark(self) -> str:
        """Say what waits for the operator."""
        waits = f"{len(self.promoter.waits)} wait for the operator" if self.promoter.waits else ""
        return "; ".join(word for word in (self._taking.remark(), waits) if word)

    def take(self, on: bool, /) -> None:
        """Decide, or leave everything as it stands; releases are kept all the same."""
        self._taking.take(on)

    def room(self) -> None:
        """Put into the queue what it lost or had no place for."""
        self.stands_still()

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more tasks."""
        self._retention.stop()
        self._taking.drain(quiet)

    def cancel(self) -> int:
        """Cancel what runs."""
        return self._taking.cancel()

    def join(self, seconds: float) -> bool:
        """Wait for the worker's thread."""
        return self._taking.join(seconds)

    def end(self) -> None:
        """Write the last checkpoint."""
        self.notary.stop()

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        yield Watched(self.notary.thread, self.notary.turns)
        for thread in self._following.threads:
            yield Watched(thread)
        yield from self._taking.watched()


def _ago(seconds: float) -> str:
    """Return the moment so long ago, as the record writes moments."""
    return datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sealed(state: Path, digest: str) -> Sealed:
    """Return a stored bundle as a sealer would, from the inventory that gives its digest."""
    found = store.inventory(state, digest)
    files = [BundleFile(path=one.path, sha256=one.sha256, size=one.size) for one in found]
    return Sealed(digest=digest, files=files, total_bytes=sum(one.size for one in files))
