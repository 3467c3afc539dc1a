"""Ways to be called equal while something else was computed, or other while it was equal: each was tried once."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acceptd.compare import boxes as boxes_module
from acceptd.compare import oracles
from acceptd.compare.promise import Promise
from acceptd.compare.task import Slice
from acceptd.judge import oracle
from acceptd.judge.jobs import Jobs
from acceptd.judge.parity import parity
from acceptd.judge.schema import schema
from acceptd.kind_facts import Boxes, Ranking
from acceptd.policy.policy import Policy
from acceptd.probe_facts import Probed
from sandbox import golden_files
from tests import judge_world as judged
from tests import regression_judged as regressed
from tests.compare_world import Values

pytestmark = pytest.mark.unit
COLUMNS = {"columns": ["x1", "y1", "x2", "y2", "score", "class", "image"]}


@pytest.fixture
def world() -> Iterator[Values]:
    one = Values()
    yield one
    one.close()


def boxes(count: int) -> Any:
    random = np.random.default_rng(count)
    corner = random.random((count, 2)) * 100
    rest = [
        corner + 3,
        random.random((count, 1)),
        random.integers(0, 3, (count, 1)),
        np.arange(count)[:, None] % 3,
    ]
    return np.concatenate([corner, *rest], axis=1).astype(np.float32)


@pytest.mark.parametrize("bound", ["MAX_BOXES", "MAX_PAIRS"])
@pytest.mark.parametrize("fewer", [0, 1])
def test_boxes_by_position_belong_to_the_image_that_they_say(
    world: Values, monkeypatch: pytest.MonkeyPatch, bound: str, fewer: int
) -> None:
    monkeypatch.setattr(boxes_module, bound, 2)
    expected = boxes(6)
    got = expected[: 6 - fewer].copy()
    got[2, 6] = 0
    found = world.one(expected, got, "boxes", how=COLUMNS).boxes
    assert found is not None
    assert found.unmatched_worst is not None
    assert (found.by_position, found.matched, found.share) == (True, 5 - fewer, (5 - fewer) / 6)
    same = world.one(expected, expected, "boxes", how=COLUMNS).boxes
    assert same is not None
    assert (same.matched, same.share) == (6, 1.0)


def test_one_image_of_many_beyond_the_bound_keeps_its_owners(
    world: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes_module, "MAX_PAIRS", boxes_module.LEAST_COST)  # one image
    expected = np.stack([boxes(6)] * 3)
    got = expected[:, ::-1].copy()
    got[2] = expected[2]
    got[2, 3, 6] = 1
    found = world.one(expected, got, "boxes", how=COLUMNS).boxes
    assert found is not None
    assert found.by_position
    assert found.matched < 18
    assert found.unmatched_worst is not None


def test_a_score_among_the_columns_is_held_by_the_tolerance_as_one_beside_them_is(world: Values) -> None:
    expected = boxes(6)
    got = expected.copy()
    got[4, 4] += 0.009
    row = world.one(expected, got, "boxes", how=COLUMNS, atol=1e-6)
    assert (row.exceeding, row.worst_index) == (1, [4, 4])


def test_boxes_that_pad_with_no_number_are_the_same_boxes(world: Values) -> None:
    expected = boxes(6)
    expected[4:] = math.nan
    found = world.one(expected, expected.copy(), "boxes", how=COLUMNS).boxes
    assert found is not None
    assert (found.matched, found.min_iou, found.class_share, found.max_score_error) == (6, 1.0, 1.0, 0.0)
    got = expected.copy()
    got[3] = math.nan
    lost = world.one(expected, got, "boxes", how=COLUMNS).boxes
    assert lost is not None
    assert lost.matched == 5


@pytest.mark.parametrize(("width", "code"), [(1, "parity/mismatch"), (3, "parity/drift")])
def test_a_single_logit_has_no_class_that_would_excuse_a_drift(width: int, code: str) -> None:
    def logits(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0] = {
            "name": "probabilities", "dtype": "float32", "shape": ["batch", width], "kind": "logits",
        }  # fmt: skip

    row = judged.stats(
        n=8 * width, exceeding=8, max_abs=0.009, top1_total=8, top1_mismatches=0, ranking=Ranking(rows=8)
    )
    assert [one.code for one in parity(judged.a_manifest(logits), [row], Policy())] == [code]


TOKENS = {"name": "probabilities", "dtype": "int64", "shape": ["batch", 3]}
IGNORING = {"kind": "sequence", "sequence": {"end": 2, "after": "ignored"}}
EXACT = {"tolerance": {"rtol": 0.0, "atol": 0.0}}


@pytest.mark.parametrize(
    ("agreed", "kind", "ignores"),
    [
        ({"kind": "sequence"}, "sequence", False),
        (IGNORING, "sequence", True),
        (EXACT, "values", False),
        ({}, "sequence", True),  # the contract says nothing of what it means
        (None, "sequence", True),
    ],
)
def test_no_manifest_ignores_tokens_that_the_contract_compares(
    agreed: dict[str, Any] | None, kind: str, ignores: bool
) -> None:
    def outputs(said: dict[str, Any]) -> Any:
        return lambda document: document["models"][0].update(outputs=[TOKENS | said])

    manifest = judged.a_manifest(outputs(IGNORING))
    contract = judged.a_contract(outputs(agreed)) if agreed is not None else None
    value = Slice(file="f", value=judged.ref(dtype="int64"))
    promise = Promise(manifest, contract, Policy())
    table = {"probabilities": value}
    (pair,) = promise.pairs(manifest.models[0], "s", "golden", table, table)
    assert (pair.kind, pair.how.ignore_after_end, pair.rtol, pair.atol) == (kind, ignores, 0.0, 0.0)


def test_no_manifest_unties_the_batch_that_the_contract_ties() -> None:
    def untied(document: dict[str, Any]) -> None:
        document["dims"]["rows"] = document["dims"]["batch"]
        document["models"][0]["outputs"][0]["shape"] = ["rows", 3]

    def renamed(document: dict[str, Any]) -> None:
        untied(document)
        document["models"][0]["inputs"][0]["shape"] = ["rows", 4]

    facts = {"main": judged.facts()}
    contract = judged.a_contract()
    assert [one.code for one in schema(judged.a_manifest(untied), contract, facts)] == ["schema/dimension-bounds"]
    assert not [one for one in schema(judged.a_manifest(renamed), contract, facts) if one.severity == "reject"]


@pytest.mark.parametrize(
    ("share", "classes", "alike"), [(1.0, 1.0, True), (0.5, 1.0, False), (0.0, None, False), (1.0, 0.5, False)]
)
def test_boxes_elsewhere_than_the_evaluator_has_them_are_no_agreement(
    share: float, classes: float | None, alike: bool
) -> None:
    """Boxes without a match are not compared element by element: a kind is no way around the evaluator."""

    def boxed(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0] = {
            "name": "probabilities",
            "dtype": "float32",
            "shape": ["batch", 7],
            "kind": "boxes",
            "boxes": COLUMNS,
        }

    manifest = judged.a_manifest(boxed)
    job = judged.record("reference", model="main", cases=judged.golden_cases(1))
    ran = {one.set: one for one in judged.golden_cases(1)}
    pairs = list(oracles.pairs(manifest, manifest.models[0], ran, job, None, Policy()))
    assert {tuple(one.how.columns) for one in pairs} == {tuple(COLUMNS["columns"])}
    found = Boxes(expected=4, got=4, matched=4, share=share, same_class=4, class_share=classes)
    row = judged.stats(against="reference", boxes=found)
    jobs = Jobs((judged.inspect(), judged.run(), job))
    said = oracle.findings(manifest, jobs, [row], judged.sealed(), None, Policy())
    assert ("reference/disagrees" not in [one.code for one in said]) is alike


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("named", [True, False], ids=["the contract names them", "the manifest alone"])
def test_no_manifest_hides_classes_behind_boxes_that_the_contract_holds_by_themselves(
    exact: bool, named: bool
) -> None:
    def outputs(classes: dict[str, Any], boxes: dict[str, Any]) -> Any:
        box = {"name": "box", "dtype": "float32", "shape": ["batch", 4], "kind": "boxes", **boxes}
        own = {"name": "classes", "dtype": "int64", "shape": ["batch"], **classes}
        return lambda document: document["models"][0].update(outputs=[box, own])

    belongs = {"boxes": {"classes": "classes"}}
    manifest = judged.a_manifest(outputs({}, belongs))
    contract = judged.a_contract(outputs(EXACT if exact else {}, belongs if named else {}))
    table = {name: Slice(file="f", value=judged.ref()) for name in ("box", "classes")}
    pairs = Promise(manifest, contract, Policy()).pairs(manifest.models[0], "s", "golden", table, table)
    alone = exact and not named
    assert [one.output for one in pairs] == (["box", "classes"] if alone else ["box"])


def test_two_arrays_of_one_name_in_a_legacy_set_are_not_chosen_between(tmp_path: Path) -> None:
    ones = np.ones((1, 2), np.float32)
    raw = {}
    for number in (2, 3):
        stream = io.BytesIO()
        np.save(stream, ones * number)
        raw[number] = stream.getvalue()
    with zipfile.ZipFile(tmp_path / "test_data_0.npz", "w") as archive:
        archive.writestr("inputs.npy", raw[2])
        archive.writestr("outputs.npy", raw[2])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("outputs.npy", raw[3])
    spec = {"name": "s", "model": "main", "format": "npz"}
    path = "test_data_0.npz"
    with pytest.raises(golden_files.LeftOutError) as caught:
        list(
            golden_files.values(
                golden_files.Reading(str(tmp_path), {}), spec | {"inputs": path, "outputs": path}, "outputs"
            )
        )
    assert caught.value.code == "vectors/duplicate-name"


@pytest.mark.parametrize(("left", "told"), [(64, "info"), (0, "")])
@pytest.mark.parametrize("required", [True, False])
def test_a_release_that_had_no_time_for_draws_is_no_quiet_agreement(left: int, told: str, required: bool) -> None:
    """A busy machine: goldens agree, and what draws would have shown was never tried."""
    parts = [{"what": "draws", "count": left, "reason": "time"}] if left else []
    probed = [Probed.model_validate({"scope": "inside", "left_out": parts})]
    job = regressed.older(cases=judged.golden_cases(), probed=probed)
    judgement, _, _ = regressed.judged(
        regressed.row(judged.SETS[0], {0: (1, 0)}), jobs=[job], table={"required": required}
    )
    found = {one.where: one.severity for one in judgement.findings if one.code == "regression/not-comparable"}
    assert found == ({"models.main: draws": "hold" if required else told} if told else {})
