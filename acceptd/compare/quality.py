"""Answers on labelled rows: accuracy, calibration, Brier score and false negatives, over all rows and by slice.

Formulas and their sources stand at :class:`acceptd.golden_facts.QualityStats`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import MalformedError
from acceptd.compare.nested import Blobs, blob_of, plain
from acceptd.compare.task import Labelled, Slice
from acceptd.compare.values import CHUNK_ELEMENTS, strings
from acceptd.golden_facts import MAX_CLASSES, MAX_SLICES, ClassCount, QualityStats
from acceptd.values import TensorRef

Array = np.ndarray[Any, Any]

BINS: Final = 15
MAX_ROWS: Final = 1_000_000
MAX_WIDTH: Final = 1 << 18
ROUNDING: Final = 1e-6
"""A softmax in float32 may give a little more than 1."""
SUM_TOLERANCE: Final = 1e-3
"""How far a row may be from a sum of 1 and still count as probabilities; beyond, no Brier score is told."""


class UnlabelledError(Exception):
    """Labels that do not go with the output; the argument is the note."""


class Score:
    """Running counts of one output, over all rows or over those of one slice."""

    def __init__(self) -> None:
        self.rows = 0
        self.correct = 0
        self.brier = 0.0
        self.probabilities = True
        self._count = np.zeros(BINS, np.int64)
        self._confidence = np.zeros(BINS)
        self._hits = np.zeros(BINS)
        self._support: dict[int, int] = {}
        self._missed: dict[int, int] = {}

    def add(self, labels: Array, top: Array, rows: Array | None) -> None:
        """Take rows: true classes, top classes, and probabilities [rows, classes] where there are any."""
        hits = labels == top
        self.rows += len(labels)
        self.correct += int(np.count_nonzero(hits))
        for counts, chosen in ((self._support, labels), (self._missed, labels[~hits])):
            found, times = np.unique(chosen, return_counts=True)
            for label, count in zip(found.tolist(), times.tolist(), strict=True):
                counts[label] = counts.get(label, 0) + count
        if rows is None or not _are_probabilities(rows):
            self.probabilities = False
            return
        confidence = rows[np.arange(len(rows)), top]
        # bin m holds confidences in ((m - 1) / 15, m / 15]; the first also holds 0
        places = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
        self._count += np.bincount(places, minlength=BINS)
        self._confidence += np.bincount(places, confidence, BINS)
        self._hits += np.bincount(places, hits.astype(np.float64), BINS)
        own = rows[np.arange(len(rows)), labels]
        self.brier += float(np.square(rows).sum() - 2 * own.sum() + len(rows))

    def stats(self, model: str, output: str, name: str | None) -> QualityStats:
        """Return the figures."""
        told = self.probabilities and self.rows > 0
        filled = self._count > 0
        gaps = np.abs(self._hits[filled] - self._confidence[filled])  # n_m * |acc(B_m) - conf(B_m)|
        classes = [
            ClassCount(label=label, support=support, false_negatives=self._missed.get(label, 0))
            for label, support in sorted(self._support.items())[:MAX_CLASSES]
        ]
        return QualityStats(
            model=model,
            output=output,
            slice=name,
            rows=self.rows,
            accuracy=self.correct / self.rows if self.rows else None,
            calibration_error=float(gaps.sum()) / self.rows if told else None,
            brier=max(0.0, self.brier) / self.rows if told else None,
            classes=classes,
        )


def quality(tasks: Sequence[Labelled], blobs: Blobs) -> list[QualityStats]:
    """Return the figures of each labelled output, all rows first, then its slices by name.

    A set whose labels do not go with its output leaves a row with a note, and its output no other figure.
    """
    found: list[QualityStats] = []
    for model, output in dict.fromkeys((one.model, one.output) for one in tasks):
        own = [one for one in tasks if (one.model, one.output) == (model, output)]
        scores: dict[str | None, Score] = {None: Score()}
        try:
            for one in own:
                _add(one, blobs, scores)
        except UnlabelledError as error:
            found.append(QualityStats(model=model, output=output, note=str(error)))
            continue
        except (MalformedError, RecursionError):
            found.append(QualityStats(model=model, output=output, note="malformed"))
            continue
        names = sorted(name for name in scores if name is not None)
        found += [scores[name].stats(model, output, name) for name in (None, *names)]
    return found


def _add(one: Labelled, blobs: Blobs, scores: dict[str | None, Score]) -> None:
    got = plain(one.got.value) if one.got is not None else None
    if not isinstance(got, TensorRef) or one.got is None:
        raise UnlabelledError(f"{one.set}: the run gave no tensor of this output")
    labels = _labels(one.labels, blobs)
    rows, width = _layout(got, len(labels), one)
    slices = _slices(one.slices, len(labels), blobs, one.set)
    for name in slices[1] if slices is not None else ():
        scores.setdefault(name, Score())
    if len(scores) > MAX_SLICES + 1:
        raise UnlabelledError(f"more than {MAX_SLICES} slices")
    blob = blob_of(one.got, blobs)
    if decode.check(got, blob) != rows * width:
        raise MalformedError("another number of elements than its shape has")
    step = max(1, CHUNK_ELEMENTS // max(width, 1))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        _, flat = decode.read(got, blob, start * width, stop * width)
        top, probabilities, classes = _answers(flat, width, got.dtype, one.kind)
        truth = labels[start:stop]
        if classes is not None and truth.size and int(truth.max()) >= classes:
            raise UnlabelledError(f"{one.set}: label {int(truth.max())}, but the output has {classes} classes")
        scores[None].add(truth, top, probabilities)
        for number, name in enumerate(slices[1] if slices is not None else ()):
            chosen = slices[0][start:stop] == number if slices is not None else np.empty(0, bool)
            if chosen.any():
                part = None if probabilities is None else probabilities[chosen]
                scores[name].add(truth[chosen], top[chosen], part)


def _labels(part: Slice, blobs: Blobs) -> Array:
    ref = part.value
    if not isinstance(ref, TensorRef) or ref.dtype != "int64" or len(ref.shape) != 1:
        raise MalformedError("labels are one row of int64")
    blob = blob_of(part, blobs)
    total = decode.check(ref, blob)
    if total > MAX_ROWS:
        raise MalformedError("too many labels")
    pieces = [
        decode.read(ref, blob, at, min(total, at + CHUNK_ELEMENTS))[1] for at in range(0, total, CHUNK_ELEMENTS)
    ]
    labels: Array = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    if labels.size and int(labels.min()) < 0:
        raise MalformedError("a negative label")
    return labels


def _slices(part: Slice | None, rows: int, blobs: Blobs, name: str) -> tuple[Array, list[str]] | None:
    """Return the slice of each row as a number, and the slices' names."""
    if part is None:
        return None
    ref = part.value
    if not isinstance(ref, TensorRef) or ref.dtype != "string" or len(ref.shape) != 1:
        raise MalformedError("slices are one row of names")
    blob = blob_of(part, blobs)
    total = decode.check(ref, blob)
    if total != rows:
        raise UnlabelledError(f"{name}: {total} slices for {rows} labels")
    numbers: dict[bytes, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(raw[:256], len(numbers)) for raw in strings(ref, blob, total)), np.int64
    )
    return codes, [raw.decode("utf-8", "backslashreplace") for raw in numbers]


