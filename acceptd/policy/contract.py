"""The acceptor's own statement about one model (``policies/contracts/<team>/<model>.toml``).

A bundle cannot change it. Whatever it leaves out is not constrained; what it says must agree with
the manifest and with what the runtime reports.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from acceptd.policy.limits import Bytes
from acceptd.policy.manifest import BundlePath, DimBounds, InputSpec, OutputSpec, Table
from acceptd.policy.names import ModelId, Moment, Name, Sha256
from acceptd.policy.quality import QualityFloor

Bound = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Ceilings(Table):
    """Upper bounds; milliseconds and bytes.

    ``load_ms`` is creating the session, ``first_run_ms`` its first inference, ``run_ms`` the slowest golden set at
    its best run; ``p50_ms``, ``p95_ms`` and ``p99_ms`` are the warm runs of the set with the most bytes of input,
    ``p50_kernels`` their median as a multiple of the calibration kernel's on the same machine.
    """

    load_ms: Bound | None = None
    first_run_ms: Bound | None = None
    run_ms: Bound | None = None
    p50_ms: Bound | None = None
    p95_ms: Bound | None = None
    """As ``p50_ms``, the 95th percentile."""
    p99_ms: Bound | None = None
    """As ``p50_ms``, the 99th percentile."""
    p50_kernels: Bound | None = None
    peak_memory_bytes: Bytes | None = None
    model_bytes: Bytes | None = None

    @property
    def timed(self) -> bool:
        """Whether any ceiling speaks of time, so that the run is timed long enough to judge it."""
        bounds = (
            self.load_ms,
            self.first_run_ms,
            self.run_ms,
            self.p50_ms,
            self.p95_ms,
            self.p99_ms,
            self.p50_kernels,
        )
        return any(bound is not None for bound in bounds)


class VersionRange(Table):
    """A range of IR versions or opsets, both ends included."""

    min: Annotated[int, Field(ge=1, le=10_000)]
    """Least version."""
    max: Annotated[int, Field(ge=1, le=10_000)]
    """Greatest version."""

    @model_validator(mode="after")
    def _ordered(self) -> VersionRange:
        if self.min > self.max:
            raise ValueError("min is larger than max")
        return self


Versions = Annotated[int, Field(ge=1, le=10_000)] | VersionRange
"""One version, or a range of them."""


def fits(agreed: Versions, found: int | None) -> bool:
    """Say whether a version is the agreed one, or within the agreed range; none never is."""
    if isinstance(agreed, VersionRange):
        return found is not None and agreed.min <= found <= agreed.max
    return found == agreed


def version_words(agreed: Versions) -> str:
    """Return an agreed version in words: ``13``, or ``13 to 17``."""
    return f"{agreed.min} to {agreed.max}" if isinstance(agreed, VersionRange) else str(agreed)


class HeldOutSets(Table):
    """Sets that no team sees: patterns within the version whose digest ``acceptd policy heldout add`` printed."""

    sets: Annotated[list[BundlePath], Field(min_length=1, max_length=256)]
    """Patterns within the version."""
    sha256: Sha256
    """Digest of the version."""


class ContractModel(Table):
    """The interface of one model of the bundle: names, dtypes, dims and labels, in order."""

    name: Name = "main"
    """The model's name in the manifest."""
    ir_version: Versions | None = None
    opsets: dict[str, Versions] | None = None
    inputs: Annotated[list[InputSpec], Field(max_length=4096)]
    outputs: Annotated[list[OutputSpec], Field(max_length=4096)]
    heldout: Annotated[list[HeldOutSets], Field(max_length=16)] = []
    quality: Annotated[list[QualityFloor], Field(max_length=4096)] = []
    """What the labelled goldens have to show."""

    @model_validator(mode="after")
    def _floors_meant(self) -> ContractModel:
        names = {output.name for output in self.outputs}
        for number, floor in enumerate(self.quality):
            if floor.output not in names:
                raise ValueError(f"quality[{number}]: no output {floor.output[:60]!r}")
            if floor.label is not None and self.label_index(floor.output, floor.label) is None:
                raise ValueError(f"quality[{number}]: the output has no label {floor.label[:60]!r}")
        return self

    def label_index(self, output: str, label: str) -> int | None:
        """Return the class that a label stands for: by its place among the output's labels, else its number."""
        labels = next((one.labels for one in self.outputs if one.name == output), None)
        if labels is not None:
            return labels.index(label) if label in labels else None
        return int(label) if label.isascii() and label.isdecimal() and len(label) < 10 else None


class Contract(Table):
    """A whole contract file."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    id: ModelId
    version: Annotated[int, Field(ge=1, le=2**31)] = 1
    valid_until: Moment | None = None
    """From then on it holds every bundle until a new version is signed; UTC, RFC 3339, to the second."""
    dims: dict[str, DimBounds] = {}
    models: Annotated[list[ContractModel], Field(min_length=1, max_length=32)]
    preprocessing_sha256: Sha256 | None = None
    label_schema_version: str | None = None
    max_rtol: Annotated[float, Field(ge=0, le=1)] | None = None
    max_atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Greatest ``atol`` that the manifest may declare."""
    ceilings: Ceilings = Ceilings()

    @property
    def holds_out(self) -> bool:
        """Whether any model has held-out sets."""
        return any(model.heldout for model in self.models)
