"""What a reader is told of a broken limit: figure, measured value, bound, place and one sentence, exactly."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.judge.agreement import apart, breaches
from acceptd.judge.goldens import goldens
from acceptd.judge.inventory import take
from acceptd.judge.tolerance import Resolved
from acceptd.kind_facts import Audio, Boxes, Distribution, Embedding, Place, Ranking, Sequence
from acceptd.policy.policy import Policy, VectorsTable
from tests import judge_world as world

pytestmark = pytest.mark.unit
PLACE = Place(index=[3, 1], expected="7", got="9")
FIRST = "; first at [3, 1]: expected 7, got 9"
WORST = "; worst at [3, 1]: expected 7, got 9"


def held(top1: float | None = None, **limits: float) -> Resolved:
    return Resolved(0.25, 0.5, top1, explicit=True, capped=False, limits=limits)


BREACHES: dict[str, tuple[dict[str, Any], Resolved, tuple[str, float | str, float, str]]] = {
    "elements": (
        {
            "exceeding": 2, "n": 6, "max_abs": 0.75, "atol": 0.5, "rtol": 0.25,
            "worst_index": [3, 1], "worst_expected": "7", "worst_got": "9",
        },
        held(),
        ("elements", 0.75, 0.5, "2 of 6 elements beyond atol 0.5 + rtol 0.25" + WORST),
    ),
    "a class": (
        {"top1_mismatches": 1, "top1_total": 4, "ranking": Ranking(rows=4, top1_worst=PLACE)},
        held(0.8),
        ("top1", 0.75, 0.8, "1 of 4 rows have another top class than expected" + FIRST),
    ),
    "classes that nobody counted": (
        {"top1_mismatches": 1, "top1_total": 0},
        held(0.8),
        ("top1", 0.0, 0.8, "1 of 0 rows have another top class than expected"),
    ),
    "a value outside": (
        {"distribution": Distribution(rows=4, outside=1, outside_worst=PLACE)},
        held(),
        ("range", 1, 0, "1 value outside [0, 1]" + WORST),
    ),
    "values outside": (
        {"distribution": Distribution(rows=4, outside=2, outside_worst=PLACE)},
        held(),
        ("range", 2, 0, "2 values outside [0, 1]" + WORST),
    ),
    "tokens": (
        {"sequence": Sequence(rows=10, exact=7, token_worst=PLACE)},
        held(),
        ("tokens", 3, 0, "3 of 10 rows have another token" + FIRST),
    ),
    "ends": (
        {"sequence": Sequence(rows=10, exact=10, unterminated=2, end_worst=PLACE)},
        held(),
        ("end", 2, 0, "2 of 10 rows end elsewhere" + FIRST),
    ),
    "the highest classes": (
        {"ranking": Ranking(rows=4, topk_mismatches=1, topk_worst=PLACE)},
        held(min_topk=0.8),
        ("min_topk", 0.75, 0.8, WORST),
    ),
    "a sum": (
        {"distribution": Distribution(rows=4, max_sum_error=0.25, sum_violations=1, sum_worst=PLACE)},
        held(max_sum_error=0.125),
        ("max_sum_error", 0.25, 0.125, WORST),
    ),
    "a direction": (
        {"embedding": Embedding(rows=4, min_cosine=0.5, cosine_worst=PLACE)},
        held(min_cosine=0.75),
        ("min_cosine", 0.5, 0.75, WORST),
    ),
    "a direction that is no number": (
        {"embedding": Embedding(rows=4, min_cosine="nan", cosine_worst=PLACE)},
        held(min_cosine=0.75),
        ("min_cosine", "nan", 0.75, WORST),
    ),
    "neighbours": (
        {"embedding": Embedding(rows=4, neighbours=0.5, neighbours_worst=PLACE)},
        held(min_neighbours=0.75),
        ("min_neighbours", 0.5, 0.75, WORST),
    ),
    "a box": (
        {"boxes": Boxes(min_iou=0.5, iou_worst=PLACE)},
        held(min_iou=0.75),
        ("min_iou", 0.5, 0.75, WORST),
    ),
    "a score": (
        {"boxes": Boxes(max_score_error=0.5, score_worst=PLACE)},
        held(max_score_error=0.25),
        ("max_score_error", 0.5, 0.25, WORST),
    ),
    "noise": (
        {"audio": Audio(channels=2, min_snr_db=10.5, snr_worst=PLACE)},
        held(min_snr_db=20.0),
        ("min_snr_db", 10.5, 20.0, WORST),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREACHES)
def test_a_broken_limit_is_told_with_what_was_measured_its_bound_and_its_place(name: str) -> None:
    row, limits, (figure, value, bound, text) = BREACHES[name]
    (found,) = breaches(world.stats(**row), limits)
    assert (found.figure, found.value, found.bound) == (figure, value, bound)
    if text.startswith(";"):
        side = "less" if figure.startswith("min") else "more"
        assert found.text.endswith(f" is {value}, {side} than {bound:g}{text}")
    else:
        assert found.text == text
    if found.place.index:
        assert found.shown() == {
            "figure": figure, "value": value, "bound": bound, "index": [3, 1], "expected": "7", "got": "9",
        }  # fmt: skip


@pytest.mark.parametrize("name", BREACHES)
def test_a_row_that_cannot_be_compared_breaks_nothing_by_its_figures(name: str) -> None:
    row, limits, _ = BREACHES[name]
    assert breaches(world.stats(**row, comparable=False, note="shape"), limits) == ()


@pytest.mark.parametrize(("value", "breaks"), [(0.75, False), (0.75 - 1e-13, False), (0.75 - 1e-9, True)])
def test_a_limit_is_kept_to_within_the_rounding_of_float64_and_no_further(value: float, breaks: bool) -> None:
    row = world.stats(embedding=Embedding(rows=1, min_cosine=value))
    assert bool(breaches(row, held(min_cosine=0.75))) is breaks
    above = world.stats(embedding=Embedding(rows=1, max_norm_error=1.5 - value))
    assert bool(breaches(above, held(max_norm_error=0.75))) is breaks


def test_two_computations_of_next_to_nothing_differ_in_no_direction() -> None:
    turned = Embedding(rows=1, min_cosine=-1.0)
    limits = held(min_cosine=0.75)
    assert apart(world.stats(embedding=turned, max_abs=1e-6), limits) == ()
    assert [one.figure for one in apart(world.stats(embedding=turned, max_abs=2e-6), limits)] == ["min_cosine"]
    assert [one.figure for one in apart(world.stats(embedding=turned, max_abs="inf"), limits)] == ["min_cosine"]


# -- golden sets whose origin does not count: a reader is told which, at most sixteen by name


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("", "vectors/origin-undeclared"),
        ("jax", "vectors/origin-not-accepted"),
        ("onnxruntime", "vectors/regression-only"),
    ],
)
def test_many_golden_sets_of_no_weight_are_counted_and_sixteen_of_them_named(origin: str, code: str) -> None:
    names = [f"set_{index:02d}" for index in range(20)]
    paths = [f"{name}/{kind}_0.pb" for name in names for kind in ("input", "output")]

    def change(document: dict[str, Any]) -> None:
        table = {"sets": ["set_*"], **({"origin": origin} if origin else {})}
        document["models"][0]["vectors"] = [table]

    manifest = world.a_manifest(change)
    policy = Policy(vectors=VectorsTable(require_origin=["torch *"]))
    found = list(goldens(manifest, take(world.sealed(*paths), manifest), policy))
    (one,) = [finding for finding in found if finding.code == code]
    assert one.where == "models.main.vectors"
    assert one.evidence["sets"] == names[:16]
    assert one.evidence.get("count", 20) == 20
