"""The policy's rules for the independent oracle: onnx's own evaluator beside onnxruntime."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.policy.manifest import Table


class Agreement(Table):
    """``|run - evaluator| <= atol + rtol * |evaluator|``, and the least share of rows with the same top class."""

    rtol: Annotated[float, Field(ge=0, le=1)]
    atol: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    top1: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least share of rows with the same top class."""


class ReferenceTable(Table):
    """Whether models are evaluated by onnx's own evaluator too, what that may cost, and what has to agree."""

    enabled: bool = True
    required: bool = False
    """Whether a verdict needs the job: one that was lost, or that no cell could run, leaves it inconclusive."""
    seconds: Annotated[float, Field(ge=0, le=3600)] = 0.5
    """CPU seconds of the job: it begins no evaluation that would not fit. It is ended after one more."""
    draws: bool = True
    """Whether the draws of ``[probes]`` and the bounds of the domain are evaluated beside the golden sets."""
    max_steps: Annotated[int, Field(ge=0, le=1 << 50)] = 20_000_000
    """Nodes that run, each as often as is certain, and elements below the windows of pooling."""
    max_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 256 << 20
    """Bytes of a model with its external data and of the values that are alive at once, where they are known."""
    default: Agreement = Agreement(rtol=1e-3, atol=1e-4)
    probabilities: Agreement = Agreement(rtol=0.0, atol=1e-4, top1=1.0)
    logits: Agreement = Agreement(rtol=0.0, atol=1e-4, top1=1.0)
