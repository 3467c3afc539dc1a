"""Every metric by name: kind, labels, what it says. docs/metrics.md is generated from this. Pure.

Labels take values of closed sets, and names that the operator made (teams, profiles, channels, exports, hooks).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]
OTHER: Final = "other"
"""The label's value for whatever is in none of the sets below."""

VERDICTS: Final = ("accepted", "rejected", "held", "inconclusive")
STAGES: Final = ("seal", "manifest", "inspect", "vectors", "difference", "run", "compare", "heldout", "judge")
ENDINGS: Final = ("refused", "limit", "crash", "violation", "lost", "unavailable")
JOBS: Final = ("unpack", "manifest", "inspect", "vectors", "run", "reference")
CAUSES: Final = (
    *("wall", "cpu", "memory", "output", "stderr", "protocol", "cancelled", "parent"),
    *("SIGABRT", "SIGSEGV", "SIGFPE", "SIGBUS", "SIGILL", "SIGSYS", "SIGTRAP"),
)
RESTARTS: Final = (
    *("jobs", "crash", "violation", "lost", "silent", "threads", "memory", "children", "sealed", "closed"),
)
TASKS: Final = ("order", "examine", "decide", "finish", "given-up")
OUTCOMES: Final = ("done", "inconclusive", "away", "failed", "stop", "deadline", "withdrawn", "lost")
"""How a task of a fleet ended at a node (acceptd.fleet.taskworker)."""
STATUSES: Final = ("up", "draining", "drained", "late", "gone")
ROLES: Final = ("intake", "worker", "promoter", "all")
OBJECT_CALLS: Final = ("look", "create", "read", "replace", "list", "remove")
REFUSALS: Final = (
    *("malformed", "size", "unsigned", "bad-signature", "unknown-key", "role", "node", "revoked", "expired"),
    *("submission", "round", "bundle", "policy", "profile", "seed", "heldout", "order", "contract"),
    *("wall-missing", "stale", "contradiction", "digest", "disagree"),
)
"""Why what another node handed over did not count: the stable word of FleetTrustError."""
QUICK: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""Upper bounds of the histograms, in seconds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as it is exposed. A counter's name ends in ``_total``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


METRICS: Final = (
    Metric("acceptd_up", "gauge", "1 while every thread that matters lives and moves, else 0"),
    Metric("acceptd_started_seconds", "gauge", "when this daemon was ready, as a Unix time"),
    Metric("acceptd_queue_waiting", "gauge", "submissions that wait in memory", ("profile", "team")),
    Metric("acceptd_queue_limit", "gauge", "how many may wait in memory"),
    Metric("acceptd_submissions", "gauge", "submissions in the database", ("state",)),
    Metric("acceptd_leases", "gauge", "leases that hold a part of the machine", ("state",)),
    Metric("acceptd_budget_cores", "gauge", "cores of the budget", ("what",)),
    Metric("acceptd_budget_memory_bytes", "gauge", "memory of the budget", ("what",)),
    Metric("acceptd_given_up_total", "counter", "leases that were given up", ("reason",)),
    Metric("acceptd_intake_paused", "gauge", "1 while the disk is nearly full and nothing is claimed"),
    Metric("acceptd_disk_free_bytes", "gauge", "free on the file system of the state"),
    Metric("acceptd_verdicts_total", "counter", "verdicts", ("verdict",)),
    Metric("acceptd_findings_total", "counter", "findings of verdicts", ("code", "severity")),
    Metric("acceptd_stage_seconds", "histogram", "time of one stage of one submission", ("stage",)),
    Metric("acceptd_drop_to_verdict_seconds", "histogram", "from the claim of a drop to its verdict"),
    Metric("acceptd_drop_to_promoted_seconds", "histogram", "from the claim of a drop to its release"),
    Metric(
        "acceptd_jobs_ended_badly_total",
        "counter",
        "jobs that did not end by themselves",
        ("job", "ending", "cause"),
    ),
    Metric("acceptd_cell_restarts_total", "counter", "warm parents that were replaced", ("reason",)),
    Metric("acceptd_ledger_entries", "gauge", "entries of the ledger"),
    Metric("acceptd_ledger_bytes", "gauge", "the ledger's database and its write-ahead log"),
    Metric("acceptd_checkpoint_age_seconds", "gauge", "since the newest checkpoint was written"),
    Metric("acceptd_checkpoint_behind_entries", "gauge", "entries that no checkpoint covers yet"),
    Metric("acceptd_anchor_configured", "gauge", "1 where checkpoint.anchor names a place"),
    Metric("acceptd_anchor_reached", "gauge", "1 while that place takes checkpoints"),
    Metric("acceptd_channel_models", "gauge", "models that are current", ("channel",)),
    Metric("acceptd_channel_releases", "gauge", "releases that were ever made current", ("channel",)),
    Metric(
        "acceptd_channel_last_release_seconds",
        "gauge",
        "when the newest was made current, as a Unix time",
        ("channel",),
    ),
    Metric("acceptd_revocations", "gauge", "digests on the revocation list"),
    Metric("acceptd_revocations_age_seconds", "gauge", "since revocations.json was written"),
    Metric("acceptd_export_runs_total", "counter", "exports that were brought in line", ("name", "result")),
    Metric("acceptd_hook_runs_total", "counter", "hooks that were told of an event", ("name", "result")),
    Metric("acceptd_policy_reloads_total", "counter", "policies read anew", ("result",)),
    Metric("acceptd_submission_failures_total", "counter", "submissions that acceptd itself could not go on with"),
    Metric("acceptd_node", "gauge", "1: which node of a fleet this is", ("node", "role")),
    Metric("acceptd_node_running", "gauge", "tasks of the fleet that run at this node"),
    Metric("acceptd_node_draining", "gauge", "1 while this node takes no work because the operator said so"),
    Metric("acceptd_node_silent_seconds", "gauge", "since the record last took a heartbeat of this node"),
    Metric("acceptd_tasks_total", "counter", "tasks of the fleet that ended at this node", ("task", "outcome")),
    Metric("acceptd_evidence_refused_total", "counter", "evidence of other nodes that did not count", ("cause",)),
    Metric("acceptd_bundle_cache_total", "counter", "bundles that a task needed", ("found",)),
    Metric("acceptd_bundle_cache_bytes", "gauge", "bytes of bundles that are kept here"),
    Metric("acceptd_object_seconds", "histogram", "time of one call of the object store", ("call",)),
    Metric("acceptd_object_failures_total", "counter", "calls of the object store that failed", ("call",)),
    Metric("acceptd_fleet_nodes", "gauge", "nodes of the fleet, as the promoter sees them", ("role", "status")),
    Metric(
        "acceptd_fleet_seen_seconds", "gauge", "since a node was seen, by the record's clock", ("node", "role")
    ),
    Metric("acceptd_fleet_queue_waiting", "gauge", "tasks that wait", ("queue",)),
    Metric("acceptd_fleet_queue_running", "gauge", "tasks that run", ("queue",)),
    Metric("acceptd_fleet_queue_oldest_seconds", "gauge", "age of what waits longest", ("queue",)),
    Metric("acceptd_fleet_stalled", "gauge", "tasks that run at a node which is not heard of", ("queue",)),
    Metric("acceptd_fleet_troubles", "gauge", "what `acceptd fleet status` says is wrong"),
)
BY_NAME: Final[Mapping[str, Metric]] = {one.name: one for one in METRICS}


def known(value: str, among: tuple[str, ...]) -> str:
    """Return ``value`` where it is one of a closed set, else ``other``: what a job says names no series."""
    return value if value in among else OTHER
