"""What one node of a fleet shows whenever somebody asks; of a promoter also the ledger and the whole fleet."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import structlog
from prometheus_client.registry import Collector

from acceptd.config import Paths
from acceptd.errors import AcceptdError
from acceptd.fleet.standing import Facts, troubles
from acceptd.metrics.catalogue import ROLES, known
from acceptd.metrics.look import Family, Look, _many, _one
from acceptd.record.log import Ledger
from acceptd.record.notary import Notary
from acceptd.supervisor.pulse import Pulse

log = structlog.get_logger("acceptd.metrics")


@dataclass(frozen=True, slots=True)
class NodeShown:
    """A running node. ``fleet`` reads how all stand; it, ``ledger`` and ``notary`` are the promoter's alone."""

    paths: Paths
    pulse: Pulse
    name: str
    role: str
    running: Callable[[], int]
    silent: Callable[[], float]
    draining: Callable[[], bool]
    cache_bytes: Callable[[], int] | None = None
    fleet: Callable[[], Facts] | None = None
    ledger: Ledger | None = None
    notary: Notary | None = None


class NodeLook(Collector):
    """Reads a running node. What fails shows nothing, and is a line of the log."""

    def __init__(self, node: NodeShown, started: float) -> None:
        self._node, self._started = node, started
        rooms: Any = SimpleNamespace(ledger=node.ledger, notary=node.notary)
        house: Any = None
        groups = ("ledger", "releases", "follow") if node.ledger is not None and node.notary is not None else ()
        self._record = Look(node.paths, rooms, house, node.pulse, started, groups=groups)

    def collect(self) -> Iterator[Family]:
        """Yield what can be read now."""
        for group in (self._own, self._fleet):
            try:
                yield from list(group())
            except (AcceptdError, OSError, ValueError) as error:
                log.warning("not measured", what=group.__name__.strip("_"), error=str(error))
        yield from self._record.collect()

    def _own(self) -> Iterator[Family]:
        node = self._node
        yield _one("acceptd_up", float(not node.pulse.trouble))
        yield _one("acceptd_started_seconds", self._started)
        yield _one("acceptd_disk_free_bytes", shutil.disk_usage(node.paths.state).free)
        yield _many("acceptd_node", {(node.name, known(node.role, ROLES)): 1.0})
        yield _one("acceptd_node_running", node.running())
        yield _one("acceptd_node_draining", float(node.draining()))
        yield _one("acceptd_node_silent_seconds", node.silent())
        if node.cache_bytes is not None:
            yield _one("acceptd_bundle_cache_bytes", node.cache_bytes())

    def _fleet(self) -> Iterator[Family]:
        if self._node.fleet is None:
            return
        facts = self._node.fleet()
        statuses: Counter[tuple[str, ...]] = Counter(
            (known(node.told.role, ROLES), node.status) for node in facts.nodes
        )
        yield _many("acceptd_fleet_nodes", statuses)
        seen = [node for node in facts.nodes if not node.stopped and node.age != float("inf")]
        yield _many(
            "acceptd_fleet_seen_seconds", {(shown(one.name), known(one.told.role, ROLES)): one.age for one in seen}
        )
        queues = {shown(name): depth for name, depth in facts.queues.items()}
        yield _many("acceptd_fleet_queue_waiting", {(name,): one.waiting for name, one in queues.items()})
        yield _many("acceptd_fleet_queue_running", {(name,): one.running for name, one in queues.items()})
        yield _many(
            "acceptd_fleet_queue_oldest_seconds", {(name,): one.oldest or 0.0 for name, one in queues.items()}
        )
        yield _many("acceptd_fleet_stalled", {(name,): one.stalled for name, one in queues.items()})
        yield _one("acceptd_fleet_troubles", len(troubles(facts)))


def shown(name: str) -> str:
    """Return a name of another node's, as a label: one that breaks the rules of names opens no series."""
    plain = name.isascii() and len(name) <= 72 and all(one.isalnum() or one in "-_:." for one in name)
    return name if plain and name else "other"
