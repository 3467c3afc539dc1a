"""What the comparer found out about numbers, as evidence."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.golden_facts import InputStats, QualityStats
from acceptd.kind_facts import Audio, Boxes, Distribution, Embedding, Ranking, Sequence
from acceptd.values import Count, Evidence, Figure, Problem

Against = Literal[
    "golden", "repeat", "unoptimised", "probe", "row", "order", "threads", "fresh", "concurrent", "batch",
    "input", "reference", "prior", "prior-golden", "heldout",
]  # fmt: skip
"""What an output was compared with: the expected value; another inference (repeat, without optimisation, a row
alone, another order of rows, more threads, a fresh process, concurrent calls, after other batch sizes,
one input changed alone); itself
(``probe``: ranges alone); onnx's own evaluator; the current release; the contract's held-out value.
``prior-golden`` is the current release's own output against the golden's expected value."""


class LabelRows(Evidence):
    """Rows that the expected side gives one class, by its column, and how many of them the other side does not."""

    index: Count
    rows: Count
    missed: Count


class Labels(Evidence):
    """Rows by the class that the expected side gives them. Labels beyond the cap are counted as ``other``."""

    rows: Count
    mismatches: Count
    labels: Annotated[list[LabelRows], Field(max_length=256)] = []
    other_rows: Count = 0
    other_missed: Count = 0


class OutputStats(Evidence):
    """Error statistics of one output of one golden set, or of one run against another.

    ``n`` elements compared, ``exceeding`` of them beyond ``atol + rtol * |expected|``. The worst
    element is the one with the largest excess. ``note`` names what could not be compared
    (``dtype``, ``shape``, ``kind``, ``missing``, ``malformed``), then ``n`` is 0 and ``comparable`` false.
    """

    set: str
    model: str
    output: str
    against: Against
    comparable: bool
    note: str = ""
    n: int = 0
    exceeding: int = 0
    max_abs: Figure = 0.0
    max_rel: Figure = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    worst_index: list[int] = []
    worst_expected: str = ""
    worst_got: str = ""
    top1_total: int = 0
    top1_mismatches: int = 0
    range_violations: int = 0
    """Probabilities outside [0, 1], or rows whose sum is further from 1 than the sum's tolerance."""
    non_finite: int = 0
    bit_exact: bool = False
    ranking: Ranking | None = None
    """Of logits and probabilities. This and what follows: None where the kind has no such figures."""
    distribution: Distribution | None = None
    embedding: Embedding | None = None
    boxes: Boxes | None = None
    sequence: Sequence | None = None
    audio: Audio | None = None
    labels: Labels | None = None
    """Against the current release alone, for outputs with classes."""


class Statistics(Evidence):
    """All that the comparer found. ``insensitive`` lists outputs equal over all different inputs."""

    outputs: list[OutputStats] = []
    insensitive: list[str] = []
    problems: list[Problem] = []
    inputs: list[InputStats] = []
    """Golden inputs of a declared range."""
    quality: list[QualityStats] = []
