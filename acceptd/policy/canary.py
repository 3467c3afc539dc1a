"""When a canary's receipts promote it, and when they roll it back: ``[canary]`` of a policy."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from acceptd.policy.table import Table

Samples = Annotated[int, Field(ge=1, le=5_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class CanaryTable(Table):
    """Limits of one evaluation. A ratio of 0, and a shift of 1, is not looked at."""

    min_samples: Samples = 500
    """Distinct requests of each release, for each model, before anything is promoted."""
    rollback_samples: Samples = 100
    """Distinct requests of the canary before it is rolled back; never more than ``min_samples``."""
    confidence: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95
    """Of every interval that is held against a limit."""
    max_error_rate: Share = 0.01
    max_invalid_rate: Share = 0.01
    """Of outputs that broke the accepted interface."""
    max_timeout_rate: Share = 0.01
    max_increase: Share = 0.01
    """How much higher than the other release's each of these rates may be, and that of refused inputs."""
    latency_p50_ratio: Ratio = 1.25
    latency_p95_ratio: Ratio = 1.5
    latency_p99_ratio: Ratio = 2.0
    latency_slack_ms: Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)] = 1.0
    max_label_shift: Share = 0.1
    """Greatest total variation distance between the labels that both releases give."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.rollback_samples > self.min_samples:
            raise ValueError(f"rollback_samples: {self.rollback_samples} is more than min_samples")
        return self
