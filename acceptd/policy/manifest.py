"""The bundle's manifest, ``bundle.toml``, as the submitter's word about the bundle (design, section 4).

The TOML text itself is only ever parsed in the cell; this module validates the JSON data that comes
out of it. The manifest binds nothing that a contract says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from acceptd.errors import ConfigError
from acceptd.policy.export import Exporter, ExportRecord
from acceptd.policy.golden import Fixture as Fixture
from acceptd.policy.golden import VectorsSpec as VectorsSpec
from acceptd.policy.names import BundlePath as BundlePath
from acceptd.policy.names import ModelId, Name, Sha256
from acceptd.policy.quantization import Quantization
from acceptd.policy.table import Short as Short
from acceptd.policy.table import Table as Table
from acceptd.policy.table import Text as Text
from acceptd.policy.tolerance import BoxesSpec, OutputKind, SequenceSpec, foreign
from acceptd.policy.tolerance import Tolerance as Tolerance
from acceptd.policy.troubles import Trouble, first

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "float8e8m0", "float4e2m1", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64", "bool", "string", "complex64", "complex128",
)  # fmt: skip
Dtype = Literal[
    "float32", "float64", "float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "float8e8m0", "float4e2m1", "int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64", "bool", "string", "complex64", "complex128",
]  # fmt: skip
LABEL_VERSION = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)


def _label_version(value: str) -> str:
    if not LABEL_VERSION.fullmatch(value):
        raise ValueError("1 to 32 of A-Z a-z 0-9 . _ - are allowed")
    return value


Dim = Annotated[int, Field(ge=0, le=2**31)] | Annotated[str, Field(min_length=1, max_length=256)]


class DimBounds(Table):
    """Bounds of a named dimension, both included."""

    min: Annotated[int, Field(ge=0, le=2**31)]
    """Least size."""
    max: Annotated[int, Field(ge=0, le=2**31)]
    """Greatest size. Probes run the model at both ends."""

    @model_validator(mode="after")
    def _ordered(self) -> DimBounds:
        if self.min > self.max:
            raise ValueError("min is larger than max")
        return self


KIND_KEYS = {
    "top_k": ("logits", "probabilities"), "neighbours": ("embedding",), "boxes": ("boxes",),
    "sequence": ("sequence",),
}  # fmt: skip
"""Keys of an output that say how its kind is compared."""


class ValueSpec(Table):
    """What inputs and outputs share. ``shape`` is None only in an inferred manifest (rank unknown)."""

    name: Annotated[str, Field(min_length=1, max_length=1024)]
    """The value's name in the graph."""
    type: Literal["tensor", "sequence", "optional", "map"] = "tensor"
    """What the value is; ``dtype`` is then that of its elements."""
    dtype: Dtype
    """Element type, in ONNX's names in lower case."""
    key_dtype: Dtype | None = None
    """Maps: type of the keys."""
    shape: Annotated[list[Dim], Field(max_length=64)] | None = None
    """Numbers, names of ``[dims]``, or ``"?"`` for unknown; left out: the rank is not declared."""


class InputSpec(ValueSpec):
    """One input. ``range`` bounds every element, both ends included."""

    range: (
        Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=2, max_length=2)] | None
    ) = None
    """Least and greatest value of every element, both included. The loader refuses inputs outside."""
    optional: bool = False
    """Whether it may be left out."""


class OutputSpec(ValueSpec):
    """One output."""

    kind: OutputKind = "values"
    """What the output is; it decides how it is compared (docs/parity.md)."""
    labels: Annotated[list[Short], Field(max_length=100_000)] | None = None
    """Names of the last axis, in order."""
    tolerance: Tolerance | None = None
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Logits and probabilities: so many classes of a row are compared as a set beside the first one."""
    neighbours: Annotated[int, Field(ge=1, le=100)] | None = None
    """Embeddings: so many nearest rows of each row are compared."""
    boxes: BoxesSpec | None = None
    sequence: SequenceSpec | None = None

    @model_validator(mode="after")
    def _of_its_kind(self) -> OutputSpec:
        for key, kinds in KIND_KEYS.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                raise ValueError(f"{key} is for kind {' or '.join(kinds)}, and this output is {self.kind}")
        if wrong := foreign(self.kind, self.tolerance):
            raise ValueError(f"tolerance.limits: {wrong}")
        return self


class IndependentExport(Table):
    """A second ONNX file that was exported from the same source by other means: compared, never run or loaded."""

    file: BundlePath
    """Path within the bundle."""
    exporter: Exporter | None = None


class ModelSpec(Table):
    """One model of the bundle."""

    name: Name
    """By which findings, contracts and the loader call the model."""
    file: BundlePath
    """Path within the bundle."""
    ir_version: Annotated[int, Field(ge=1, le=1000)] | None = None
    """The model's own IR version, where it is declared."""
    opsets: Annotated[dict[str, Annotated[int, Field(ge=1, le=10_000)]], Field(max_length=64)] | None = None
    """Operator domain to version, every one that a node uses."""
    inputs: Annotated[list[InputSpec], Field(max_length=4096)] = []
    outputs: Annotated[list[OutputSpec], Field(max_length=4096)] = []
    vectors: Annotated[list[VectorsSpec], Field(max_length=64)] = []
    independent_export: IndependentExport | None = None
    rows_interact: bool = False
    """Rows of one batch influence each other by design: they are not compared alone or in another order."""
    quantization: Quantization | None = None

    @property
    def independent(self) -> ModelSpec | None:
        """The independent export as a model that is inspected and nothing else; its name is no model's name."""
        if self.independent_export is None:
            return None
        name = f"{self.name} (independent export)"
        return ModelSpec.model_construct(name=name, file=self.independent_export.file)

    @property
    def files(self) -> list[str]:
        """The model files: the one that is released, and the independent export where there is one."""
        return [self.file, *([self.independent_export.file] if self.independent_export else [])]

    @model_validator(mode="after")
    def _distinct(self) -> ModelSpec:
        for what, values in (("input", self.inputs), ("output", self.outputs)):
            names = [value.name for value in values]
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"two {what}s have one name, {twice[:60]!r}")
        return self

    @model_validator(mode="after")
    def _companions(self) -> ModelSpec:
        """Scores and classes of boxes are outputs of their own, each of one ``boxes`` output alone."""
        plain = {output.name for output in self.outputs if output.kind == "values"}
        used: list[str] = []
        for output in self.outputs:
            used += [name for name in (output.boxes.scores, output.boxes.classes) if name] if output.boxes else []
        for name in used:
            if name not in plain:
                raise ValueError(f'boxes: {name[:60]!r} is no output of kind "values"')
            if used.count(name) > 1:
                raise ValueError(f"boxes: {name[:60]!r} is named twice")
        return self


