"""The worker's wing: takes examinations from its queues, and hands evidence over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import structlog

from acceptd import opening
from acceptd.fleet.examiner import Examiner
from acceptd.fleet.order import queue_of
from acceptd.fleet.sites.machine import BUNDLES, Machine
from acceptd.fleet.sites.node import Node
from acceptd.fleet.sites.wing import Taking
from acceptd.fleet.taskworker import TaskWorker
from acceptd.judge.profiles import Target
from acceptd.objectstore.cache import BundleCache
from acceptd.record.entry import moment_of
from acceptd.record.node_key import node_signer
from acceptd.rules import Rules
from acceptd.supervisor.pulse import Watched

log = structlog.get_logger("acceptd.fleet")


NOBODYS = "nobody"
"""A queue that nobody fills, for a worker that may take from no other."""


def served(rules: Rules, queues: Sequence[str], name: str, key_id: str) -> list[Target]:
    """Return the profiles that a worker examines under: those that it names, else those it is trusted with."""
    mine = {
        profile
        for one in rules.policy.fleet.trust
        if (one.role, one.name, one.key_id, one.revoked) == ("worker", name, key_id, None)
        for profile in one.profiles
    }
    return [one for one in rules.targets if queue_of(one.profile) in (queues or mine)]


class WorkerWing:
    """See :class:`~acceptd.fleet.sites.wing.Wing`."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self._node = node
        self._machine = machine

    @property
    def queues(self) -> list[str]:
        """The queues that it takes from."""
        node = self._node
        found = served(node.helm.rules(), node.table.queues, node.name, self.key_id)
        return [queue_of(one.profile) for one in found] or [NOBODYS]

    def open(self, stack: ExitStack) -> None:
        """Open the cache of bundles."""
        node, machine, helm = self._node, self._machine, self._node.helm
        machine.bundles.mkdir(mode=0o755, exist_ok=True)
        most = helm.settings.objects.cache_bytes
        cache = self.cache = BundleCache(machine.bundles, node.objects, most, count=helm.count)
        stack.callback(cache.close)
        signer = node_signer(helm.paths.state)
        self.key_id = signer.key_id
        self._examiner = Examiner(
            node=node.name,
            paths=helm.paths,
            ledger=node.ledger,
            queue=node.queue,
            objects=node.objects,
            cache=cache,
            tools=machine.tools,
            workers=machine.workers,
            capacity=machine.capacity,
            rules=helm.rules,
            signer=signer,
            decide=lambda submission, model, team: node.tasks.decide(submission, model, team=team),
            place=BUNDLES,
            deadline=lambda row: opening.deadline(
                float(helm.settings.submission_seconds), moment_of(row.received_at)
            ),
        )
        slots = node.table.slots or helm.settings.workers or machine.capacity.cores
        self.slots = slots
        self._taking = Taking(self._taker)

    def _taker(self, alone: bool, /) -> TaskWorker:
        node, helm = self._node, self._node.helm
        self._from = self.queues
        return TaskWorker(
            node.url,
            self._from,
            self.slots,
            {"examine": self._examiner.examine},
            node=node.name,
            former=helm.paths.state / "tasks-worker" if alone else None,
            settled=lambda task, end: helm.count.task(task.kind, end),
            beat_seconds=node.table.beat_seconds,
            back_off=node.table.retry_seconds,
        )

    def begin(self) -> None:
        """Begin to take tasks."""
        self._taking.start()
        log.info("worker", queues=self._from, slots=self.slots)

    def duties(self) -> list[Callable[[], None]]:
        """There are none: what stands still is the promoter's."""
        return []

    def reloaded(self) -> None:
        """Take from other queues where the policy says so; tasks that waited for these rules come again."""
        if self.queues != self._from:
            log.info("other queues", queues=self.queues)
            self._taking.take(False)
            self._taking.take(True)

    def load(self) -> tuple[int, int]:
        """Return how many examinations run."""
        return self._taking.load()

    def remark(self) -> str:
        """Say where the queue is away."""
        words = (
            "the policy trusts this node with no profile: acceptd fleet enroll prints its lines"
            if self._from == [NOBODYS]
            else ""
        )
        return "; ".join(word for word in (self._taking.remark(), words) if word)

    def take(self, on: bool, /) -> None:
        """Take examinations, or none."""
        self._taking.take(on)

    def room(self) -> None:
        """Tasks come by themselves."""

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more tasks."""
        self._taking.drain(quiet)

    def cancel(self) -> int:
        """Cancel the examinations: they go back into the queue."""
        return self._taking.cancel()

    def join(self, seconds: float) -> bool:
        """Wait for the worker's thread."""
        return self._taking.join(seconds)

    def end(self) -> None:
        """Leave nothing."""

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        return self._taking.watched()
