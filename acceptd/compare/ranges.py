"""Golden inputs against the ranges that their manifest declares: the loader refuses whatever lies outside."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import MalformedError
from acceptd.compare.nested import Blobs, blob_of, plain
from acceptd.compare.task import Bounded
from acceptd.compare.values import CHUNK_ELEMENTS, chunks
from acceptd.golden_facts import InputStats
from acceptd.values import TensorRef

_UNIT: Final = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 0.0}
"""Half a unit in the last place: a bound is taken in the input's own precision, as the loader takes it."""


def measure(one: Bounded, blobs: Blobs) -> InputStats:
    """Return how many elements lie outside ``low`` to ``high``; NaN does. Hostile references never raise."""
    told = InputStats(set=one.set, model=one.model, input=one.input)
    try:
        value = plain(one.value.value)
        if not isinstance(value, TensorRef) or value.dtype == "string" or value.dtype.startswith("complex"):
            return told
        return _tensor(told, value, one, blobs)
    except (MalformedError, RecursionError):
        return told.model_copy(update={"comparable": False})


def _tensor(told: InputStats, value: TensorRef, one: Bounded, blobs: Blobs) -> InputStats:
    blob = blob_of(one.value, blobs)
    total = decode.check(value, blob)
    unit = _UNIT.get(value.dtype, 2.0**-3) if value.dtype in decode.FLOATS else 0.0
    low, high = one.low - abs(one.low) * unit, one.high + abs(one.high) * unit
    outside, furthest, index, text = 0, -math.inf, -1, ""
    for start, stop in chunks(total, total, CHUNK_ELEMENTS):
        _, numbers = decode.read(value, blob, start, stop)
        if numbers.min() >= low and numbers.max() <= high:  # false where there is a NaN
            continue
        beyond = _beyond(numbers, low, high)
        outside += int(np.count_nonzero(beyond > 0))
        at = int(beyond.argmax())
        if beyond[at] > furthest:
            furthest, index, text = float(beyond[at]), start + at, str(numbers[at])
    if not outside:
        return told.model_copy(update={"n": total})
    place = [int(axis) for axis in np.unravel_index(index, tuple(value.shape))] if value.shape else []
    return told.model_copy(update={"n": total, "outside": outside, "worst_index": place, "worst": text[:80]})


def _beyond(numbers: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """Return by how much each element lies outside; a NaN by more than any number."""
    wide = numbers.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.maximum(low - wide, wide - high)
    return np.where(np.isnan(wide), math.inf, far)
