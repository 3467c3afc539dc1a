"""What the comparer measures of golden inputs, and of a model's answers on labelled rows, as evidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from acceptd.values import Count, Evidence

MAX_SLICES = 64
MAX_CLASSES = 1024


class InputStats(Evidence):
    """One golden input against its declared range: ``outside`` of ``n`` elements, NaN included.

    ``worst_index`` and ``worst`` are the element furthest outside. ``comparable`` false: it could not be read.
    """

    set: str
    model: str
    input: str
    comparable: bool = True
    n: Count = 0
    outside: Count = 0
    worst_index: list[int] = []
    worst: str = ""


class ClassCount(Evidence):
    """One true class: its rows (``support``), and those of them that the model gave another class."""

    label: Count
    support: Count
    false_negatives: Count


class QualityStats(Evidence):
    """Answers of one output on labelled rows of all sets; ``slice`` None: all rows, else those of one slice.

    ``accuracy``: share of rows whose top class (the lowest index of a tie) is the label. ``calibration_error``:
    expected calibration error over 15 bins of equal width (Guo et al., On Calibration of Modern Neural Networks,
    ICML 2017, eq. 3). ``brier``: mean over rows of the sum over classes of (p - [class is the label])**2 (Brier,
    Verification of Forecasts Expressed in Terms of Probability, 1950, eq. 2), so from 0 to 2. Logits go through
    softmax first. The last two are None where the output gives classes and no probabilities, or a row is no
    probability. ``note`` says what could not be measured; then ``rows`` is 0. ``classes`` lists the first 1024
    true classes that occur.
    """

    model: str
    output: str
    slice: str | None = None
    rows: Count = 0
    accuracy: float | None = None
    calibration_error: float | None = None
    brier: float | None = None
    classes: Annotated[list[ClassCount], Field(max_length=MAX_CLASSES)] = []
    note: str = ""
