"""Codes of speed and placement, with their reasons."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import CHEAPER, SETS
from acceptd.judge.catalogue.reasons_files import Reasons

_DETOUR: Final = "The numbers are right, and the latency, the copies and the memory are those of another plan."

TABLE: Final[Table] = {
    "performance/first-run-ceiling": Code(
        "reject",
        "team",
        "The first inference of a session took longer than the contract's ceiling, in two jobs, the second "
        "alone on a quiet machine.",
        "Make the model's start cheaper (fewer nodes, folded constants, external data instead of one large "
        "file), or agree on another ceiling with the acceptor.",
    ),
    "performance/impossible": Code(
        "hold",
        "reviewer",
        "A job told of inferences that together took longer than the job itself.",
        "Look at the run: its timings are not true, and the job may be taken over.",
    ),
    "performance/kernel-ceiling": Code(
        "reject",
        "team",
        "The median inference took more calibration kernels than agreed, in two jobs, beyond chance.",
        CHEAPER,
    ),
    "performance/latency-ceiling": Code(
        "reject",
        "team",
        "A quantile of the warm inferences is above the contract's ceiling, in two jobs, beyond chance, the "
        "second alone on a quiet machine.",
        CHEAPER,
    ),
    "performance/unclear": Code(
        "hold",
        "team",
        "A ceiling on time looks broken, and it is not proved: the machine was busy, the samples are too few, or "
        "the excess does not stand out from the noise.",
        "Operator: submit again on a quiet machine, or raise performance.judged_samples and judged_seconds.",
    ),
    "performance/unmeasured": Code(
        "hold",
        "team",
        "The contract has a ceiling on time, and nothing was measured that it could be held against.",
        f"Add a golden set that runs ({SETS}); operator: raise performance.judged_seconds for a slow model.",
    ),
    "placement/cpu-fallback": Code(
        "info",
        "team",
        "Nodes ran on the CPU because the asked-for provider did not take them; the profile permits that.",
        "Nothing to do.",
    ),
    "placement/cpu-operator": Code(
        "reject",
        "team",
        "An operator ran on the CPU under a profile that asks for another provider, and it is not one of those "
        "that may.",
        "Export with an operator that the provider takes; operator: cpu_operators of the profile or the policy.",
    ),
    "placement/more-partitions": Code(
        "reject",
        "team",
        "The execution passes from provider to provider more often than in the current release.",
        "Find the operator at the new boundary in the report, and export so that the provider takes it.",
    ),
    "placement/new-cpu-island": Code(
        "reject",
        "team",
        "Operators run on the CPU that the current release has on its accelerator, or in one more place.",
        "Export with operators that the provider takes.",
    ),
    "placement/not-compared": Code(
        "hold",
        "team",
        "The partitions of the current release or of this model are not known, so nobody knows whether there are "
        "more of them.",
        "Operator: set placement.profiled_runs, and look at the placement of both.",
    ),
    "placement/not-profiled": Code(
        "info",
        "team",
        "The run under onnxruntime's profiler did not come to its end; shares and partitions are not known.",
        "Nothing to do, unless the placement cannot be compared for it.",
    ),
    "placement/provider-mismatch": Code(
        "reject",
        "team",
        "Nodes ran on an execution provider that was not asked for.",
        "Use a model that the provider can run whole, or a profile that permits the fallback.",
    ),
    "placement/provider-unused": Code(
        "hold",
        "team",
        "No node ran on the asked-for execution provider: a run that fell back never satisfies its profile.",
        "Use a model that the provider supports, or the CPU profile.",
    ),
    "placement/unknown": Code(
        "info",
        "team",
        "The runtime did not say which provider ran which node.",
        "Nothing to do.",
    ),
}

REASONS: Final[Reasons] = {
    "performance/first-run-ceiling": (
        "The first request after each start waits for it, and health checks time out.",
        ("CWE-400",),
    ),
    "performance/impossible": (
        "Who can make a job say anything can make a slow model look fast.",
        ("CWE-345",),
    ),
    "performance/kernel-ceiling": (
        "Answers that come too late are useless, and waiting callers pile up.",
        ("CWE-400", "arXiv:2006.03463"),
    ),
    "performance/latency-ceiling": (
        "Answers that come too late are useless, and waiting callers pile up.",
        ("CWE-400", "arXiv:2006.03463"),
    ),
    "placement/cpu-fallback": (
        "Speed and rounding are not those of the target alone.",
        ("ORT execution providers",),
    ),
    "placement/cpu-operator": (
        "Each detour over the CPU copies its tensors twice and waits for both.",
        ("ORT execution providers",),
    ),
    "placement/more-partitions": (_DETOUR, ("ORT execution providers",)),
    "placement/new-cpu-island": (_DETOUR, ("ORT execution providers",)),
    "placement/not-compared": ("What was not measured must never count as passed.", ("CWE-754",)),
    "placement/not-profiled": ("It stays open where the time goes.", ("ORT execution providers",)),
    "placement/provider-mismatch": (
        "Answers came from other kernels than production uses, or data left for a device nobody named.",
        ("ORT execution providers",),
    ),
    "placement/provider-unused": ("The test says nothing about the target.", ("ORT execution providers",)),
    "placement/unknown": ("It stays open whose kernels were tested.", ("ORT execution providers",)),
    "performance/unclear": ("A verdict that a busy machine can turn is no verdict.", ("CWE-400",)),
    "performance/unmeasured": ("What was not measured must never count as passed.", ("CWE-754",)),
}