def _layout(got: TensorRef, labels: int, one: Labelled) -> tuple[int, int]:
    """Return (rows, width): one label for each row along the last axis, or for each element."""
    if got.dtype.startswith("complex"):  # its real part alone would be a class
        raise UnlabelledError(f"{one.set}: {got.dtype} numbers are no classes")
    total = decode.count(got.shape)
    width = got.shape[-1] if got.shape else 1
    integers = got.dtype not in decode.FLOATS
    if total == labels and (width == 1 or integers or len(got.shape) <= 1):
        return labels, 1
    if not integers and width and total == labels * width and width <= MAX_WIDTH:
        return labels, width
    raise UnlabelledError(f"{one.set}: {labels} labels for an output {list(got.shape)}")


def _answers(flat: Array, width: int, dtype: str, kind: str) -> tuple[Array, Array | None, int | None]:
    """Return (top class, probabilities or None, number of classes or None) of rows of ``width``.

    A single probability or logit is that of class 1 against class 0. Integers are classes themselves. NaN is no
    class: a row of nothing else has none (-1), and is wrong whatever its label.
    """
    if dtype not in decode.FLOATS:
        return flat.astype(np.int64), None, None
    if width == 1:
        with np.errstate(over="ignore"):
            positive = 1 / (1 + np.exp(-flat)) if kind == "logits" else flat
        rows = np.stack([1 - positive, positive], axis=1)
    else:
        rows = flat.reshape(-1, width)
    ranked = np.where(np.isnan(rows), -np.inf, rows)
    top = np.where(np.isnan(rows).all(axis=1), -1, ranked.argmax(axis=1))
    if width > 1 and kind == "logits":
        with np.errstate(all="ignore"):
            shifted = np.exp(rows - ranked.max(axis=1, keepdims=True))
            rows = shifted / shifted.sum(axis=1, keepdims=True)
    return top, rows, rows.shape[1]


def _are_probabilities(rows: Array) -> bool:
    with np.errstate(invalid="ignore"):
        inside = bool(((rows >= -ROUNDING) & (rows <= 1 + ROUNDING)).all())
        return inside and bool((np.abs(rows.sum(axis=1) - 1) <= SUM_TOLERANCE).all())
