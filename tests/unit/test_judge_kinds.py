"""Tolerances of every kind: whose word counts, what no manifest can loosen, and which limits a row breaks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from acceptd.compare.promise import Promise
from acceptd.compare.task import Slice
from acceptd.evidence import OutputStats
from acceptd.judge.agreement import breaches
from acceptd.judge.tolerance import Resolved, promised
from acceptd.kind_facts import CLASSES, Audio, Boxes, Distribution, Embedding, Place, Ranking, Sequence
from acceptd.policy.contract import Contract
from acceptd.policy.load import load_policy
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import CapsTable, Policy
from acceptd.policy.tolerance import LIMITS, least
from tests import judge_world as world
from tests.unit.test_policy_load import POLICIES

pytestmark = pytest.mark.unit

Change = Callable[[dict[str, Any]], None]


def output(kind: str, **fields: Any) -> Change:
    """The one output as another kind, with its fields."""

    def change(document: dict[str, Any]) -> None:
        old = document["models"][0]["outputs"][0]
        document["models"][0]["outputs"][0] = {
            key: old[key] for key in ("name", "dtype", "shape", "labels") if key in old
        } | {"kind": kind, **fields}

    return change


def held(manifest: Manifest, contract: Contract | None = None, policy: Policy | None = None) -> Resolved:
    model = manifest.models[0]
    return promised(manifest, model.name, model.outputs[0], contract, policy or Policy())


def limits(**bounds: float) -> dict[str, Any]:
    return {"tolerance": {"rtol": 0.0, "atol": 1e-6, "limits": bounds}}


def loosest(name: str) -> float:
    known = LIMITS[name]
    if least(name):
        return known.low
    return known.high if math.isfinite(known.high) else 1e30


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("file", ["default", "strict"])
def test_no_manifest_loosens_what_the_policy_caps(name: str, file: str) -> None:
    policy = load_policy(POLICIES / f"{file}.toml")
    kind = sorted(LIMITS[name].kinds)[0]
    extra = {"top_k": 2} if name == "min_topk" else {}
    loose = world.a_manifest(output(kind, **limits(**{name: loosest(name)}), **extra))
    found = held(loose, policy=policy)
    assert found.limits[name] == policy.parity.caps.of(name)
    assert found.capped


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_a_cap_and_a_bound_that_is_no_looser_where_nothing_is_declared(name: str) -> None:
    assert name in CapsTable.model_fields
    for kind in LIMITS[name].kinds:
        extra = {"top_k": 2} if name == "min_topk" else {}
        bound = held(world.a_manifest(output(kind, **extra))).limits[name]
        cap = Policy().parity.caps.of(name)
        assert bound >= cap if least(name) else bound <= cap


@pytest.mark.parametrize(("kind", "top_k"), [("probabilities", None), ("logits", None), ("probabilities", 2)])
def test_the_top_classes_are_bounded_only_where_somebody_counts_on_them(kind: str, top_k: int | None) -> None:
    plain, counted = world.a_manifest(output(kind)), world.a_manifest(output(kind, top_k=top_k))
    assert ("min_topk" in held(counted).limits) is (top_k is not None)
    agreed = world.a_contract(output(kind, top_k=top_k))
    assert ("min_topk" in held(plain, agreed).limits) is (top_k is not None), "the contract's count is enough"


def test_a_contract_decides_before_the_manifest_and_the_manifest_only_tightens_it() -> None:
    def agreed(bound: float) -> Contract:
        return world.a_contract(output("embedding", **limits(min_cosine=bound)))

    plain, strict, loose = (
        world.a_manifest(output("embedding", **given))
        for given in ({}, limits(min_cosine=0.99999), limits(min_cosine=0.5))
    )
    assert held(plain, agreed(0.9)).limits["min_cosine"] == 0.9  # laxer than the policy: the acceptor may
    assert held(strict, agreed(0.9)).limits["min_cosine"] == 0.99999
    assert held(loose, agreed(0.9)).limits["min_cosine"] == 0.9
    assert held(loose).limits["min_cosine"] == Policy().parity.caps.min_cosine
    assert held(plain, agreed(0.9)).limits["max_norm_error"] == 0.001  # of what it is silent the policy speaks

    def coarse(document: dict[str, Any]) -> None:
        output("embedding", tolerance={"rtol": 0.0, "atol": 0.05})(document)
        document["max_atol"] = 1.0

    assert held(plain, world.a_contract(coarse)).atol == 0.05
    assert held(strict, world.a_contract(coarse)).atol == 1e-6


def test_the_sum_of_a_row_follows_the_declared_tolerance_up_to_the_cap() -> None:
    def bound(tolerance: dict[str, Any] | None, method: str | None = None) -> float:
        def change(document: dict[str, Any]) -> None:
            document["models"][0]["outputs"][0]["tolerance"] = tolerance
            if method:
                document["quantization"] = {"method": method}

        return held(world.a_manifest(change)).limits["max_sum_error"]

    assert bound(None) == 1e-4
    assert bound({"rtol": 0.0, "atol": 1e-6}) == 1e-4
    assert bound({"rtol": 0.0, "atol": 5e-3}) == 5e-3
    assert bound({"rtol": 0.0, "atol": 5.0}) == 0.01  # max_atol cuts first
    assert bound(None, "static") == bound({"rtol": 0.0, "atol": 1e-6}, "static") == 0.02
    assert bound(None, "weight-only") == 1e-4
    own = {"rtol": 0.0, "atol": 5e-3, "limits": {"max_sum_error": 2e-4}}
    assert bound(own, "static") == 2e-4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "logits", **limits(min_cosine=0.9)}, "min_cosine is a limit of kind embedding, not of logits"),
        ({"kind": "embedding", **limits(min_cosine=2.0)}, "min_cosine is 2: -1 to 1 makes sense"),
        ({"kind": "audio", **limits(max_lsd_db=math.nan)}, "max_lsd_db is nan"),
        ({"kind": "boxes", **limits(max_score_error=-1.0)}, "max_score_error is -1: 0 or more makes sense"),
        ({"kind": "values", "top_k": 3}, "top_k is for kind logits or probabilities"),
        ({"kind": "logits", "boxes": {}}, "boxes is for kind boxes"),
        ({"kind": "boxes", "boxes": {"columns": ["x1", "y1", "x2", "score"]}}, "columns name one box"),
        ({"kind": "boxes", "boxes": {"columns": ["x1", "y1", "x2", "y2", "x1"]}}, "columns name one box"),
        ({"kind": "boxes", "boxes": {"scores": "gone"}}, "'gone' is no output of kind \"values\""),
    ],
)
def test_nonsense_about_a_kind_is_refused_with_a_plain_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        world.a_manifest(output(fields.pop("kind"), **fields))
    assert message in str(raised.value)


# -- pairs


def detector(document: dict[str, Any]) -> None:
    document["models"][0]["outputs"] = [
        {"name": "classes", "dtype": "int64", "shape": ["batch", 5]},
        {"name": "boxes", "dtype": "float32", "shape": ["batch", 5, 4], "kind": "boxes"}
        | {"boxes": {"scores": "scores", "classes": "classes"}},
        {"name": "scores", "dtype": "float32", "shape": ["batch", 5], "tolerance": {"rtol": 0.0, "atol": 0.001}},
    ]


def test_scores_and_classes_travel_with_their_boxes() -> None:
    manifest = world.a_manifest(detector)
    model = manifest.models[0]
    part = Slice(file="f", value=world.ref())
    whole = dict.fromkeys(("boxes", "scores", "classes"), part)
    (pair,) = Promise(manifest, None, Policy()).pairs(model, "s", "golden", whole, whole)
    assert (pair.output, pair.kind, pair.how.min_iou) == ("boxes", "boxes", 0.95)
    assert pair.how.scores is not None
    assert pair.how.classes is not None
    assert (pair.how.scores.output, pair.how.scores.atol) == ("scores", 0.001)
    assert (pair.how.classes.output, pair.how.classes.atol) == ("classes", 0.0)
    without = dict.fromkeys(("scores", "classes"), part)
    pairs = Promise(manifest, None, Policy()).pairs(model, "s", "golden", without, whole)
    assert [(one.output, one.kind) for one in pairs] == [("scores", "values"), ("classes", "values")]


def test_the_contract_says_what_follows_an_end_and_not_the_manifest() -> None:
    ignored = {"sequence": {"end": 7, "after": "ignored"}}
    manifest = world.a_manifest(output("sequence", **ignored))
    model, part = manifest.models[0], {"probabilities": Slice(file="f", value=world.ref())}
    contract = world.a_contract(output("sequence", sequence={"end": 2}))
    own, agreed = (
        next(Promise(manifest, one, Policy()).pairs(model, "s", "golden", part, part)) for one in (None, contract)
    )
    assert (own.how.end, own.how.ignore_after_end) == (7, True)
    assert (agreed.how.end, agreed.how.ignore_after_end) == (2, False)


def test_tokens_are_exact_whatever_tolerance_is_declared_for_them() -> None:
    manifest = world.a_manifest(output("sequence", tolerance={"rtol": 0.01, "atol": 0.01}))
    for dtype, atol in (("int64", 0.0), ("string", 0.0), ("float32", 0.01)):
        part = {"probabilities": Slice(file="f", value=world.ref().model_copy(update={"dtype": dtype}))}
        (pair,) = Promise(manifest, None, Policy()).pairs(manifest.models[0], "s", "golden", part, part)
        assert (pair.rtol, pair.atol) == (atol, atol), dtype


# -- breaches

PLACE = Place(index=[1, 2], expected="a", got="b")
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # figure: kind, a row that keeps the bound exactly, a row just beyond
    "min_topk": (
        "logits",
        {"ranking": Ranking(rows=10, topk_mismatches=0)},
        {"ranking": Ranking(rows=10, topk_mismatches=1, topk_worst=PLACE)},
    ),
    "max_divergence": (
        "probabilities",
        {"distribution": Distribution(max_divergence=0.01)},
        {"distribution": Distribution(max_divergence=0.0100001, divergence_worst=PLACE)},
    ),
    "max_sum_error": (
        "probabilities",
        {"distribution": Distribution(max_sum_error=1e-4)},
        {"distribution": Distribution(max_sum_error=1.1e-4, sum_violations=1, sum_worst=PLACE)},
    ),
    "range": (
        "probabilities",
        {"distribution": Distribution(outside=0)},
        {"distribution": Distribution(outside=1, outside_worst=PLACE)},
    ),
    "min_cosine": (
        "embedding",
        {"embedding": Embedding(min_cosine=0.9999)},
        {"embedding": Embedding(min_cosine=0.99989, cosine_worst=PLACE)},
    ),
    "max_norm_error": (
        "embedding",
        {"embedding": Embedding(max_norm_error=0.001)},
        {"embedding": Embedding(max_norm_error="inf", norm_worst=PLACE)},
    ),
    "min_neighbours": (
        "embedding",
        {"embedding": Embedding(k=3, neighbours=0.9)},
        {"embedding": Embedding(k=3, neighbours=0.89, neighbours_worst=PLACE)},
    ),
    "min_iou": ("boxes", {"boxes": Boxes(min_iou=0.95)}, {"boxes": Boxes(min_iou=0.94, iou_worst=PLACE)}),
    "min_matched": ("boxes", {"boxes": Boxes(share=1.0)}, {"boxes": Boxes(share=0.99, unmatched_worst=PLACE)}),
    "min_classes": (
        "boxes",
        {"boxes": Boxes(class_share=1.0)},
        {"boxes": Boxes(class_share=0.99, class_worst=PLACE)},
    ),
    "max_score_error": (
        "boxes",
        {"boxes": Boxes(max_score_error=0.01)},
        {"boxes": Boxes(max_score_error=0.011, score_worst=PLACE)},
    ),
    "tokens": (
        "sequence",
        {"sequence": Sequence(rows=2, exact=2)},
        {"sequence": Sequence(rows=2, exact=1, token_worst=PLACE)},
    ),
    "end": (
        "sequence",
        {"sequence": Sequence(rows=2, exact=2)},
        {"sequence": Sequence(rows=2, exact=2, unterminated=1, end_worst=PLACE)},
    ),
    "min_snr_db": (
        "audio",
        {"audio": Audio(min_snr_db=40.0)},
        {"audio": Audio(min_snr_db="-inf", snr_worst=PLACE)},
    ),
    "max_lsd_db": (
        "audio",
        {"audio": Audio(max_lsd_db=1.0)},
        {"audio": Audio(max_lsd_db="nan", lsd_worst=PLACE)},
    ),
}


def test_every_limit_has_a_case() -> None:
    assert set(LIMITS) <= set(CASES)


@pytest.mark.parametrize("figure", CASES)
def test_a_figure_at_its_bound_is_kept_and_beyond_it_is_rejected_with_the_worst_place(figure: str) -> None:
    kind, at, beyond = CASES[figure]
    manifest = world.a_manifest(output(kind, **({"top_k": 2} if figure == "min_topk" else {})))
    assert breaches(world.stats(**at), held(manifest)) == ()
    (broken,) = breaches(world.stats(**beyond), held(manifest))
    assert (broken.figure, broken.place) == (figure, PLACE)
    judged = world.verdict(world.submission(statistics=world.statistics(world.stats(**beyond))), manifest=manifest)
    (finding,) = [one for one in judged.findings if one.code.startswith("parity/")]
    assert (judged.verdict, finding.severity) == ("rejected", "reject")
    shown = finding.evidence
    assert (shown["index"], shown["expected"], shown["got"], shown["set"]) == ([1, 2], "a", "b", "test_data_set_0")
    assert "[1, 2]: expected a, got b" in finding.message
    good = world.submission(statistics=world.statistics(world.stats(**at)))
    assert world.verdict(good, manifest=manifest).verdict == "accepted"


def test_a_row_that_could_not_be_compared_has_no_figures_and_class_companions_count_with_their_boxes() -> None:
    loose = held(world.a_manifest())
    assert breaches(world.stats(comparable=False, note="shape", exceeding=3), loose) == ()
    assert breaches(world.stats(note=CLASSES, exceeding=3), loose) == ()
    assert [one.figure for one in breaches(world.stats(exceeding=3), loose)] == ["elements"]


def test_evidence_from_before_the_figures_is_still_judged() -> None:
    old = world.stats(range_violations=1).model_dump(exclude_none=True)
    assert "distribution" not in old
    row = OutputStats.model_validate(old)
    judged = world.verdict(world.submission(statistics=world.statistics(row)))
    assert world.codes(judged, "reject") == ["parity/not-probabilities"]


# -- drift, FIXTURE.md


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"exceeding": 1, "max_abs": 1e-3}, ("accepted", ["parity/drift"])),
        ({"exceeding": 1, "max_abs": 0.01}, ("accepted", ["parity/drift"])),
        ({"exceeding": 1, "max_abs": 0.0100001}, ("rejected", ["parity/mismatch"])),
        ({"exceeding": 0, "max_abs": 1e-5}, ("accepted", [])),
        ({"exceeding": 0, "max_abs": 1e-5, "top1_mismatches": 1}, ("rejected", ["parity/class-changed"])),
        (
            {"exceeding": 1, "max_abs": 1e-3, "top1_mismatches": 1},
            ("rejected", ["parity/class-changed", "parity/mismatch"]),
        ),
        ({"exceeding": 1, "max_abs": 1e-3, "top1_total": 0}, ("rejected", ["parity/mismatch"])),
    ],
)
def test_logits_may_drift_within_their_class_and_no_further(row: dict[str, Any], told: tuple[str, Any]) -> None:
    manifest = world.a_manifest(output("logits"))
    judged = world.verdict(world.submission(statistics=world.statistics(world.stats(**row))), manifest=manifest)
    assert (judged.verdict, sorted(world.codes(judged, "reject", "hold", "warn"))) == told
