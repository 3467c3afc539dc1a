"""What the comparer is asked to do, as frozen models. Values lie in files that travel beside as descriptors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.statistics_facts import Against as Against
from acceptd.values import Evidence, Problem, ValueRef

Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bound = Annotated[float, Field(allow_inf_nan=False)]
Kind = Literal["values", "logits", "probabilities", "embedding", "boxes", "sequence", "audio"]


class Slice(Evidence):
    """A value in one of the task's files, by the file's key."""

    file: Annotated[str, Field(max_length=256)]
    value: ValueRef


class Companion(Evidence):
    """Scores or classes of boxes: an output of its own, one row for each box. It gets a row of statistics too."""

    output: str
    expected: Slice
    got: Slice | None
    rtol: Tolerance = 0.0
    atol: Tolerance = 0.0


class How(Evidence):
    """What a kind needs to know for its figures; the fields of other kinds are not looked at."""

    top_k: Annotated[int, Field(ge=1, le=1000)] = 1
    sum_error: Annotated[float, Field(ge=0, le=1)] = 1e-4
    """A row's sum may be so far from 1."""
    neighbours: Annotated[int, Field(ge=1, le=100)] = 10
    columns: Annotated[list[str], Field(max_length=64)] = ["x1", "y1", "x2", "y2"]
    min_iou: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Boxes of one class that overlap so far are matched before others."""
    scores: Companion | None = None
    classes: Companion | None = None
    end: int | None = None
    ignore_after_end: bool = False


class Pair(Evidence):
    """One output to be compared. ``got`` None: the run gave no such output. A probe's stands against itself.

    ``kind`` says what rows along the last axis mean, and which part of ``OutputStats`` is filled in.
    """

    set: str
    model: str
    output: str
    against: Against
    expected: Slice
    got: Slice | None
    rtol: Tolerance
    atol: Tolerance
    kind: Kind = "values"
    how: How = How()
    labels: bool = False
    """Whether rows are counted by class."""
    order: Annotated[list[int], Field(max_length=65536)] | None = None
    """For each column of ``expected`` the column of ``got`` with the same label; None where they are the same."""


class Sample(Evidence):
    """One output of one inference. ``inputs`` None: a probe, known by its name ``key`` (``probe:zeros``)."""

    key: str
    inputs: list[Slice] | None
    output: Slice


class Group(Evidence):
    """All samples of one output: is it the same over all different inputs?"""

    model: str
    output: str
    samples: Annotated[list[Sample], Field(max_length=64)]


class Bounded(Evidence):
    """One golden input, and the range that its manifest declares, both ends included."""

    set: str
    model: str
    input: str
    value: Slice
    low: Bound
    high: Bound


class Labelled(Evidence):
    """One output of one set on rows whose true class is known. ``got`` None: the run gave no such output."""

    set: str
    model: str
    output: str
    kind: Kind
    got: Slice | None
    labels: Slice
    slices: Slice | None = None


class CompareTask(Evidence):
    """One request. ``problems`` were found while pairing and are handed through to the statistics."""

    pairs: list[Pair] = []
    groups: list[Group] = []
    inputs: list[Bounded] = []
    labelled: list[Labelled] = []
    problems: list[Problem] = []
