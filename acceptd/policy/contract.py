"""The acceptor's own statement about one model (``policies/contracts/<team>/<model>.toml``).

A bundle cannot change it. Whatever it leaves out is not constrained; what it says must agree with
the manifest and with what the runtime reports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.policy.manifest import DimBounds, InputSpec, OutputSpec, Table
from acceptd.policy.names import ModelId, Name, Sha256


class Ceilings(Table):
    """Upper bounds; milliseconds and bytes."""

    load_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    run_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    peak_memory_bytes: Annotated[int, Field(gt=0)] | None = None
    model_bytes: Annotated[int, Field(gt=0)] | None = None


class ContractModel(Table):
    """The interface of one model of the bundle: names, dtypes, dims and labels, in order."""

    name: Name = "main"
    ir_version: int | None = None
    opsets: dict[str, int] | None = None
    inputs: Annotated[list[InputSpec], Field(max_length=4096)]
    outputs: Annotated[list[OutputSpec], Field(max_length=4096)]


class Contract(Table):
    """A whole contract file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    id: ModelId
    version: Annotated[int, Field(ge=1)] = 1
    dims: dict[str, DimBounds] = {}
    models: Annotated[list[ContractModel], Field(min_length=1, max_length=32)]
    preprocessing_sha256: Sha256 | None = None
    label_schema_version: str | None = None
    max_rtol: Annotated[float, Field(ge=0, le=1)] | None = None
    max_atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    ceilings: Ceilings = Ceilings()
