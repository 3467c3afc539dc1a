"""What a run's order says of timing and profiling, by policy and contract. Pure."""

from __future__ import annotations

from typing import Any

from acceptd.evidence import JobRecord
from acceptd.placement_facts import several_providers
from acceptd.policy.contract import Contract
from acceptd.policy.policy import Policy

SHARE_OF_CPU = 4
"""Timing may take a quarter of the processor time that a run has: it must not be what brings it to its limit."""


def timing_order(policy: Policy, contract: Contract | None, *, judged: bool = False) -> dict[str, Any]:
    """Return the ``timing`` and ``kernel`` keys of a run's spec; empty where nothing is timed.

    Where it is to be ``judged``, or the contract has a ceiling on time, a run is timed long enough for that.
    """
    table = policy.performance
    judged |= contract is not None and contract.ceilings.timed
    samples, seconds = (table.judged_samples, table.judged_seconds) if judged else (table.samples, table.seconds)
    if not samples and not judged:
        return {}
    seconds = min(seconds, policy.limits.run_cpu_seconds / SHARE_OF_CPU)
    order: dict[str, Any] = {"timing": {"samples": samples, "seconds": seconds, "set": ""}}
    if contract is not None and contract.ceilings.p50_kernels is not None:
        order["kernel"] = table.kernel_samples
    return order


def profiling_order(policy: Policy, main: JobRecord | None, *, beside: bool = False) -> dict[str, Any]:
    """Return the ``profiled`` key of a run's spec; empty where one provider holds every node.

    ``beside``: the release is profiled too, so that it is done in any case, and node by node.
    """
    table = policy.placement
    if main is None or main.ending != "done" or not table.profiled_runs:
        return {}
    if not beside and not several_providers(main.placement):
        return {}
    seconds = min(table.profiled_seconds, policy.limits.run_cpu_seconds / SHARE_OF_CPU)
    return {"profiled": {"runs": table.profiled_runs, "seconds": seconds} | ({"named": True} if beside else {})}
