"""Codes of speed and placement, with their reasons."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Table] = {
    "performance/first-run-ceiling": Code(
        "reject",
        "team",
        "The first inference of a session took longer than the contract's ceiling, in two jobs, the second "
        "alone on a quiet machine.",
        "Make the model's start cheaper, or agree on another ceiling with the acceptor.",
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
        "Make the model cheaper, or agree on another ceiling with the acceptor.",
    ),
    "performance/latency-ceiling": Code(
        "reject",
        "team",
        "A quantile of the warm inferences is above the contract's ceiling, in two jobs, beyond chance, the "
        "second alone on a quiet machine.",
        "Make the model cheaper, or agree on another ceiling with the acceptor.",
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
        "Add a golden set that runs; operator: raise performance.judged_seconds for a slow model.",
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
    "performance/unclear": ("A verdict that a busy machine can turn is no verdict.", ("CWE-400",)),
    "performance/unmeasured": ("What was not measured must never count as passed.", ("CWE-754",)),
}
