"""A bundle whose source model is already an optimiser's result for one kind of hardware. Pure.

What is promoted is the source model; what an optimiser makes of it on one machine is an artifact of its own,
with an identity of its own (:mod:`acceptd.loader_optimised`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from acceptd.evidence import Facts, OpUse
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.manifest import ModelSpec

LAYOUTS: Final = frozenset(
    {"com.microsoft.nchwc", "com.microsoft.nhwc", "com.ms.internal.nhwc", "com.microsoft.dml"}
)
"""Domains of operators that onnxruntime's own optimiser puts in for one processor or device, and no exporter."""
COMPILED: Final = frozenset({("com.microsoft", "EPContext")})
"""Nodes that hold, or name a file with, a model compiled by an execution provider."""


def artifacts(model: ModelSpec, facts: Facts) -> Iterator[Finding]:
    """Yield the first place of each kind of hardware-bound operator in a model's facts."""
    for code, found in (
        ("target/compiled-artifact", [use for use in facts.operators if (use.domain, use.op_type) in COMPILED]),
        ("target/optimised-artifact", [use for use in facts.operators if use.domain in LAYOUTS]),
    ):
        if found:
            first = found[0]
            where = f"{model.file}: {first.where}" if first.where else model.file
            shows = {
                "operators": sorted({_name(use) for use in found})[:16],
                "nodes": sum(use.count for use in found),
            }
            yield make(code, "inspect", where, f"{_name(first)} is bound to the machine that made it", shows)


def _name(use: OpUse) -> str:
    return f"{use.domain}::{use.op_type}"
