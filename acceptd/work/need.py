"""What a submission needs of the machine under the acceptor's rules, and what the machine has."""

from __future__ import annotations

import os

from acceptd.cell.limits import KINDS, job_limits
from acceptd.config import Settings
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from acceptd.work.budget import NOTHING, Share, require_fit

PARENT_BYTES = 112 << 20
"""Resident set of one warm parent (measured: 101 MiB), which is no job's and stays."""


def machine(settings: Settings) -> Share:
    """Return the budget: the settings' ``cores`` and ``memory_bytes``, or what this host has left now."""
    cores = settings.cores or usable_cores()
    if settings.memory_bytes:
        return Share(cores, settings.memory_bytes)
    parents = (settings.workers or cores) + 1  # one for each worker, and a spare
    return Share(cores, max(0, _available_memory() - parents * PARENT_BYTES))


def usable_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _available_memory() -> int:
    import psutil  # 30 ms, and only a daemon without `memory_bytes` asks

    return int(psutil.virtual_memory().available)


def threads(profile: Profile) -> int:
    """Return how many threads of a run under ``profile`` may run at once.

    Sessions are sequential: the caller and the intra-op pool. The inter-op pool is counted where it is
    the larger, for a runtime that starts it all the same.
    """
    return max(1, profile.intra_op_threads, profile.inter_op_threads)


def job_share(rules: Rules, kind: str, *, mapped: int = 0) -> Share:
    """Return what one job may use: its threads, and the bytes at which it is killed.

    ``mapped`` bytes of external data count: a mapping is private and writable, and what is written to it
    is memory of the job.
    """
    limits = job_limits(kind, rules.policy.limits, mapped_bytes=mapped)
    cores = max(threads(one.profile) for one in rules.targets) if kind == "run" else 1
    return Share(cores, limits.memory_bytes + mapped)


def need(rules: Rules, *, mapped: int = 0, capacity: Share | None = None) -> Share:
    """Return the lease of a submission: the most that any one of its jobs may use.

    ``mapped`` is only bounded by the bundle's size, while clean pages can be dropped: a bundle whose data
    would not fit beside its job takes all memory of ``capacity``, and so runs alone.
    """
    most = NOTHING
    for kind in KINDS:
        share = job_share(rules, kind, mapped=mapped if kind == "run" else 0)
        most = Share(max(most.cores, share.cores), max(most.memory, share.memory))
    if capacity is not None and mapped:
        most = Share(most.cores, max(need(rules).memory, min(most.memory, capacity.memory)))
    return most


def require_room(rules: Rules, capacity: Share) -> None:
    """Raise ConfigError where a submission under these rules could never be admitted here."""
    names = [target.profile.name for target in rules.targets]
    what = f"policy {rules.policy.name} with profile{'s' if len(names) > 1 else ''} {', '.join(names)}"
    require_fit(what, need(rules), capacity)
