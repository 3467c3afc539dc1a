"""Boxes compared as boxes: matched by overlap, class and score, image by image, within bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from acceptd.compare import boxes as boxes_module
from acceptd.compare import matching
from acceptd.compare.matching import overlap
from acceptd.kind_facts import CLASSES
from tests.compare_world import BOXES, Values

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[Values]:
    one = Values()
    yield one
    one.close()


# -- boxes

SCORES = np.array([0.9, 0.8, 0.7, 0.6], np.float32)
CLASSES_OF = np.array([1, 2, 3, 4])


def test_boxes_in_another_order_are_the_same_boxes(world: Values) -> None:
    turn = np.array([3, 2, 0, 1])
    how = {
        "scores": world.companion("scores", SCORES, SCORES[turn]),
        "classes": world.companion("classes", CLASSES_OF, CLASSES_OF[turn]),
    }
    boxes, scores, classes = world.rows(world.pair(BOXES, BOXES[turn], "boxes", how=how))
    assert (boxes.output, scores.output, classes.output) == ("y", "scores", "classes")
    assert (boxes.exceeding, scores.exceeding, classes.exceeding, classes.note) == (0, 0, 0, CLASSES)
    assert (boxes.n, scores.n, classes.n, boxes.bit_exact) == (16, 4, 4, False)
    found = boxes.boxes
    assert found is not None
    assert (found.matched, found.share, found.min_iou, found.class_share) == (4, 1.0, 1.0, 1.0)
    assert found.max_score_error == 0.0
    plain = world.rows(world.pair(BOXES, BOXES[turn], "values"))[0]
    assert plain.exceeding > 0


def test_one_tensor_may_carry_box_score_and_class(world: Values) -> None:
    whole = np.concatenate([BOXES, SCORES[:, None], CLASSES_OF[:, None]], axis=1).astype(np.float32)
    other = whole[::-1].copy()
    other[0, 4] -= 0.25
    other[1, 5] = 9
    other[2, 0] += 1
    names = ["x1", "y1", "x2", "y2", "score", "class"]
    row = world.one(whole, other, "boxes", how={"columns": names}, atol=0.5)
    found = row.boxes
    assert found is not None
    assert found.class_worst is not None
    assert found.score_worst is not None
    assert (found.matched, found.same_class, found.class_share) == (4, 3, 0.75)
    assert (found.class_worst.index, found.class_worst.expected, found.class_worst.got) == (
        [2],
        "class 3",
        "class 9",
    )
    assert found.max_score_error == pytest.approx(0.25)
    assert (row.exceeding, row.worst_index, row.n) == (1, [1, 0], 20)
    assert found.min_iou == pytest.approx(19 / 20)


def test_lost_and_invented_boxes_are_named(world: Values) -> None:
    lost = world.one(BOXES, BOXES[[0, 1, 3]], "boxes").boxes
    assert lost is not None
    assert lost.unmatched_worst is not None
    assert (lost.expected, lost.got, lost.matched, lost.share) == (4, 3, 3, 0.75)
    assert (lost.unmatched_worst.index, lost.unmatched_worst.expected) == ([2], "a box")
    more = world.one(BOXES[:3], np.concatenate([BOXES[:3], [[500, 500, 501, 501]]]).astype("f4"), "boxes").boxes
    assert more is not None
    assert more.unmatched_worst is not None
    assert (more.matched, more.share, more.unmatched_worst.index, more.unmatched_worst.expected) == (
        3,
        0.75,
        [3],
        "no box",
    )
    none = world.one(BOXES[:0], BOXES[:0], "boxes")
    assert (none.comparable, none.n, none.boxes) == (True, 0, None)
    gone = world.one(BOXES, BOXES[:0], "boxes").boxes
    assert gone is not None
    assert (gone.matched, gone.share, gone.min_iou) == (0, 0.0, None)


def test_each_image_is_matched_for_itself_whatever_the_block(
    world: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(2)
    corner = random.random((7, 6, 2))
    expected = np.concatenate([corner, corner + 0.2 + random.random((7, 6, 2))], axis=2).astype(np.float32)
    got = np.stack([image[random.permutation(6)] for image in expected])
    got[5, 2] += 3
    got[6, 1, 0] -= 0.03
    whole = world.one(expected, got, "boxes")
    assert whole.boxes is not None
    assert whole.boxes.iou_worst is not None
    assert whole.boxes.iou_worst.index[0] == 6
    assert whole.boxes is not None
    assert whole.boxes.unmatched_worst is not None
    assert (whole.boxes.matched, whole.boxes.unmatched_worst.index[0]) == (41, 5)
    monkeypatch.setattr(boxes_module, "BLOCK", 1)
    assert world.one(expected, got, "boxes") == whole


def test_centre_and_size_are_the_same_boxes_as_two_corners(world: Values) -> None:
    moved = BOXES + np.array([0.5, 0, 0.5, 0], np.float32)
    two = world.one(BOXES, moved, "boxes").boxes
    centres = [
        np.concatenate([(one[:, :2] + one[:, 2:]) / 2, one[:, 2:] - one[:, :2]], axis=1).astype(np.float32)
        for one in (BOXES, moved)
    ]
    one = world.one(*centres, "boxes", how={"columns": ["cx", "cy", "w", "h"]}).boxes
    sizes = [np.concatenate([side[:, :2], side[:, 2:] - side[:, :2]], axis=1) for side in (BOXES, moved)]
    corner = world.one(*sizes, "boxes", how={"columns": ["x1", "y1", "w", "h"]}).boxes
    swapped = world.one(
        BOXES[:, [1, 0, 3, 2]], moved[:, [1, 0, 3, 2]], "boxes", how={"columns": ["y1", "x1", "y2", "x2"]}
    ).boxes
    assert two is not None
    assert one is not None
    assert corner is not None
    assert swapped is not None
    assert two.min_iou == one.min_iou == corner.min_iou == swapped.min_iou == pytest.approx(9.5 / 10.5)


def test_boxes_of_different_images_never_match(world: Values) -> None:
    expected = np.concatenate([[[0], [0], [1], [1]], BOXES], axis=1).astype(np.float32)
    got = expected.copy()
    got[0, 0] = 1
    found = world.one(expected, got, "boxes", how={"columns": ["image", "x1", "y1", "x2", "y2"]}).boxes
    assert found is not None
    assert found.matched == 3


def test_overlap_is_safe_for_boxes_that_are_none() -> None:
    box = np.array([[0], [0], [1], [1.0]])
    for other, iou in (
        ([0, 0, 1, 1], 1.0),
        ([0.5, 0, 1.5, 1], 1 / 3),
        ([1, 1, 0, 0], 0.0),
        ([math.nan, 0, 1, 1], 0.0),
        ([-math.inf, -math.inf, math.inf, math.inf], 0.0),
    ):
        with np.errstate(all="ignore"):
            assert overlap(box, np.array(other, np.float64)[:, None])[0] == pytest.approx(iou), other
    flat = np.full((4, 1), 3.0)
    with np.errstate(all="ignore"):
        assert (float(overlap(flat, flat)[0]), float(overlap(flat, flat + 1)[0])) == (1.0, 0.0)


@pytest.mark.parametrize("turned", [True, False], ids=["as many", "fewer"])
def test_beyond_the_bounds_boxes_are_compared_by_position_and_that_is_told(
    world: Values, monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    expected = np.stack([BOXES, BOXES, BOXES])
    got = expected[:, ::-1] if turned else expected[:, :3]
    monkeypatch.setattr(boxes_module, "MAX_PAIRS", boxes_module.LEAST_COST)  # one image
    found = world.one(expected, got, "boxes").boxes
    assert found is not None
    assert found.by_position
    assert (found.matched, found.min_iou) == ((12, 0.0) if turned else (9, 1.0))
    monkeypatch.setattr(boxes_module, "MAX_BOXES", 2)
    many = world.one(BOXES, BOXES[::-1], "boxes").boxes
    assert many is not None
    assert many.by_position


def test_a_box_of_the_same_class_is_matched_before_one_that_overlaps_more() -> None:
    iou, apart = np.array([[0.8, 0.95, 0.0], [0.0, 0.9, 0.0]]), np.zeros((2, 3))
    alike = np.array([[True, False, True], [True, True, True]])
    assert [one.tolist() for one in matching.match(iou, alike, apart, 0.5)] == [[0, 1], [0, 1]]
    assert [one.tolist() for one in matching.match(iou, alike, apart, 0.99)] == [[0], [1]]  # no pair is that near


def test_of_equal_overlaps_the_nearer_score_is_matched() -> None:
    iou, alike = np.array([[0.8, 0.9], [0.9, 0.9]]), np.ones((2, 2), np.bool_)
    near = np.array([[1, 1], [1, 0.0]])
    assert [one.tolist() for one in matching.match(iou, alike, near, 0.5)] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("levels", [3, 1000])
def test_the_short_way_to_a_matching_gives_what_the_greedy_one_gives(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(levels)
    taken = 0
    for _ in range(200):
        iou = random.integers(0, levels, (4, 4)) / levels  # few levels: full of ties
        alike, apart = random.random((4, 4)) > 0.1, random.integers(0, 3, (4, 4)).astype(float)
        quick = matching.match(iou, alike, apart, 0.25)
        taken += matching._mutual(np.where(alike & (iou >= 0.25), iou, 0.0)) is not None
        with monkeypatch.context() as patched:
            patched.setattr(matching, "_mutual", lambda table: None)
            slow = matching.match(iou, alike, apart, 0.25)
        assert [one.tolist() for one in quick] == [one.tolist() for one in slow]
    assert taken or levels == 3  # a permutation without a tie is rare there


def test_companions_that_do_not_belong_to_the_boxes_compare_nothing(world: Values) -> None:
    for scores in (SCORES[:3], SCORES[None], np.float32(1)):
        how = {"scores": world.companion("scores", scores, scores)}
        rows = world.rows(world.pair(BOXES, BOXES, "boxes", how=how))
        assert [(row.output, row.comparable, row.note) for row in rows] == [
            ("y", False, "malformed"),
            ("scores", False, "malformed"),
        ]
    lost = {"scores": world.companion("scores", SCORES, SCORES).model_copy(update={"got": None})}
    assert [row.note for row in world.rows(world.pair(BOXES, BOXES, "boxes", how=lost))] == ["", "missing"]
