"""What each kind of output has beside its elements, against a plain computation of the same formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from acceptd.compare import audio as audio_module
from acceptd.compare import embedding as embedding_module
from acceptd.compare import values as values_module
from tests.compare_world import BOXES, Values

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


def test_rows_of_another_width_are_no_neighbours_of_those_before_them(world: Values) -> None:
    random = np.random.default_rng(6)
    narrow, wide = (random.normal(size=(9, width)).astype(np.float32) for width in (4, 5))
    pairs = [
        world.pair(one, one, "embedding", name, how={"neighbours": 3})
        for name, one in (("narrow", narrow), ("wide", wide))
    ]
    first, second = (row.embedding for row in world.rows(*pairs))
    assert first is not None
    assert second is not None
    assert (first.neighbours, second.neighbours) == (1.0, None)
    assert (second.rows, second.min_cosine) == (9, 1.0)


def test_a_row_too_wide_to_be_kept_has_a_direction_and_no_neighbours(
    world: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values_module, "CHUNK_ELEMENTS", 8)
    monkeypatch.setattr(embedding_module, "MAX_ELEMENTS", 64)
    rows = np.random.default_rng(6).normal(size=(9, 20)).astype(np.float32)
    found = world.one(rows, -rows, "embedding", how={"neighbours": 3}).embedding
    assert found is not None
    assert (found.rows, found.neighbours) == (9, None)
    assert found.min_cosine == pytest.approx(-1.0)


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
