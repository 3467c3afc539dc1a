"""What each kind of output has beside its elements, against a plain computation of the same formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from acceptd.compare import audio as audio_module
from acceptd.compare import boxes as boxes_module
from acceptd.compare import matching
from acceptd.compare import values as values_module
from acceptd.compare.matching import overlap
from acceptd.kind_facts import CLASSES
from tests.compare_world import Values

pytestmark = pytest.mark.unit
KINDS = ("values", "logits", "probabilities", "embedding", "boxes", "sequence", "audio")


@pytest.fixture
def world() -> Iterator[Values]:
    one = Values()
    yield one
    one.close()


def softmax(rows: Any) -> Any:
    raised = np.exp(rows)
    return (raised / raised.sum(axis=-1, keepdims=True)).astype(np.float32)


# -- logits


def test_the_set_of_the_highest_classes_is_compared_with_ties_to_the_lowest_index(world: Values) -> None:
    expected = np.array([[3, 2, 1, 0], [5, 1, 1, 1], [4, 3, 2, 1]], np.float32)
    got = np.array([[2, 3, 1, 0], [5, 1, 1, 1], [4, 1, 2, 3]], np.float32)
    found = world.one(expected, got, "logits", how={"top_k": 2}).ranking
    assert found is not None
    assert (found.rows, found.k, found.top1_mismatches, found.topk_mismatches) == (3, 2, 1, 1)
    assert found.top1_worst is not None
    assert found.topk_worst is not None
    assert (found.top1_worst.index, found.top1_worst.expected, found.top1_worst.got) == (
        [0],
        "class 0 (3)",
        "class 1 (3)",
    )
    assert (found.topk_worst.index, found.topk_worst.expected, found.topk_worst.got) == (
        [2],
        "classes 0, 1",
        "classes 0, 3",
    )
    tied = np.array([[1, 1, 1, 1]], np.float32)
    assert world.one(tied, np.array([[1, 1, 0, 1]], np.float32), "logits", how={"top_k": 2}).ranking == (
        world.one(tied, tied, "logits", how={"top_k": 2}).ranking
    )


@pytest.mark.parametrize("width", [3, 40])
def test_narrow_and_wide_rows_have_the_classes_that_numpy_finds(world: Values, width: int) -> None:
    random = np.random.default_rng(width)
    expected = random.integers(0, 4, (500, width)).astype(np.float32)  # full of ties
    got = random.integers(0, 4, (500, width)).astype(np.float32)
    found = world.one(expected, got, "logits", how={"top_k": 2}).ranking
    assert found is not None
    assert found.top1_mismatches == np.count_nonzero(expected.argmax(1) != got.argmax(1))
    sets = [np.sort(np.argsort(-side, axis=1, kind="stable")[:, :2], axis=1) for side in (expected, got)]
    assert found.topk_mismatches == np.count_nonzero((sets[0] != sets[1]).any(axis=1))


# -- probabilities


def plain_divergence(p: Any, q: Any) -> float:
    p, q = p.astype(np.float64), q.astype(np.float64)
    total = 0.0
    for one in (p, q):
        total += sum(a * math.log2(a / ((b + c) / 2)) for a, b, c in zip(one, p, q, strict=True) if a > 0) / 2
    return total


@pytest.mark.parametrize("width", [2, 5, 300])
def test_the_greatest_divergence_is_the_one_of_lins_formula(world: Values, width: int) -> None:
    random = np.random.default_rng(width)
    expected, got = softmax(random.normal(0, 3, (200, width))), softmax(random.normal(0, 3, (200, width)))
    got[::3] = expected[::3]
    found = world.one(expected, got, "probabilities").distribution
    apart = [plain_divergence(p, q) for p, q in zip(expected, got, strict=True)]
    assert found is not None
    assert found.divergence_worst is not None
    assert found.max_divergence == pytest.approx(max(apart), rel=1e-9)
    assert found.divergence_worst.index == [int(np.argmax(apart))]


@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.05])
def test_the_short_way_finds_the_greatest_divergence_among_near_rows_too(world: Values, size: float) -> None:
    random = np.random.default_rng(5)
    expected = softmax(random.normal(size=(400, 6))).astype(np.float64)
    got = expected * (1 + random.normal(size=expected.shape) * size)
    found = world.one(expected, got, "probabilities").distribution
    apart = [plain_divergence(p, q) for p, q in zip(expected, got, strict=True)]
    assert found is not None
    assert found.max_divergence == pytest.approx(max(apart), rel=1e-6, abs=1e-15)


def test_divergence_is_bounded_and_safe_where_a_probability_is_zero(world: Values) -> None:
    one, other = np.array([[1, 0]], np.float32), np.array([[0, 1]], np.float32)
    told = [world.one(*pair, "probabilities").distribution for pair in ((one, one), (one, other))]
    assert [found.max_divergence for found in told if found is not None] == [0.0, 1.0]
    wild = [[math.nan, 0], [math.inf, 0], [-1, 2], [0, 0], [1e300, 1e300], [-math.inf, math.nan]]
    for first, second in itertools.product(wild, wild):
        found = world.one(np.array([first], "f8"), np.array([second], "f8"), "probabilities").distribution
        assert found is not None
        assert found.max_divergence is not None
        assert 0 <= float(found.max_divergence) <= 1 or found.max_divergence == "inf"
        assert (found.max_divergence == 0) == (str(first) == str(second)), (first, second)


@pytest.mark.parametrize(
    ("row", "bound", "wrong"),
    [
        ([0.5, 0.5 + 1e-4], 1e-4, 0),
        ([0.5, 0.5 + 1.01e-4], 1e-4, 1),
        ([0.5, 0.5 - 1.01e-4], 1e-4, 1),
        ([0.5, 0.5 + 0.02], 0.02, 0),
        ([0.5, 0.5 + 0.0201], 0.02, 1),
        ([-1e-9, 1.0], 1e-4, 1),
        ([1.0000002, 0.0], 1e-4, 1),
        ([math.nan, 1.0], 1e-4, 2),
        ([0.5, 0.25], 1e-4, 1),
    ],
)
def test_range_is_exact_and_the_sum_keeps_the_tolerance_that_was_asked_for(
    world: Values, row: list[float], bound: float, wrong: int
) -> None:
    expected = np.array([[0.5, 0.5]], np.float32)
    found = world.one(expected, np.array([row], np.float32), "probabilities", how={"sum_error": bound})
    assert found.range_violations == wrong
    assert found.distribution is not None
    assert found.distribution.outside + found.distribution.sum_violations == wrong


def test_the_element_furthest_outside_is_shown(world: Values) -> None:
    expected = np.full((2, 2), 0.5, np.float32)
    found = world.one(expected, np.array([[-0.1, 1.1], [1.5, -0.5]], np.float32), "probabilities").distribution
    assert found is not None
    assert found.outside_worst is not None
    assert (found.outside, found.outside_worst.index, found.outside_worst.got) == (4, [1, 0], "1.5")


# -- embedding


def test_cosine_and_length_are_those_of_the_plain_formula(world: Values) -> None:
    random = np.random.default_rng(4)
    expected = random.normal(size=(50, 16)).astype(np.float32)
    got = expected + random.normal(size=(50, 16)).astype(np.float32) * 0.1
    found = world.one(expected, got, "embedding").embedding
    left, right = expected.astype(np.float64), got.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
    cosine = (left * right).sum(axis=1) / lengths[0] / lengths[1]
    error = np.abs(lengths[1] - lengths[0]) / lengths[0]
    assert found is not None
    assert found.cosine_worst is not None
    assert found.norm_worst is not None
    assert found.min_cosine == pytest.approx(cosine.min(), abs=1e-12)
    assert found.cosine_worst.index == [int(cosine.argmin())]
    assert found.max_norm_error == pytest.approx(error.max(), rel=1e-9)
    assert found.norm_worst.index == [int(error.argmax())]


def test_rows_of_nothing_have_a_direction_of_their_own(world: Values) -> None:
    zero, one = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)
    for left, right, cosine, error in (
        (zero, zero, 1.0, 0.0),
        (zero, one, 0.0, "inf"),
        (one, zero, 0.0, 1.0),
        (one, -one, -1.0, 0.0),
        (one * np.nan, one * np.nan, 1.0, 0.0),
        (one, one * np.nan, "-inf", "inf"),
        (one, one * np.inf, "-inf", "inf"),
    ):
        found = world.one(left, right, "embedding").embedding
        assert found is not None
        assert (found.min_cosine, found.max_norm_error) == (cosine, error), (left, right)


def test_neighbours_are_looked_for_among_the_rows_of_all_sets(world: Values) -> None:
    random = np.random.default_rng(9)
    expected = random.normal(size=(20, 8)).astype(np.float32)
    got = expected.copy()
    got[3] = -got[3]
    pairs = [
        world.pair(expected[at : at + 1], got[at : at + 1], "embedding", f"s{at}", how={"neighbours": 3})
        for at in range(20)
    ]
    rows = world.rows(*pairs)

    def nearest(side: Any, row: int) -> set[int]:
        wide = side / np.linalg.norm(side, axis=1, keepdims=True)
        order = [int(one) for one in np.argsort(-(wide @ wide[row]), kind="stable") if one != row]
        return set(order[:3])

    for at, row in enumerate(rows):
        assert row.embedding is not None
        assert row.embedding.k == 3
        share = len(nearest(expected, at) & nearest(got, at)) / 3
        assert row.embedding.neighbours == pytest.approx(share)
    assert rows[3].embedding is not None
    assert rows[3].embedding.neighbours_worst is not None


def test_equal_rows_are_equally_near_and_two_rows_have_no_neighbours(world: Values) -> None:
    same = np.ones((9, 4), np.float32)
    random = np.random.default_rng(6)
    noise = [(same + random.normal(size=same.shape) * 1e-4).astype(np.float32) for _ in range(2)]
    found = world.one(*noise, "embedding", how={"neighbours": 3}).embedding
    assert found is not None
    assert (found.k, found.neighbours) == (3, 1.0)
    few = world.one(same[:2], same[:2], "embedding").embedding
    assert few is not None
    assert (few.k, few.neighbours) == (0, None)


# -- boxes

BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [100, 0, 130, 20], [0, 0, 10, 10]], np.float32)
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


# -- sequence


def test_tokens_are_exact_and_the_first_other_one_is_shown(world: Values) -> None:
    expected = np.array([[5, 6, 2, 0], [5, 7, 8, 2]])
    got = expected.copy()
    got[1, 2] = 9
    row = world.one(expected, got, "sequence", how={"end": 2}, atol=5.0)
    found = row.sequence
    assert found is not None
    assert found.token_worst is not None
    assert (found.rows, found.exact, found.tokens, found.unterminated) == (2, 1, 8, 0)
    assert (found.token_worst.index, found.token_worst.expected, found.token_worst.got) == ([1, 2], "8", "9")
    assert row.exceeding == 1


def test_what_follows_the_end_counts_unless_it_was_said_that_it_does_not(world: Values) -> None:
    expected, got = np.array([[5, 2, 0, 0]]), np.array([[5, 2, 7, 7]])
    assert world.one(expected, got, "sequence", how={"end": 2}).exceeding == 2
    ignored = {"end": 2, "ignore_after_end": True}
    same = world.one(expected, got, "sequence", how=ignored)
    assert same.sequence is not None
    assert (same.exceeding, same.sequence.exact, same.sequence.tokens) == (0, 1, 2)
    longer = world.one(expected, np.array([[5, 2]]), "sequence", how=ignored)
    assert (longer.comparable, longer.exceeding) == (True, 0)
    assert world.one(expected, np.array([[5, 2]]), "sequence", how={"end": 2}).note == "shape"


@pytest.mark.parametrize(
    ("row", "token", "end"), [([5, 6, 7], "no token", "no end"), ([5, 6, 2, 1], "6", "the end at 2")]
)
def test_a_row_that_ends_elsewhere_is_named(world: Values, row: list[int], token: str, end: str) -> None:
    expected = np.array([[5, 2, 2, 2]])
    found = world.one(expected, np.array([row]), "sequence", how={"end": 2, "ignore_after_end": True}).sequence
    assert found is not None
    assert found.end_worst is not None
    assert found.token_worst is not None
    assert (found.unterminated, found.end_worst.expected, found.end_worst.got) == (1, "the end at 1", end)
    assert found.token_worst.index == [0, 1]
    assert found.token_worst.got == "6"


# -- audio


def test_the_noise_of_a_known_signal_is_found_in_the_right_channel(world: Values) -> None:
    time = np.arange(4096) / 16_000
    expected = np.stack([np.sin(2 * np.pi * 440 * time), np.sin(2 * np.pi * 880 * time)])[None]
    got = expected.copy()
    got[0, 1] *= 1.01
    row = world.one(expected, got, "audio")
    found = row.audio
    assert found is not None
    assert found.snr_worst is not None
    assert found.lsd_worst is not None
    assert found.min_snr_db == pytest.approx(40.0, abs=1e-9)
    assert (found.channels, found.silent, found.frames, found.snr_worst.index) == (2, 0, 16, [0, 1])
    assert (world.one(expected, expected, "audio").audio or found).min_snr_db == "inf"


def test_a_channel_that_is_twice_as_loud_is_six_decibels_away_in_every_bin(world: Values) -> None:
    noise = np.random.default_rng(3).normal(size=(1, 5120)).astype(np.float32)
    found = world.one(noise, noise * 2, "audio").audio
    assert found is not None
    assert found.lsd_worst is not None
    assert found.max_lsd_db == pytest.approx(20 * math.log10(2), rel=1e-5)
    assert found.min_snr_db == pytest.approx(0.0, abs=1e-6)


def test_silence_and_what_is_no_number(world: Values) -> None:
    silent, tone = np.zeros((1, 1024), np.float32), np.ones((1, 1024), np.float32)
    told = world.one(silent, silent + 1e-7, "audio").audio
    assert told is not None
    assert (told.silent, told.min_snr_db, told.max_lsd_db) == (1, None, 0.0)
    broken = tone.copy()
    broken[0, 600] = np.nan
    lost = world.one(tone, broken, "audio").audio
    assert lost is not None
    assert (lost.min_snr_db, lost.max_lsd_db) == ("-inf", "inf")
    both = world.one(broken, broken, "audio").audio
    assert both is not None
    assert both.max_lsd_db == 0.0


# -- all kinds


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_a_chunk_changes_no_figure(world: Values, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    expected = softmax(random.normal(size=(6, 5, 4)))
    got = softmax(np.log(expected) + random.normal(size=(6, 5, 4)) * 0.2)
    got[2] = expected[2]
    how = {"top_k": 2, "neighbours": 3}
    if kind == "audio":  # a chunk is a multiple of a frame
        monkeypatch.setattr(audio_module, "FRAME", 1)
    sides = world.put(expected), world.put(got)
    whole = world.one(*sides, kind, how=how)
    for most in (1, 3, 4, 9, 60):
        monkeypatch.setattr(values_module, "CHUNK_ELEMENTS", most)
        assert world.one(*sides, kind, how=how) == whole, most


WILD = (0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 3.4e38)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8", "bool", "complex64"])
@pytest.mark.filterwarnings("error")
def test_no_value_makes_the_comparer_raise_or_warn(world: Values, kind: str, dtype: str) -> None:
    random = np.random.default_rng(1)
    for shape in ((3, 4), (0, 4), (3, 0), (2, 2, 4), (4,), (), (1, 1, 1, 4)):
        with np.errstate(all="ignore"):
            sides = [np.asarray(random.choice(WILD, shape)) for _ in range(2)]
            if dtype[0] in "iub":
                sides = [np.nan_to_num(side, posinf=7, neginf=3).clip(0, 9) for side in sides]
            first, second = (side.astype(dtype) for side in sides)
        for pair in ((first, second), (first, first)):
            row = world.one(*pair, kind, how={"top_k": 2, "end": 1, "ignore_after_end": True})
            row.model_validate_json(row.model_dump_json())  # every figure is a finite number or a word


@pytest.mark.parametrize(
    ("how", "note"),
    [
        ({"columns": ["x1", "y1", "x2", "score"]}, "malformed"),
        ({"columns": ["x1", "y1", "x2", "y2", "score"]}, "malformed"),
    ],
)
def test_columns_that_are_not_those_of_the_tensor_compare_nothing(
    world: Values, how: dict[str, Any], note: str
) -> None:
    assert (world.one(BOXES, BOXES, "boxes", how=how).comparable, note) == (False, "malformed")


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
