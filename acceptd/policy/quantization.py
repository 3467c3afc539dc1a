"""How a model was quantised, ``[quantization]`` of ``bundle.toml``: held against the operators."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.policy.names import Sha256
from acceptd.policy.table import Short, Table

Method = Literal["none", "weight-only", "dynamic", "static", "mixed"]
Format = Literal["none", "qoperator", "qdq", "mixed"]


class Calibration(Table):
    """The samples that fixed the scales of a static quantisation."""

    sha256: Sha256
    """Of the samples."""
    samples: Annotated[int, Field(ge=1, le=2**53 - 1)]
    """How many."""
    dataset: Short | None = None
    """What they were drawn from."""


class Quantization(Table):
    """The whole table. What it leaves out is not compared; ``calibration`` is owed by a static one."""

    method: Method
    """What was done: weights alone, activations scaled as the model runs, or by constants."""
    format: Format | None = None
    """Operators of their own, or QuantizeLinear and DequantizeLinear around others."""
    weight_types: Annotated[list[Short], Field(max_length=32)] | None = None
    """Element types of quantised weights."""
    activation_types: Annotated[list[Short], Field(max_length=32)] | None = None
    """Element types of quantised activations."""
    per_channel: bool | None = None
    """Whether scales differ by channel."""
    tool: Short | None = None
    """Program and version that quantised the model."""
    calibration: Calibration | None = None
