"""The policy's tables on speed and on placement. Every key has its comment in ``policies/default.toml``."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from acceptd.policy.table import Table

_OPERATOR: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
Samples = Annotated[int, Field(ge=0, le=1000)]
Share = Annotated[float, Field(ge=0, le=1)]


def _operator(value: str) -> str:
    if not _OPERATOR.fullmatch(value):
        raise ValueError(f'{value[:80]!r} is no operator, for example "ai.onnx::Cast"')
    return value


Operator = Annotated[str, AfterValidator(_operator)]
Operators = Annotated[list[Operator], Field(max_length=1024)]


class PerformanceTable(Table):
    """How much a run is timed, and when a ceiling of the contract is taken as broken."""

    samples: Samples = 30
    seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0.005
    judged_samples: Samples = 100
    judged_seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 5.0
    least_samples: Annotated[int, Field(ge=2, le=1000)] = 5
    kernel_samples: Annotated[int, Field(ge=2, le=1000)] = 30
    retry: bool = True
    busy_pressure: Share = 0.1
    busy_steal: Share = 0.02


class PlacementTable(Table):
    """Where a profile asks for more than the CPU: what may run there all the same, and how it is profiled."""

    cpu_operators: Operators | None = None
    """None: not limited by operator."""
    profiled_runs: Annotated[int, Field(ge=0, le=1000)] = 20
    profiled_seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 5.0
