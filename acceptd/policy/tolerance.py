"""How far an output may be from its expected value: one model for manifest, contract and policy.

``rtol``, ``atol`` and ``top1`` are what every kind of output shares. What one kind alone has is a named limit
of :data:`LIMITS`: ``min_…`` is a least value, ``max_…`` a greatest one. docs/parity.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from acceptd.policy.table import Short, Table

OutputKind = Literal["logits", "probabilities", "embedding", "boxes", "sequence", "audio", "values"]
LimitName = Literal[
    "min_topk", "max_sum_error", "max_divergence", "min_cosine", "max_norm_error", "min_neighbours",
    "min_iou", "min_matched", "min_classes", "max_score_error", "min_snr_db", "max_lsd_db",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: the kinds of output that have it, the values that make sense, and what it bounds."""

    kinds: frozenset[str]
    low: float
    high: float
    what: str


_RANKED = frozenset({"logits", "probabilities"})
_PROBABILITIES = frozenset({"probabilities"})
_EMBEDDING = frozenset({"embedding"})
_BOXES = frozenset({"boxes"})
_AUDIO = frozenset({"audio"})
LIMITS: Final[Mapping[str, Limit]] = {
    "min_topk": Limit(_RANKED, 0, 1, "share of rows with the same top_k classes"),
    "max_sum_error": Limit(_PROBABILITIES, 0, 1, "distance of a row's sum from 1"),
    "max_divergence": Limit(_PROBABILITIES, 0, 1, "Jensen-Shannon divergence of a row in bits"),
    "min_cosine": Limit(_EMBEDDING, -1, 1, "cosine of a row with the expected one"),
    "max_norm_error": Limit(_EMBEDDING, 0, math.inf, "relative difference of a row's length"),
    "min_neighbours": Limit(_EMBEDDING, 0, 1, "share of the nearest rows that stay the nearest"),
    "min_iou": Limit(_BOXES, 0, 1, "overlap of a box with its match"),
    "min_matched": Limit(_BOXES, 0, 1, "share of boxes that have a match"),
    "min_classes": Limit(_BOXES, 0, 1, "share of matched boxes of the same class"),
    "max_score_error": Limit(_BOXES, 0, math.inf, "difference of the scores of matched boxes"),
    "min_snr_db": Limit(_AUDIO, -1000, 1000, "signal-to-noise ratio in dB"),
    "max_lsd_db": Limit(_AUDIO, 0, 1000, "log-spectral distance in dB"),
}


def least(name: str) -> bool:
    """Say whether a limit is a least value; else it is a greatest one."""
    return name.startswith("min_")


def stricter(name: str, one: float, other: float) -> float:
    """Return the stricter of two bounds of one limit."""
    return max(one, other) if least(name) else min(one, other)


def _sensible(limits: dict[LimitName, float]) -> dict[LimitName, float]:
    for name, bound in limits.items():
        known = LIMITS[name]
        if not (math.isfinite(bound) and known.low <= bound <= known.high):
            high = "" if math.isinf(known.high) else f" to {known.high:g}"
            raise ValueError(f"{name} is {bound:g}: {known.low:g}{high or ' or more'} makes sense")
    return limits


Limits = Annotated[dict[LimitName, float], Field(max_length=len(LIMITS)), AfterValidator(_sensible)]


class Tolerance(Table):
    """``|got - expected| <= atol + rtol * |expected|``, and the least share of rows with the same top class."""

    rtol: Annotated[float, Field(ge=0, le=1)] = 1e-3
    """Of |expected|, beside ``atol``."""
    atol: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-5
    """Greatest |got - expected| is ``atol + rtol * |expected|``."""
    top1: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least share of rows with the same top class."""
    limits: Limits = {}
    """What the output's kind has beside these, see :data:`LIMITS`."""


def foreign(kind: str, tolerance: Tolerance | None) -> str:
    """Return in one sentence which limit an output of ``kind`` does not have; empty where all fit."""
    for name in tolerance.limits if tolerance is not None else ():
        if kind not in LIMITS[name].kinds:
            return f"{name} is a limit of kind {' or '.join(sorted(LIMITS[name].kinds))}, not of {kind}"
    return ""


Column = Literal["x1", "y1", "x2", "y2", "cx", "cy", "w", "h", "score", "class", "image", "other"]
FORMATS: Final = (("x1", "y1", "x2", "y2"), ("cx", "cy", "w", "h"), ("x1", "y1", "w", "h"))
"""The four columns that make a box: two corners, centre and size, or corner and size."""


class BoxesSpec(Table):
    """What the columns (last axis) of a ``boxes`` output are, and which other outputs belong to its rows."""

    columns: Annotated[list[Column], Field(min_length=4, max_length=64)] = ["x1", "y1", "x2", "y2"]
    """What the four columns of a box are."""
    scores: Short | None = None
    """Name of the output with one score for each box."""
    classes: Short | None = None
    """Name of the output with one class for each box."""

    @model_validator(mode="after")
    def _one_box(self) -> BoxesSpec:
        named = [name for name in self.columns if name != "other"]
        place = {str(name) for name in named} - {"score", "class", "image"}
        if len(set(named)) != len(named) or place not in [set(one) for one in FORMATS]:
            ways = ", ".join("/".join(one) for one in FORMATS)
            raise ValueError(f"columns name one box, each column once: {ways}")
        for output, column in ((self.scores, "score"), (self.classes, "class")):
            if output is not None and column in named:
                raise ValueError(f"there is a column {column!r} and an output {output[:60]!r} for the same")
        return self


class SequenceSpec(Table):
    """Where a row of tokens ends: with the first ``end`` token. What follows counts unless ``after`` says not."""

    end: Annotated[int, Field(gt=-(1 << 53), lt=1 << 53)]
    """The token that ends a row."""
    after: Literal["compared", "ignored"] = "compared"
    """Whether what comes after it is compared."""
