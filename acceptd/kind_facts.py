"""What the comparer found out about one kind of output, beside the elements: a part of ``OutputStats`` each.

docs/parity.md has each formula with its source. A figure that is not finite is a string (``inf``, ``-inf``,
``nan``); one that has no meaning for these values (no row, no neighbour) is None and breaks no limit.
Worst places: the lowest index wins a tie.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from acceptd.values import Count, Evidence, Figure

CLASSES: Final = "classes"
"""``note`` of the row of an output that holds the classes of boxes: other ones count in the boxes' own row."""
Measure = Figure
Brief = Annotated[str, Field(max_length=400)]


class Place(Evidence):
    """Where a figure is at its worst: index of the element, row or box, what was expected there, what was got."""

    index: Annotated[list[Count], Field(max_length=80)] = []
    expected: Brief = ""
    got: Brief = ""


class Ranking(Evidence):
    """Rows of logits or probabilities: the class of rank 1, and the set of the ``k`` highest classes."""

    k: Count = 1
    rows: Count = 0
    top1_mismatches: Count = 0
    topk_mismatches: Count = 0
    top1_worst: Place | None = None
    """The first row with another top class: index of the row, the class and its value on both sides."""
    topk_worst: Place | None = None


class Distribution(Evidence):
    """Rows of probabilities: range and sum of what was got, divergence from what was expected."""

    rows: Count = 0
    outside: Count = 0
    """Elements that are not within [0, 1]; NaN is not."""
    outside_worst: Place | None = None
    max_sum_error: Measure | None = None
    """Greatest ``|sum - 1|`` of a row of two or more elements."""
    sum_worst: Place | None = None
    sum_violations: Count = 0
    """Rows beyond the sum's tolerance, beside the rounding that the element type cannot avoid."""
    max_divergence: Measure | None = None
    """Greatest Jensen-Shannon divergence of a row in bits, 0 to 1."""
    divergence_worst: Place | None = None


class Embedding(Evidence):
    """Rows as vectors: direction, length, and whether near ones stay near."""

    rows: Count = 0
    min_cosine: Measure | None = None
    cosine_worst: Place | None = None
    max_norm_error: Measure | None = None
    """Greatest ``|‖got‖ - ‖expected‖| / ‖expected‖``."""
    norm_worst: Place | None = None
    k: Count = 0
    """Neighbours of each row that were looked at, among the rows of all sets; 0: too few rows."""
    neighbours: Measure | None = None
    """Mean share of a row's ``k`` nearest rows that are among its nearest by the expected values."""
    neighbours_worst: Place | None = None


class Boxes(Evidence):
    """Boxes, matched one to one whatever their order. Index: image (leading axes), then box, of the expected."""

    expected: Count = 0
    got: Count = 0
    matched: Count = 0
    share: Measure | None = None
    """``matched`` of the larger number of boxes in each image, over all images; None without any box."""
    unmatched_worst: Place | None = None
    min_iou: Measure | None = None
    iou_worst: Place | None = None
    same_class: Count = 0
    class_share: Measure | None = None
    """Share of matched boxes with the same class; None where no class is declared."""
    class_worst: Place | None = None
    max_score_error: Measure | None = None
    score_worst: Place | None = None
    by_position: bool = False
    """Too many boxes for a matching: they were held against each other by position."""


class Sequence(Evidence):
    """Rows of tokens, exactly. ``unterminated``: rows whose end token is not where it is expected."""

    rows: Count = 0
    exact: Count = 0
    tokens: Count = 0
    """Tokens that were compared: up to the end token where what follows it is ignored."""
    unterminated: Count = 0
    token_worst: Place | None = None
    end_worst: Place | None = None


class Audio(Evidence):
    """Channels (rows along the last axis): noise against signal, and distance of the spectra."""

    channels: Count = 0
    silent: Count = 0
    """Channels whose expected samples are all zero: they have no ratio; their samples are compared."""
    min_snr_db: Measure | None = None
    """``inf`` where nothing differs."""
    snr_worst: Place | None = None
    frames: Count = 0
    max_lsd_db: Measure | None = None
    """Greatest mean over the frames of a channel."""
    lsd_worst: Place | None = None
