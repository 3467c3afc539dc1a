"""What is looked at whenever somebody asks: queue, machine, ledger, releases. One that fails shows nothing."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from acceptd.config import Paths
from acceptd.errors import AcceptdError
from acceptd.export import tally
from acceptd.housekeeping import Housekeeping
from acceptd.metrics.catalogue import BY_NAME
from acceptd.record import checkpoint
from acceptd.record.entry import moment_of
from acceptd.record.notary import ANCHORED, UNANCHORED
from acceptd.release.book import read_book
from acceptd.release.layout import REVOCATIONS_FILE
from acceptd.rooms import Rooms
from acceptd.supervisor.pulse import Pulse
from acceptd.work import snapshot
from acceptd.work.admission import Admission
from acceptd.work.budget import Share

Family = GaugeMetricFamily | CounterMetricFamily
Rows = Mapping[tuple[str, ...], float]
log = structlog.get_logger("acceptd.metrics")


@dataclass(eq=False)
class Look(Collector):
    """Reads a running daemon."""

    paths: Paths
    rooms: Rooms
    house: Housekeeping
    pulse: Pulse
    started: float
    clock: Callable[[], float] = time.time
    groups: tuple[str, ...] = ("daemon", "work", "ledger", "releases", "follow")

    def collect(self) -> Iterator[Family]:
        """Yield what can be read now."""
        for name in self.groups:
            group: Callable[[], Iterator[Family]] = getattr(self, f"_{name}")
            try:
                yield from list(group())
            except (AcceptdError, OSError, ValueError) as error:
                log.warning("not measured", what=name, error=str(error))

    def _daemon(self) -> Iterator[Family]:
        yield _one("acceptd_up", float(not self.pulse.trouble))
        yield _one("acceptd_started_seconds", self.started)
        yield _one("acceptd_intake_paused", float(self.house.paused))
        yield _one("acceptd_disk_free_bytes", shutil.disk_usage(self.paths.state).free)

    def _work(self) -> Iterator[Family]:
        waiting, limit, capacity, held, states = self.rooms.workers.look_at(_seen)
        yield _many("acceptd_queue_waiting", waiting)
        yield _one("acceptd_queue_limit", limit)
        yield _many("acceptd_leases", states)
        cores: Rows = {("capacity",): capacity.cores, ("held",): held.cores}
        memory: Rows = {("capacity",): capacity.memory, ("held",): held.memory}
        yield _many("acceptd_budget_cores", cores)
        yield _many("acceptd_budget_memory_bytes", memory)
        yield _many("acceptd_given_up_total", {(why,): n for why, n in self.rooms.journal.given_up().items()})
        yield _many("acceptd_submissions", {(name,): n for name, n in self.rooms.queue.counts().items()})

    def _ledger(self) -> Iterator[Family]:
        size = self.rooms.ledger.tree().size
        yield _one("acceptd_ledger_entries", size)
        yield _one("acceptd_ledger_bytes", self.rooms.ledger.size())
        if sealed := checkpoint.sizes(self.paths.state):
            yield _one("acceptd_checkpoint_behind_entries", max(0, size - sealed[-1]))
            newest = max(one.stat().st_mtime for one in self.paths.checkpoints.iterdir())
            yield _one("acceptd_checkpoint_age_seconds", max(0.0, self.clock() - newest))
        standing = self.rooms.notary.standing
        yield _one("acceptd_anchor_configured", float(standing != UNANCHORED))
        yield _one("acceptd_anchor_reached", float(standing == ANCHORED))

    def _releases(self) -> Iterator[Family]:
        book = read_book(self.rooms.ledger)
        models: Counter[tuple[str, ...]] = Counter()
        made: Counter[tuple[str, ...]] = Counter()
        newest: dict[tuple[str, ...], float] = {}
        for model_id, channel in list(book.channels):
            current = book.current(model_id, channel)
            models[channel,] += current is not None and current.digest not in book.revoked
            for row in book.rows(model_id, channel):
                if row.activated_seq >= 0:
                    made[channel,] += 1
                    newest[channel,] = max(newest.get((channel,), 0.0), moment_of(row.activated_at))
        yield _many("acceptd_channel_models", models)
        yield _many("acceptd_channel_releases", made)
        yield _many("acceptd_channel_last_release_seconds", newest)
        yield _one("acceptd_revocations", len(book.revoked))
        place = self.paths.state / REVOCATIONS_FILE
        if place.exists():
            yield _one("acceptd_revocations_age_seconds", max(0.0, self.clock() - place.stat().st_mtime))

    def _follow(self) -> Iterator[Family]:
        found = tally.read(self.paths.state)
        for kind, metric in (("exports", "acceptd_export_runs_total"), ("hooks", "acceptd_hook_runs_total")):
            rows: dict[tuple[str, ...], float] = {}
            for name, one in found.get(kind, {}).items():
                rows[name, "done"], rows[name, "failed"] = one["done"], one["failures"]
            yield _many(metric, rows)


def _seen(admission: Admission) -> tuple[Rows, int, Share, Share, Rows]:
    """Return what is copied out under the workers' lock."""
    lanes = sorted(admission.queue.lanes().items(), key=lambda item: -item[1])[: snapshot.MOST_LANES]
    waiting: dict[tuple[str, ...], float] = {(profile, team): count for (profile, team), count in lanes}
    states: Counter[tuple[str, ...]] = Counter((lease.state,) for lease in admission.leases.values())
    return waiting, admission.limit, admission.budget.capacity, admission.budget.held, states


def _one(name: str, value: float) -> Family:
    return _many(name, {(): value})


def _many(name: str, rows: Mapping[tuple[str, ...], float]) -> Family:
    """Return one family of the catalogue; KeyError for a name that is not in it."""
    metric = BY_NAME[name]
    kind: Any = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family: Family = kind(name, metric.help, labels=metric.labels)
    _fill(family, rows.items())
    return family


def _fill(family: Family, rows: Iterable[tuple[tuple[str, ...], float]]) -> None:
    for labels, value in rows:
        family.add_metric(list(labels), float(value))
