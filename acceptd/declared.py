"""What a manifest declares about its models' meaning and use: what two releases of one bundle are compared by.

Always taken from a validated manifest, on the trusted side. The texts in it are the submitter's all the same.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.policy.manifest import DimBounds, InputSpec, LabelSchema, Manifest, OutputSpec, Preprocessing
from acceptd.values import Evidence


class DeclaredModel(Evidence):
    """The declared inputs and outputs of one model, with range, kind, labels and tolerance."""

    name: str
    inputs: list[InputSpec] = []
    outputs: list[OutputSpec] = []


class Declared(Evidence):
    """What one bundle declares. ``labels`` is the identity of the label schema, not the labels themselves."""

    models: Annotated[list[DeclaredModel], Field(max_length=32)]
    dims: dict[str, DimBounds] = {}
    preprocessing: Preprocessing | None = None
    labels: LabelSchema | None = None
    license: str | None = None
    purpose: str | None = None
    prohibited_uses: list[str] = []


def declared_by(manifest: Manifest) -> Declared:
    """Return what ``manifest`` declares."""
    return Declared(
        models=[DeclaredModel(name=one.name, inputs=one.inputs, outputs=one.outputs) for one in manifest.models],
        dims=manifest.dims,
        preprocessing=manifest.preprocessing,
        labels=manifest.labels,
        license=manifest.bundle.license,
        purpose=manifest.bundle.purpose,
        prohibited_uses=manifest.bundle.prohibited_uses,
    )