class BundleTable(Table):
    """Who and what the bundle is."""

    id: ModelId
    """``<team>/<model>``; the team is the inbox that the drop comes through."""
    version: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]*$")]
    """For people; the digest is the identity. Letters, digits and ``. + _ -``."""
    license: Short | None = None
    """An SPDX expression, where the policy lists licences."""
    purpose: Text | None = None
    """What the model is for."""
    prohibited_uses: Annotated[list[Text], Field(max_length=64)] = []
    """What it may not be used for."""


class Preprocessing(Table):
    """Identity of the preprocessing that the model was made for, and examples of what it makes of raw input."""

    version: Annotated[str, AfterValidator(_label_version)]
    """1 to 32 of ``A-Z a-z 0-9 . _ -``."""
    sha256: Sha256
    """Digest of the code or text that defines it."""
    fixtures: Annotated[list[Fixture], Field(max_length=256)] = []


class LabelSchema(Table):
    """Identity of the label schema."""

    schema_version: Annotated[str, AfterValidator(_label_version)]
    """1 to 32 of ``A-Z a-z 0-9 . _ -``."""


class LockedFile(Table):
    """One line of the optional lock."""

    size: Annotated[int, Field(ge=0, le=1 << 50)]
    """Bytes."""
    sha256: Sha256
    """Of the content, 64 lowercase hexadecimal digits."""


class Manifest(Table):
    """The whole of ``bundle.toml``."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    """Version of this file's form."""
    bundle: BundleTable
    dims: Annotated[dict[str, DimBounds], Field(max_length=256)] = {}
    models: Annotated[list[ModelSpec], Field(min_length=1, max_length=32)]
    preprocessing: Preprocessing | None = None
    labels: LabelSchema | None = None
    export: ExportRecord = ExportRecord()
    quantization: Quantization | None = None
    """Of every model that has no table of its own."""
    files: Annotated[dict[BundlePath, LockedFile], Field(max_length=100_000)] | None = None

    @model_validator(mode="after")
    def _models_distinct(self) -> Manifest:
        for what, values in (
            ("name", [m.name for m in self.models]),
            ("file", [file for m in self.models for file in m.files]),
        ):
            if len(set(values)) != len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise ValueError(f"models: two models have one {what}, {twice[:60]!r}")
        for place, dim in self._named_dims():
            if dim not in self.dims and self.declared:
                raise ValueError(
                    f"{place}: dimension {dim[:60]!r} is not bounded in [dims]: add it, with min and max"
                )
        return self

    def _named_dims(self) -> Iterator[tuple[str, str]]:
        """Yield place and name of every named dimension."""
        for number, model in enumerate(self.models):
            for side, values in (("inputs", model.inputs), ("outputs", model.outputs)):
                for index, value in enumerate(values):
                    for axis, dim in enumerate(value.shape or ()):
                        if isinstance(dim, str) and dim != "?":
                            yield f"models[{number}].{side}[{index}].shape[{axis}]", dim

    @property
    def inspected(self) -> list[ModelSpec]:
        """Every model file that is inspected: the models, and the independent exports of some of them."""
        return [one for model in self.models for one in (model, model.independent) if one is not None]

    @property
    def declared(self) -> bool:
        """Whether a person wrote it; an inferred manifest has the version ``0+inferred``."""
        return self.bundle.version != "0+inferred"


def validated(document: dict[str, Any]) -> Manifest | Trouble:
    """Return the manifest for JSON data out of the cell, or what is wrong with it, with its place."""
    return first(document, Manifest)


def validate(document: dict[str, Any]) -> Manifest:
    """Return the manifest for JSON data out of the cell; raise ConfigError with the place otherwise."""
    found = validated(document)
    if isinstance(found, Trouble):
        raise ConfigError(f"bundle.toml: {found.key or 'the whole'}: {found.message}")
    return found
