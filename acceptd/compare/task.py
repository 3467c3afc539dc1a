"""What the comparer is asked to do, as frozen models. Values lie in files that travel beside as descriptors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.evidence import Problem
from acceptd.statistics_facts import Against as Against
from acceptd.values import Evidence, ValueRef

Kind = Literal["values", "logits", "probabilities"]


class Slice(Evidence):
    """A value in one of the task's files, by the file's key."""

    file: Annotated[str, Field(max_length=256)]
    value: ValueRef


class Pair(Evidence):
    """One output to be compared. ``got`` None: the run gave no such output. A probe's stands against itself.

    ``kind`` says what rows along the last axis mean: ``logits`` and ``probabilities`` have a top
    class, ``probabilities`` lie in [0, 1] and sum to 1.
    """

    set: str
    model: str
    output: str
    against: Against
    expected: Slice
    got: Slice | None
    rtol: Annotated[float, Field(ge=0)]
    atol: Annotated[float, Field(ge=0)]
    kind: Kind = "values"


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


class CompareTask(Evidence):
    """One request. ``problems`` were found while pairing and are handed through to the statistics."""

    pairs: list[Pair] = []
    groups: list[Group] = []
    problems: list[Problem] = []
