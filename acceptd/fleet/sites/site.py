"""The work of a daemon that is a node of a fleet: what every node has, and the wings of its roles."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import structlog

from acceptd.fleet.beat import Beat
from acceptd.fleet.look import look
from acceptd.fleet.nodes import Nodes, Told
from acceptd.fleet.settings import Role
from acceptd.fleet.sites.intake import IntakeWing
from acceptd.fleet.sites.machine import Machine
from acceptd.fleet.sites.node import Node
from acceptd.fleet.sites.promoter import PromoterWing
from acceptd.fleet.sites.wing import Wing
from acceptd.fleet.sites.worker import WorkerWing, served
from acceptd.fleet.storewatch import StoreWatch
from acceptd.housekeeping import guarded
from acceptd.judge.profiles import Target
from acceptd.record.node_key import node_signer
from acceptd.rules import Rules
from acceptd.site import Helm
from acceptd.supervisor.pulse import Pulse, Watched

log = structlog.get_logger("acceptd.fleet")


class FleetSite:
    """One node. See :class:`acceptd.site.Site`."""

    def __init__(self, helm: Helm, role: Role) -> None:
        self._helm = helm
        self._role = role
        self._machine: Machine | None = None
        self._wings: list[Wing] = []
        self._node: Node | None = None
        self._beat: Beat | None = None
        self._store: StoreWatch | None = None
        self._drained = False

    # -- start ----------------------------------------------------------------------------------------

    def open(self, stack: ExitStack) -> None:
        """Open what the roles need, and nothing else."""
        helm, role = self._helm, self._role
        node = self._node = Node.open(helm, role, stack)
        if role != "promoter":
            self._machine = Machine(helm, self._runs)
            self._machine.open(stack)
        wings: list[Wing] = []
        if role in {"promoter", "all"}:
            wings.append(PromoterWing(node))
        if self._machine is not None and role in {"intake", "all"}:
            wings.append(IntakeWing(node, self._machine))
        if self._machine is not None and role in {"worker", "all"}:
            wings.append(WorkerWing(node, self._machine))
        for wing in wings:
            wing.open(stack)
            self._wings.append(wing)
        self._beat = Beat(Nodes(node.ledger), self._told, self._drain_asked, on_outdated=helm.end, url=node.url)
        stack.callback(self._beat.stop)
        self._store = StoreWatch(node.objects.remote, self._beat.nudge)
        stack.callback(self._store.stop)

    def _runs(self, rules: Rules) -> list[Target]:
        """Return the profiles that jobs are run under here."""
        assert self._node is not None
        if self._role == "intake":
            return []
        key_id = node_signer(self._helm.paths.state).key_id
        return served(rules, self._node.table.queues, self._node.name, key_id)

    def begin(self) -> None:
        """Start the machine, then the wings, then say that the node is there."""
        if self._machine is not None:
            self._machine.begin()
        for wing in self._wings:
            wing.begin()
        assert self._beat is not None
        self._beat.start()
        assert self._store is not None
        self._store.start()
        self.room()

    def shown(self, pulse: Pulse) -> AbstractContextManager[None]:
        """Show figures meanwhile: of a promoter also how the whole fleet stands."""
        node, beat = self._node, self._beat
        assert node is not None
        assert beat is not None
        if not self._helm.settings.metrics.shown:
            return contextlib.nullcontext()
        from acceptd.metrics.node import NodeShown  # with the library for it

        worker = next((wing for wing in self._wings if isinstance(wing, WorkerWing)), None)
        promoter = next((wing for wing in self._wings if isinstance(wing, PromoterWing)), None)
        return self._helm.count.shown_node(
            NodeShown(
                self._helm.paths,
                pulse,
                node.name,
                node.role,
                running=lambda: self.load()[0],
                silent=beat.silent_for,
                draining=lambda: self._drained,
                cache_bytes=None if worker is None else lambda: worker.cache.size,
                fleet=None if promoter is None else lambda: look(node.ledger),
                ledger=None if promoter is None else node.ledger,
                notary=None if promoter is None else promoter.notary,
            )
        )

    # -- while running ----------------------------------------------------------------------------------

    def _told(self) -> Told:
        """Return what the node says of itself at a heartbeat."""
        node, rules = self._node, self._helm.rules()
        assert node is not None
        running, _ = self.load()
        return Told(
            name=node.name,
            role=node.role,
            host=node.host,
            key_id=next((wing.key_id for wing in self._wings if isinstance(wing, IntakeWing | WorkerWing)), ""),
            queues=tuple(queue for wing in self._wings for queue in wing.queues),
            slots=sum(wing.slots for wing in self._wings),
            running=running,
            taking=not self._drained,
            policy=rules.policy_digest,
            profiles={one.profile.name: one.digest for one in rules.targets},
            standing="; ".join(word for word in (self._away(), node.warning, *self._remarks()) if word),
        )

    def _drain_asked(self, draining: bool) -> None:
        self._drained = draining
        for wing in self._wings:
            wing.take(not draining)

    def duties(self) -> None:
        """Do one duty after the other."""
        for wing in self._wings:
            for duty in wing.duties():
                guarded(duty)
                self._helm.beat()

    def room(self) -> None:
        """Look for what stands still."""
        for wing in self._wings:
            guarded(wing.room)

    def allow(self, fresh: Rules) -> None:
        """Ask machine and wings."""
        if self._machine is not None:
            self._machine.allow(fresh)

    def reloaded(self) -> None:
        """Tell the wings, and everybody else at the next beat."""
        for wing in self._wings:
            wing.reloaded()
        if self._beat is not None:
            self._beat.nudge()

    def load(self) -> tuple[int, int]:
        """Return how much runs here, and how much waits here."""
        wings = [wing.load() for wing in self._wings if not isinstance(wing, WorkerWing)]
        running, waiting = sum(one for one, _ in wings), sum(two for _, two in wings)
        if self._machine is not None:
            running, waiting = running + self._machine.workers.active, waiting + self._machine.workers.depth
        return running, waiting

    def remark(self) -> str:
        """Return what is unusual."""
        words = ["drained by the operator"] if self._drained else []
        return "; ".join(word for word in (*words, self._away(), *self._remarks()) if word)

    def _remarks(self) -> Iterator[str]:
        return (wing.remark() for wing in self._wings)

    def _away(self) -> str:
        return "" if self._store is None else self._store.remark()

    # -- stop -------------------------------------------------------------------------------------------

    def drain(self, quiet: Callable[[], None]) -> None:
        """Take no more; ``quiet`` once every wing is, and the machine after them."""
        left, lock = [len(self._wings)], threading.Lock()

        def one() -> None:
            with lock:
                left[0] -= 1
                last = not left[0]
            if not last:
                return
            if self._machine is None:
                quiet()
            else:
                self._machine.workers.drain(quiet)

        for wing in self._wings:
            wing.drain(one)

    def cancel(self) -> int:
        """Cancel what runs."""
        if self._machine is not None:
            self._machine.workers.drain()
            self._machine.workers.cancel("stop")
        return sum(wing.cancel() for wing in self._wings)

    def join(self, seconds: float) -> bool:
        """Wait for wings and machine."""
        due = time.monotonic() + seconds
        done = [wing.join(max(0.0, due - time.monotonic())) for wing in self._wings]
        return all(done) and (
            self._machine is None or self._machine.workers.join(max(0.0, due - time.monotonic()))
        )

    def end(self) -> None:
        """Say the last words."""
        if self._machine is not None:
            self._machine.journal.stop()
        for wing in self._wings:
            wing.end()
        if self._store is not None:
            self._store.stop()
        if self._beat is not None:
            self._beat.stop()

    def watched(self) -> Iterator[Watched]:
        """Yield the threads that must live."""
        if self._machine is not None:
            yield from self._machine.watched()
        for wing in self._wings:
            yield from wing.watched()
        if self._beat is not None and self._beat.thread.ident is not None:
            yield Watched(self._beat.thread, self._beat.turns)
