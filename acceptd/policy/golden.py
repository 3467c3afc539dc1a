"""Golden vectors as people write about them: ``[[models.vectors]]``, fixtures, origins that a policy accepts."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.names import BundlePath, Name
from acceptd.policy.table import Short, Table

UNDECLARED: Final = "undeclared"
_BESIDE: Final = re.compile(r"[^/\\\0]{1,200}\.(npy|pb|txt|json)", re.ASCII)


def _beside(*endings: str) -> AfterValidator:
    def valid(value: str) -> str:
        if not _BESIDE.fullmatch(value) or not value.endswith(endings):
            raise ValueError(f"the name of a file beside each set, ending in {' or '.join(endings)}")
        return value

    return AfterValidator(valid)


class VectorsSpec(Table):
    """Golden sets: glob patterns of directories or .npz pairs, and where the expected values come from.

    ``labels`` and ``slices`` name files in the directory of each set: the true class of each row
    (integers), and the name of the slice that it belongs to. ``labelled_output`` says which output the
    labels are about; it may be left out where one output alone is of kind logits or probabilities.
    """

    sets: Annotated[list[BundlePath], Field(min_length=1, max_length=256)]
    """Patterns within the bundle (``*``, ``?``, ``[]``, never across ``/``) of directories or ``.npz`` files."""
    origin: Short = UNDECLARED
    """Where the expected values come from."""
    labels: Annotated[str, _beside(".npy", ".pb")] | None = None
    """File of a set with the true class of each row: ``.npy`` or ``.pb`` of integers."""
    slices: Annotated[str, _beside(".txt", ".json")] | None = None
    """File of a set with the name of the slice of each row."""
    labelled_output: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Which output the labels are about."""

    @model_validator(mode="after")
    def _labelled(self) -> VectorsSpec:
        if self.labels is None and (self.slices is not None or self.labelled_output is not None):
            raise ValueError("slices and labelled_output are about labels, and no labels are named")
        return self


class Fixture(Table):
    """One raw input of the preprocessing, and the golden or smoke set that holds the tensors made of it."""

    raw: BundlePath
    """File with a raw input, within the bundle."""
    set: BundlePath
    """The golden set whose inputs are what preprocessing makes of it."""
    model: Name | None = None
    """May be left out where the bundle has one model."""


AcceptedOrigins = Annotated[list[Short], Field(min_length=1, max_length=64)]
"""Patterns (``*``, ``?``, ``[]``; case ignored) of the origins that a policy accepts."""
