"""What a bundle tells of itself in a verdict's statement: export record, golden sets, fixtures, second exports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.statement.parts import MAX_MODELS, Count, Digest, Line, Number, Part, Word


class Exporter(Part):
    """The program that wrote the file."""

    name: Line
    version: Line


class Checkpoint(Part):
    """The weights before the export."""

    sha256: Digest
    revision: Line | None = None


class DatasetSource(Part):
    """One data set that the weights were made from."""

    name: Line
    revision: Line | None = None
    sha256: Digest | None = None
    terms: Line | None = None


class SourceParity(Part):
    """How the submitter compared the exported model with its source."""

    compared: Line
    result: Literal["passed", "failed"]
    rtol: Number | None = None
    atol: Number | None = None
    samples: Count | None = None
    max_abs: Number | None = None


class Quality(Part):
    """One quality result."""

    metric: Line
    value: Number
    dataset: Line
    slice: Line | None = None


class ExportRecord(Part):
    """``[export]`` of bundle.toml; what it does not say is left out."""

    framework: Line | None = None
    exporter: Exporter | None = None
    checkpoint: Checkpoint | None = None
    code_revision: Line | None = None
    dataset_lineage: Annotated[list[DatasetSource], Field(max_length=256)] = []
    parity: SourceParity | None = None
    tested_hardware: Annotated[list[Line], Field(max_length=64)] = []
    quality: Annotated[list[Quality], Field(max_length=256)] = []
    redistribution: Line | None = None
    layers: Count | None = None


class Declared(Part):
    """What the bundle tells of itself."""

    by: Literal["submitter"]
    license: Line | None
    purpose: Line | None
    prohibited_uses: Annotated[list[Line], Field(max_length=64)]
    export: ExportRecord


class Origin(Part):
    """Golden sets of one declared origin, and what that origin can show."""

    origin: Line
    shows: Word
    sets: Count


class GoldenCounts(Part):
    """How many golden sets of one model show what."""

    model: Word
    parity: Count
    undeclared: Count
    regression: Count
    smoke: Count
    labelled: Count
    origins: Annotated[list[Origin], Field(max_length=4096)]


class SealedFile(Part):
    """A file of the bundle; the digest is None where it is not there."""

    path: Line
    sha256: Digest | None


class Fixture(Part):
    """An example of the preprocessing: a raw input and the golden set that it becomes."""

    raw: Line
    raw_sha256: Digest | None
    set: Line
    model: Word | None
    inputs: Annotated[list[SealedFile], Field(max_length=4096)]


class Goldens(Part):
    """What the golden sets are worth."""

    models: Annotated[list[GoldenCounts], Field(max_length=MAX_MODELS)]
    fixtures: Annotated[list[Fixture], Field(max_length=256)]


class IndependentExport(Part):
    """A second export of a model and how the first relates to it."""

    model: Word
    file: Line
    exporter: Line
    relation: Word
