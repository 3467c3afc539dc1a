"""The export record, ``[export]`` of ``bundle.toml``: where a model comes from, as the submitter tells it.

None of it is measured here. It is kept, signed and shown as the submitter's word, and a policy may say
which fields have to be there (``export.required``).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from acceptd.policy.names import Sha256
from acceptd.policy.table import Short, Table, Text

Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(allow_inf_nan=False, ge=0)]
ExportField = Literal[
    "framework", "exporter", "checkpoint", "code_revision", "dataset_lineage", "parity", "tested_hardware",
    "quality", "redistribution", "layers",
]  # fmt: skip
EXPORT_FIELDS: Final[tuple[ExportField, ...]] = get_args(ExportField)


class Exporter(Table):
    """The program that wrote the ONNX file."""

    name: Short
    """The program."""
    version: Short
    """Its version."""


class Checkpoint(Table):
    """The weights before the export: SHA-256 of the checkpoint file, and its name in the source's own history."""

    sha256: Sha256
    """Of the file."""
    revision: Short | None = None
    """In the source's own history."""


class DatasetSource(Table):
    """One data set that the weights were made from."""

    name: Short
    """What it is called."""
    revision: Short | None = None
    """Which state of it."""
    sha256: Sha256 | None = None
    """Of its files, however the team digests them."""
    terms: Short | None = None
    """Under which it may be used."""


class SourceParity(Table):
    """How the submitter compared the exported model with its source.

    ``compared`` says what with what, ``rtol`` and ``atol`` the tolerance as in ``models.outputs.tolerance``,
    ``samples`` how many inputs, ``max_abs`` the largest absolute difference that was seen.
    """

    compared: Text
    """What was compared with what."""
    result: Literal["passed", "failed"]
    """A failed one holds the bundle."""
    rtol: NotNegative | None = None
    """As ``tolerance.rtol``."""
    atol: NotNegative | None = None
    """As ``tolerance.atol``."""
    samples: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None
    """How many."""
    max_abs: NotNegative | None = None
    """Largest absolute difference that was seen."""


class Quality(Table):
    """One quality result: a metric's value on a data set, or on a named slice of it."""

    metric: Short
    """Its name."""
    value: Finite
    """What was measured."""
    dataset: Short
    """On what."""
    slice: Short | None = None
    """On which part of it."""


class ExportRecord(Table):
    """The whole of ``[export]``. Every field may be left out; the policy says which may not."""

    framework: Short | None = None
    """Training framework and version."""
    exporter: Exporter | None = None
    checkpoint: Checkpoint | None = None
    code_revision: Short | None = None
    """Revision of the training or export code."""
    dataset_lineage: Annotated[list[DatasetSource], Field(max_length=256)] = []
    parity: SourceParity | None = None
    tested_hardware: Annotated[list[Short], Field(max_length=64)] = []
    """Where it was tried."""
    quality: Annotated[list[Quality], Field(max_length=256)] = []
    redistribution: Text | None = None
    """Terms under which the model may be passed on."""
    layers: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Layers of the source model, for the ratio of nodes to layers."""

    def missing(self, required: list[ExportField]) -> list[ExportField]:
        """Return the fields of ``required`` that say nothing, in the record's own order."""
        return [name for name in EXPORT_FIELDS if name in required and getattr(self, name) in (None, [])]
