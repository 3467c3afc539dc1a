"""How a submission is compared with the current release by running both, ``[regression]`` of a policy."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.policy.manifest import Tolerance
from acceptd.policy.table import Table

Share = Annotated[float, Field(ge=0, le=1)]
Ratio = Annotated[float, Field(ge=0.01, le=1e6, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=1 << 50)]


class Limits(Table):
    """How far the outputs of a submission may be from those of the release, and what it may cost beside it.

    ``class_agreement`` and ``within`` are least shares, ``false_negatives`` the most of one label's rows.
    ``values`` None: outputs without classes may differ in any way, and by how much is told.
    """

    class_agreement: Share = 0.9
    false_negatives: Share = 0.5
    values: Tolerance | None = None
    within: Share = 0.99
    latency_ratio: Ratio | None = 1.5
    memory_ratio: Ratio | None = 1.5
    size_ratio: Ratio | None = 2.0


class QuantisedLimits(Limits):
    """The same where the submission is quantised and the release is not: it should be the same model, cheaper.

    ``profiled``: both are run under onnxruntime's profiler, as often as ``[placement]`` says, to name operators.
    """

    profiled: bool = True

    class_agreement: Share = 0.97
    false_negatives: Share = 0.1
    values: Tolerance | None = Tolerance(
        rtol=0.1,
        atol=0.1,
        limits={"min_cosine": 0.98, "min_matched": 0.9, "min_classes": 0.95, "min_snr_db": 20.0},
    )
    latency_ratio: Ratio | None = 1.25
    memory_ratio: Ratio | None = 1.25
    size_ratio: Ratio | None = 1.1


class RegressionTable(Limits):
    """The whole table; ``quantized`` holds the limits of float against few bits."""

    enabled: bool = True
    required: bool = False
    latency_slack_ms: Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)] = 1.0
    timing_rounds: Annotated[int, Field(ge=0, le=8)] = 2
    label_rows: Annotated[int, Field(ge=1, le=1 << 30)] = 4
    memory_slack_bytes: Number = 32 << 20
    size_slack_bytes: Number = 1 << 20
    quantized: QuantisedLimits = QuantisedLimits()

    def limits(self, *, quantised: bool) -> Limits:
        """Return the limits that hold."""
        return self.quantized if quantised else self
