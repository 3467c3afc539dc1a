"""What the daemon counts as it goes: counters and histograms, from nothing at each start."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.registry import Collector

from acceptd.acceptance import Outcome
from acceptd.config import MetricsTable
from acceptd.housekeeping import Housekeeping
from acceptd.judge.codes import CODES
from acceptd.metrics import catalogue
from acceptd.metrics.catalogue import BY_NAME, METRICS, QUICK, known
from acceptd.metrics.counting import Counting
from acceptd.metrics.look import Look
from acceptd.metrics.node import NodeLook, NodeShown
from acceptd.metrics.serve import Exposition
from acceptd.rooms import Rooms
from acceptd.supervisor.pulse import Pulse

_REMEMBERED: Final = 20_000
"""Claims whose moment is kept; a verdict of one that is forgotten is in no histogram."""


class Figures(Counting):
    """The counters of one daemon. Safe from threads; ``clock`` gives seconds."""

    def __init__(self, table: MetricsTable, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._table = table
        self.registry = CollectorRegistry(auto_describe=False)
        self._clock = clock
        self._claims: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        counted = {"acceptd_export_runs_total", "acceptd_hook_runs_total", "acceptd_given_up_total"}
        rows = [one for one in METRICS if one.name not in counted]  # those three are counted elsewhere: `look`
        self._counters = {
            one.name: Counter(one.name, one.help, one.labels, registry=self.registry)
            for one in rows
            if one.kind == "counter"
        }
        self._histograms = {
            one.name: Histogram(one.name, one.help, one.labels, registry=self.registry, buckets=QUICK)
            for one in rows
            if one.kind == "histogram"
        }

    @contextlib.contextmanager
    def shown(self, rooms: Rooms, house: Housekeeping, pulse: Pulse) -> Iterator[None]:
        """Show what is counted and what is looked at, in the file and at the address."""
        with self._exposed(Look(house.paths, rooms, house, pulse, time.time())):
            yield

    @contextlib.contextmanager
    def shown_node(self, node: NodeShown) -> Iterator[None]:
        """Show what is counted here, and how the node stands; of a promoter the ledger and the fleet too."""
        with self._exposed(NodeLook(node, time.time())):
            yield

    @contextlib.contextmanager
    def _exposed(self, look: Collector) -> Iterator[None]:
        self.registry.register(look)
        exposition = Exposition(self._table, self.registry)
        exposition.start()
        try:
            yield
        finally:
            exposition.stop()

    def claimed(self, submission: str) -> None:
        """A drop became ours."""
        with self._lock:
            self._claims[submission] = self._clock()
            while len(self._claims) > _REMEMBERED:
                self._claims.popitem(last=False)

    def judged(self, submission: str, outcome: Outcome) -> None:
        """A verdict is in the ledger."""
        verdict, findings = outcome.judgement.verdict, outcome.judgement.findings
        jobs, timings_ms = outcome.submission.jobs, outcome.timings_ms
        self._count("acceptd_verdicts_total", known(verdict, catalogue.VERDICTS))
        for one in findings:
            self._count("acceptd_findings_total", one.code if one.code in CODES else catalogue.OTHER, one.severity)
        for job in jobs:
            if job.ending != "done":
                kind, cause = known(job.kind, catalogue.JOBS), known(job.cause, catalogue.CAUSES)
                self._count("acceptd_jobs_ended_badly_total", kind, known(job.ending, catalogue.ENDINGS), cause)
        for stage, spent in timings_ms.items():
            name = known(stage, catalogue.STAGES)
            self._histograms["acceptd_stage_seconds"].labels(name).observe(spent / 1000)
        self._since_claim("acceptd_drop_to_verdict_seconds", submission)

    def promoted(self, submission: str) -> None:
        """A verdict has led to a release, before it was recorded as done."""
        self._since_claim("acceptd_drop_to_promoted_seconds", submission)

    def replaced(self, reason: str) -> None:
        """A warm parent was replaced."""
        self._count("acceptd_cell_restarts_total", known(reason.partition(":")[0], catalogue.RESTARTS))

    def reloaded(self, *, accepted: bool) -> None:
        """A policy was read anew."""
        self._count("acceptd_policy_reloads_total", "accepted" if accepted else "refused")

    def failed(self) -> None:
        """acceptd itself could not go on with a submission."""
        self._counters["acceptd_submission_failures_total"].inc()

    def task(self, kind: str, outcome: str) -> None:
        """A task of the fleet ended here."""
        self._count("acceptd_tasks_total", known(kind, catalogue.TASKS), known(outcome, catalogue.OUTCOMES))

    def refused(self, cause: str) -> None:
        """What another node handed over did not count."""
        self._count("acceptd_evidence_refused_total", known(cause, catalogue.REFUSALS))

    def cached(self, *, hit: bool) -> None:
        """A task needed a bundle, which was here or had to be fetched."""
        self._count("acceptd_bundle_cache_total", "here" if hit else "fetched")

    def object_call(self, call: str, seconds: float, *, failed: bool = False) -> None:
        """The object store answered, or failed to."""
        name = known(call, catalogue.OBJECT_CALLS)
        self._histograms["acceptd_object_seconds"].labels(name).observe(seconds)
        if failed:
            self._count("acceptd_object_failures_total", name)

    def _count(self, name: str, *labels: str) -> None:
        assert len(labels) == len(BY_NAME[name].labels)
        self._counters[name].labels(*labels).inc()

    def _since_claim(self, name: str, submission: str) -> None:
        with self._lock:
            since = self._claims.get(submission)
        if since is not None:
            self._histograms[name].observe(self._clock() - since)
