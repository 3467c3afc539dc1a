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


def served(rules: Rules, queues: Sequence[str]) -> list[Target]:
    """Return the profiles whose queues a worker takes from; all of them where it names none."""
    return [one for one in rules.targets if not queues or queue_of(one.profile) in queues]


class WorkerWing:
    """See :class:`~acceptd.fleet.sites.wing.Wing`."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self._node = node
        self._machine = machine

    @property
    def queues(self) -> list[str]:
        """The queues that it takes from."""
        wanted = self._node.table.queues
        return wanted or sorted({queue_of(one.profile) for one in self._node.helm.rules().targets})

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
        self._taking = Taking(
            lambda: TaskWorker(
                node.url,
                self.queues,
                slots,
                {"examine": self._examiner.examine},
                node=node.name,
                former=helm.paths.state / "tasks-worker",
                settled=lambda task, end: helm.count.task(task.kind, end),
                beat_seconds=node.table.beat_seconds,
                back_off=node.table.retry_seconds,
            )
        )

    def begin(self) -> None:
        """Begin to take tasks."""
        self._taking.start()
        log.info("worker", node=self._node.name, queues=self.queues, slots=self.slots)

    def duties(self) -> list[Callable[[], None]]:
        """There are none: what stands still is the promoter's."""
        return []

    def reloaded(self) -> None:
        """Tasks that waited for these rules come by themselves."""

    def load(self) -> tuple[int, int]:
        """Return how many examinations run."""
        return self._taking.load()

    def remark(self) -> str:
        """Say where the queue is away."""
        return self._taking.remark()

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
