"""Boxes: matched one to one whatever their order, then place, class and score of each match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from acceptd.compare import decode
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.decode import Array
from acceptd.compare.gauge import Rows, Worst, measure, quiet
from acceptd.compare.matching import MAX_BOXES, corners, match, overlap, same
from acceptd.compare.tally import Tally
from acceptd.compare.task import How
from acceptd.kind_facts import Boxes, Place
from acceptd.policy.tolerance import FORMATS
from acceptd.values import Evidence, TensorRef

BLOCK: Final = 1 << 15
MAX_IMAGE: Final = 1 << 20
"""Elements of one image that are held at a time."""
MAX_PAIRS: Final = 64 << 20
"""Pairs of boxes that are looked at for one output; images beyond are compared by position."""
LEAST_COST: Final = 1 << 12
"""An image costs as many pairs at least: a million images of one box take time too."""

Index = tuple[Array, Array]
"""Rows of the expected and of the got side that belong together."""


@dataclass
class Part:
    """One tensor with a row for each box (checked, on both sides), and where its elements are counted."""

    refs: tuple[TensorRef, TensorRef]
    blobs: tuple[Blob, Blob]
    tally: Tally
    rank: int
    """Axes up to and with that of the boxes."""

    @property
    def width(self) -> int:
        """Elements of one row."""
        return decode.count(self.refs[0].shape[self.rank :])

    def rows(self, side: int, start: int, stop: int) -> Array:
        """Return rows ``start`` to ``stop`` as [rows, width]."""
        values = decode.read(self.refs[side], self.blobs[side], start * self.width, stop * self.width)[1]
        return np.asarray(values).reshape(stop - start, self.width)


@dataclass
class _Block:
    """Some images at once: corners [4, images, boxes], scores and classes [images, boxes, …], on both sides."""

    boxes: tuple[Array, Array]
    scores: tuple[Array, Array] | None
    classes: tuple[Array, Array] | None
    iou: Array | None = None
    """By position, [images, boxes], where it is known."""


class Matched(Rows):
    """The boxes of one output, image by image."""

    def __init__(self, how: How) -> None:
        super().__init__()
        names = list(how.columns)
        form = next((one for one in FORMATS if set(one) <= set(names)), None)
        if form is None:
            raise MalformedError("the columns name no box")
        self._form, self._corners = form, [names.index(name) for name in form]
        self._own = {name: names.index(name) for name in ("score", "class", "image") if name in names}
        judged = [at for name, at in self._own.items() if name != "score"]  # exactly, by what is said of matches
        self._compared = np.array([at for at in range(len(names)) if at not in judged])
        self._columns, self._least = len(names), how.min_iou
        self.expected = self.got = self.matched = self.same_class = self._larger = 0
        self._pairs, self._by_position = MAX_PAIRS, False
        self._with_scores = self._with_classes = False
        self._iou, self._apart = Worst(), Worst()
        self._lost: Place | None = None
        self._unmatched: list[tuple[int, int, bool]] = []
        self._renamed: Place | None = None

    def tensors(self, boxes: Part, scores: Part | None, classes: Part | None, prefix: list[int]) -> None:
        """Take checked tensors [..., boxes, columns], and scores and classes [..., boxes, …] that belong to them.

        Raises MalformedError where they do not belong together, or one image is too large to be held.
        """
        shapes = [ref.shape for ref in boxes.refs]
        if len(shapes[0]) < 2 or shapes[0][-1] != self._columns:
            raise MalformedError(f"boxes have {self._columns} columns, in two dimensions or more")
        for part in (one for one in (scores, classes) if one is not None):
            if any(ref.shape[: part.rank] != shape[:-1] for ref, shape in zip(part.refs, shapes, strict=True)):
                raise MalformedError("scores and classes have one row for each box")
        if any(one.refs[0].dtype.startswith("complex") for one in (boxes, scores, classes) if one is not None):
            raise MalformedError("boxes, scores and classes are real numbers")
        self.begin([*shapes[0][:-1], 1], boxes.refs[0].dtype, prefix)
        self._with_scores = self._with_scores or scores is not None or "score" in self._own
        self._with_classes = self._with_classes or classes is not None or "class" in self._own
        counts = shapes[0][-2], shapes[1][-2]
        if not max(counts):
            return
        most = max(counts) * max(1, *(one.width for one in (boxes, scores, classes) if one is not None))
        if most > MAX_IMAGE:
            raise MalformedError("more boxes in one image than can be compared")
        images, step = decode.count(shapes[0][:-2]), max(1, BLOCK // most)
        for start in range(0, images, step):
            self._images(boxes, scores, classes, start, min(images, start + step), counts)

    def _images(
        self,
        boxes: Part,
        scores: Part | None,
        classes: Part | None,
        start: int,
        stop: int,
        counts: tuple[int, int],
    ) -> None:
        images = stop - start
        raw = tuple(boxes.rows(side, start * n, stop * n).astype(np.float64) for side, n in enumerate(counts))

        def column(name: str, part: Part | None) -> tuple[Array, Array] | None:
            if name in self._own:
                sides = [one[:, [self._own[name]]] for one in raw]
            elif part is not None:
                sides = [part.rows(side, start * n, stop * n) for side, n in enumerate(counts)]
            else:
                return None
            left, right = (one.reshape(images, n, -1) for one, n in zip(sides, counts, strict=True))
            return left, right

        left, right = (
            corners(one[:, self._corners], self._form).reshape(4, images, n)
            for one, n in zip(raw, counts, strict=True)
        )
        block = _Block((left, right), column("score", scores), column("class", classes))
        with quiet():
            paired = self._paired(block, images, column("image", None))
            self._count(block, paired, start, counts)
        for part, values in ((boxes, raw), (scores, block.scores), (classes, block.classes)):
            if part is None or values is None:
                continue
            columns = self._compared if part is boxes else np.arange(part.width)
            one, other = (side.reshape(-1, part.width) for side in values)
            begin, flat = start * counts[0] * part.width, None
            if not _straight(paired, counts) or columns.size < part.width:
                rows = paired[0] + start * counts[0]
                begin, flat = 0, (rows[:, None] * part.width + columns).reshape(-1)
                one, other = one[paired[0]][:, columns], other[paired[1]][:, columns]
            part.tally.add(one.reshape(-1), other.reshape(-1), part.refs[0].shape, begin, self._prefix, flat)

    def _paired(self, block: _Block, images: int, owner: tuple[Array, Array] | None) -> Index:
        """Return rows that belong together, over all images of the block."""
        left, right = block.boxes
        counts = left.shape[2], right.shape[2]
        fine: Array = np.zeros(images, np.bool_)
        if counts[0] == counts[1]:  # one order on both sides is the usual case, and needs no table
            block.iou = overlap(left, right)
            alike = np.greater_equal(block.iou, max(self._least, 1e-9))
            for pair in (block.classes, owner):
                if pair is not None:
                    alike &= same(pair[0], pair[1]).all(axis=-1)
            fine = np.logical_and.reduce(alike, axis=1)
        if fine.all():
            return self._positions(images, counts)
        if self._pairs < max(counts[0] * counts[1], LEAST_COST) or max(counts) > MAX_BOXES:
            self._by_position = True
            return self._positions(images, counts, owner)
        found: list[Index] = []
        for image in range(images):
            short = np.arange(min(counts))
            one, other = short, short
            if not fine[image]:
                cost = max(counts[0] * counts[1], LEAST_COST)
                if cost <= self._pairs:
                    self._pairs -= cost
                    one, other = self._matched(block, image, owner)
                else:
                    self._by_position = True
                    if owner is not None:
                        kept = _owned([side[image] for side in owner], one, other)
                        one, other = one[kept], other[kept]
            found.append((one + image * counts[0], other + image * counts[1]))
            self._lose(one, other, image, counts)
        return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])

    def _positions(self, images: int, counts: tuple[int, int], owner: tuple[Array, Array] | None = None) -> Index:
        """Return the rows of each image by position, as many as both sides have; none of two ``owner``."""
        if counts[0] == counts[1] and owner is None:
            every = np.arange(images * counts[0])
            return every, every
        short, first = np.arange(min(counts)), np.arange(images)[:, None]
        one, other = ((first * count + short).reshape(-1) for count in counts)
        if counts[0] != counts[1]:
            self._lose(short, short, 0, counts)
        if owner is not None:
            kept = _owned([side.reshape(-1, side.shape[-1]) for side in owner], one, other)
            if not kept.all():
                image, box = divmod(int(kept.argmin()), short.size)
                self._unmatched.append((image, box, True))
            one, other = one[kept], other[kept]
        return one, other

    def _matched(self, block: _Block, image: int, owner: tuple[Array, Array] | None) -> Index:
        left, right = (side[:, image] for side in block.boxes)
        iou = overlap(left[:, :, None], right[:, None])
        alike: Array = np.ones(iou.shape, np.bool_)
        if block.classes is not None:
            one, other = (side[image] for side in block.classes)
            alike = np.asarray(same(one[:, None], other[None]).all(axis=-1))
        if owner is not None:
            one, other = (side[image] for side in owner)
            iou = np.where(same(one[:, None], other[None]).all(axis=-1), iou, 0.0)
        apart = np.zeros(iou.shape)
        if block.scores is not None:
            one, other = (side[image] for side in block.scores)
            apart = np.nan_to_num(np.abs(one[:, None, 0] - other[None, :, 0]), nan=math.inf)
        return match(iou, alike, apart, self._least)

    def _lose(self, one: Array, other: Array, image: int, counts: tuple[int, int]) -> None:
        """Remember the first box without a match, by its index on its own side."""
        if self._lost is None and (one.size < counts[0] or other.size < counts[1]):
            here = one.size < counts[0]
            gone = np.setdiff1d(np.arange(counts[0 if here else 1]), one if here else other)
            self._unmatched.append((image, int(gone[0]), here))

    def _count(self, block: _Block, paired: Index, start: int, counts: tuple[int, int]) -> None:
        one = paired[0]
        images = block.boxes[0].shape[1]
        self.expected += images * counts[0]
        self.got += images * counts[1]
        self._larger += images * max(counts)
        self.matched += one.size
        for image, box, here in self._unmatched[:1] if self._lost is None else ():
            found = ("a box", "none that overlaps") if here else ("no box", "a box")
            self._lost = self._box(start + image, box, *found)
        self._unmatched = []
        if not one.size:
            return
        first = one + start * counts[0]
        sides = [side.reshape(4, -1) for side in block.boxes]
        straight = _straight(paired, counts)
        boxes = sides if straight else [one[:, at] for one, at in zip(sides, paired, strict=True)]
        known = block.iou if straight else None
        iou = overlap(boxes[0], boxes[1]) if known is None else known.reshape(-1)
        at = int(iou.argmin())
        told = [", ".join(f"{value:.6g}" for value in side[:, at]) for side in boxes]
        self._iou.offer(-float(iou[at]), lambda: self.place(int(first[at]), told))
        if block.classes is not None:
            sides = [
                side.reshape(-1, side.shape[-1])[index] for side, index in zip(block.classes, paired, strict=True)
            ]
            alike = same(sides[0], sides[1]).all(axis=-1)
            self.same_class += int(np.count_nonzero(alike))
            if not alike.all() and self._renamed is None:
                row = int(alike.argmin())
                self._renamed = self.place(int(first[row]), [f"class {_short(side[row])}" for side in sides])
        if block.scores is not None:
            sides = [
                side.reshape(-1, side.shape[-1])[index] for side, index in zip(block.scores, paired, strict=True)
            ]
            apart = np.where(same(sides[0], sides[1]), 0.0, np.abs(sides[1] - sides[0])).max(axis=-1, initial=0.0)
            apart = np.where(np.isnan(apart), math.inf, apart)
            far = int(apart.argmax())
            said = [f"score {_short(side[far])}" for side in sides]
            self._apart.offer(float(apart[far]), lambda: self.place(int(first[far]), said))

    def _box(self, image: int, box: int, expected: str, got: str) -> Place:
        leading = self._shape[:-2]
        index = [int(axis) for axis in np.unravel_index(image, leading)] if leading else []
        return Place(index=[*self._prefix, *index, box][:80], expected=expected, got=got)

    def figures(self) -> dict[str, Evidence]:
        """Return ``boxes``."""
        found = bool(self.matched)
        return {
            "boxes": Boxes(
                expected=self.expected,
                got=self.got,
                matched=self.matched,
                share=self.matched / self._larger if self._larger else None,
                unmatched_worst=self._lost,
                min_iou=measure(-self._iou.value) if found else None,
                iou_worst=self._iou.place if found and self._iou.value > -1 else None,
                same_class=self.same_class,
                class_share=self.same_class / self.matched if found and self._with_classes else None,
                class_worst=self._renamed,
                max_score_error=measure(self._apart.value) if found and self._with_scores else None,
                score_worst=self._apart.place if self._apart.value > 0 else None,
                by_position=self._by_position,
            )
        }


def _straight(paired: Index, counts: tuple[int, int]) -> bool:
    """Say whether every box belongs to the one at its own place."""
    return paired[0] is paired[1] and counts[0] == counts[1]


def _owned(owner: Sequence[Array], one: Array, other: Array) -> Array:
    """Say of each pair of rows whether both are of one image."""
    return np.asarray(same(owner[0][one], owner[1][other]).all(axis=-1))


def _short(row: Array) -> str:
    return ", ".join(f"{value:.9g}" for value in row[:8].tolist())
