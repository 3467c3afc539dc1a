"""Kinds that are more than their elements, where two computations of one model stand against each other.

Relations between calls and onnx's own evaluator compare boxes whatever their order, tokens exactly, and vectors
and sound by their figures too; what next to nothing differs by is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from acceptd.compare import oracles
from acceptd.compare.blob import Blob
from acceptd.compare.relations import Relations
from acceptd.compare.service import compare
from acceptd.compare.task import CompareTask, Pair
from acceptd.evidence import Case, JobRecord, Named, OutputStats, SequenceRef
from acceptd.judge import oracle, relations
from acceptd.judge.agreement import apart
from acceptd.judge.tolerance import promised
from acceptd.kind_facts import Embedding
from acceptd.kind_facts import Sequence as Tokens
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world
from tests.compare_world import Values
from tests.unit.test_judge_oracle import COSTED, beside, reference

pytestmark = pytest.mark.unit
DRAWS = "probe:draws-0"
KEYS = ("outputs:main", "outputs:main:unoptimised", "outputs:main:reference")
Array = Any
Outputs = Mapping[str, Array]

BOXES: list[dict[str, Any]] = [
    {"name": "boxes", "dtype": "float32", "shape": ["batch", 3, 4], "kind": "boxes"}
    | {"boxes": {"scores": "scores", "classes": "classes"}},
    {"name": "scores", "dtype": "float32", "shape": ["batch", 3], "kind": "values"},
    {"name": "classes", "dtype": "int64", "shape": ["batch", 3], "kind": "values"},
]
TOKENS: list[dict[str, Any]] = [
    {"name": "ids", "dtype": "int64", "shape": ["batch", 4], "kind": "sequence"}
    | {"sequence": {"end": 0, "after": "ignored"}}
]


def single(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "y", "dtype": "float32", "shape": ["batch", 4], "kind": kind} | more]


def manifest(outputs: list[dict[str, Any]]) -> Manifest:
    inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]
    model = {"name": "main", "file": "model.onnx", "inputs": inputs, "outputs": outputs}
    bundle = {"id": "a/b", "version": "1"}
    whole = {"schema": 1, "bundle": bundle, "dims": {"batch": {"min": 1, "max": 8}}, "models": [model]}
    return Manifest.model_validate(whole)


@pytest.fixture
def values() -> Iterator[Values]:
    made = Values()
    yield made
    made.close()


def case(values: Values, name: str, outputs: Mapping[str, Array | list[Array]]) -> Case:
    """One case; a list is what several calls gave."""
    named = []
    for output, array in outputs.items():
        if isinstance(array, list):
            items = [values.put(one).value for one in array]
            named.append(Named(name=output, value=SequenceRef(kind="sequence", items=items)))
        else:
            named.append(Named(name=output, value=values.put(array).value))
    return Case(set=name, repeat=0, outputs=named)


def record(kind: str, variant: str, cases: list[Case]) -> JobRecord:
    fields = {"kind": kind, "model": "main", "variant": variant, "ending": "done", "cases": cases}
    return JobRecord.model_validate(fields)


def rows(values: Values, pairs: list[Pair]) -> list[OutputStats]:
    blob = Blob(values._file.fileno())
    task = CompareTask.model_validate(CompareTask(pairs=pairs).model_dump())
    return compare(task, dict.fromkeys(KEYS, blob)).outputs


def related(
    values: Values, declared: Manifest, draws: Outputs, second: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Severity by code where the main run gave ``draws`` and the second process ``second``, by case."""
    main = record("run", "", [case(values, DRAWS, draws)])
    plain = record("run", "unoptimised", [case(values, name, one) for name, one in second.items()])
    made = Relations(declared, declared.models[0], None, Policy(), [], main, plain)
    found = rows(values, list(made.pairs()))
    assert found
    assert all(row.rtol == row.atol == 0.0 for row in found if row.output == "ids")
    return {one.code: one.severity for one in relations.comparisons(declared, found, {}, None, Policy())}


def evaluated(
    values: Values, declared: Manifest, run: Outputs, other: Outputs
) -> tuple[list[OutputStats], list[str]]:
    """The rows of a run beside the evaluator, and the figures that are broken."""
    ran, told = case(values, DRAWS, run), record("reference", "", [case(values, DRAWS, other)])
    model = declared.models[0]
    found = rows(values, list(oracles.pairs(declared, model, {DRAWS: ran}, told, None, Policy())))
    specs = {one.name: one for one in model.outputs}
    broken = [
        breach.figure
        for row in found
        for breach in apart(row, oracle.tolerance(declared, "main", specs[row.output], None, Policy(), ""))
    ]
    return found, broken + [row.note for row in found if not row.comparable]


def detections() -> dict[str, Array]:
    boxes = np.array(
        [[[0, 0, 2, 2], [5, 5, 9, 9], [20, 0, 30, 8]], [[1, 1, 4, 4], [6, 0, 9, 3], [40, 40, 50, 50]]], np.float32
    )
    scores = np.array([[0.9, 0.8, 0.3], [0.7, 0.6, 0.5]], np.float32)
    return {"boxes": boxes, "scores": scores, "classes": np.array([[1, 2, 3], [3, 2, 1]], np.int64)}


def turned(found: Outputs) -> dict[str, Array]:
    """The same boxes in another order within each image."""
    return {name: np.ascontiguousarray(array[:, [2, 0, 1]]) for name, array in found.items()}


def alone(found: Outputs) -> dict[str, list[Array]]:
    return {name: [np.ascontiguousarray(array[at : at + 1]) for at in (0, 1)] for name, array in found.items()}


def rolled(found: Outputs) -> dict[str, Array]:
    return {name: np.roll(array, 1, axis=0) for name, array in found.items()}


# -- relations


def test_boxes_whose_order_changes_with_the_batch_are_no_difference(values: Values) -> None:
    draws = detections()
    second = {"meta:draws": turned(draws), "meta:single": alone(draws), "meta:order": rolled(draws)}
    assert related(values, manifest(BOXES), draws, second) == {}
    # Calls at once stand against the same calls one after the other, boxes with their scores in each.
    several = {"meta:draws": draws, "meta:single": alone(draws), "meta:concurrent-2": alone(turned(draws))}
    assert related(values, manifest(BOXES), draws, several) == {}


@pytest.mark.parametrize("name", ["boxes", "scores", "classes"])
def test_a_box_that_is_elsewhere_or_goes_with_another_score_or_class_is_held(values: Values, name: str) -> None:
    draws = detections()
    changed = {key: array.copy() for key, array in turned(draws).items()}
    changed[name][1] = changed[name][1, [1, 0, 2]] if name != "boxes" else changed[name][1] + np.float32(100)
    found = related(values, manifest(BOXES), draws, {"meta:draws": draws, "meta:single": alone(changed)})
    assert found == {"behaviour/row-dependence": "hold"}


def test_tokens_are_exact_however_large_and_what_follows_the_end_is_nothing(values: Values) -> None:
    ids = np.array([[200_000, 7, 0, 5], [3, 200_001, 8, 0]], np.int64)
    padded = np.array([[200_000, 7, 0, 99], [3, 200_001, 8, 0]], np.int64)
    assert related(values, manifest(TOKENS), {"ids": ids}, {"meta:draws": {"ids": padded}}) == {}
    # One in 200,000 is less than the relative rounding that a number may show, and another word.
    other = ids + np.array([[1, 0, 0, 0], [0, 0, 0, 0]])
    found = related(values, manifest(TOKENS), {"ids": ids}, {"meta:draws": {"ids": other}})
    assert found == {"behaviour/process-differs": "hold"}
    same = {"meta:draws": {"ids": ids}, "meta:single": {"ids": [ids[:1], ids[1:]]}}
    assert related(values, manifest(TOKENS), {"ids": ids}, same) == {}
    changed = {"ids": [other[:1], ids[1:]]}
    found = related(values, manifest(TOKENS), {"ids": ids}, {"meta:draws": {"ids": ids}, "meta:single": changed})
    assert found == {"behaviour/row-dependence": "hold"}


def test_an_embedding_that_turns_within_a_wide_tolerance_is_told_and_one_of_nothing_is_not(values: Values) -> None:
    wide = manifest(single("embedding", tolerance={"rtol": 0.0, "atol": 0.01}))
    small = np.full((2, 4), 0.01, np.float32)
    away = small * np.array([1, 1, 1, 0.2], np.float32)
    assert related(values, wide, {"y": small}, {"meta:draws": {"y": away}}) == {
        "behaviour/process-differs": "warn"
    }
    nothing = np.full((2, 4), 1e-7, np.float32)
    assert related(values, wide, {"y": nothing}, {"meta:draws": {"y": -nothing}}) == {}


def test_sound_next_to_silence_has_no_ratio(values: Values) -> None:
    sound = manifest(single("audio"))
    quiet = np.full((2, 4), 1e-7, np.float32)
    assert related(values, sound, {"y": quiet}, {"meta:draws": {"y": -quiet}}) == {}
    loud = np.array([[0.5, -0.5, 0.25, -0.25]] * 2, np.float32)
    found = related(values, sound, {"y": loud}, {"meta:draws": {"y": -loud}})
    assert found == {"behaviour/process-differs": "hold"}


# -- the evaluator


def test_boxes_in_another_order_agree_with_the_evaluator_and_a_lost_one_does_not(values: Values) -> None:
    draws = detections()
    found, broken = evaluated(values, manifest(BOXES), draws, turned(draws))
    assert broken == []
    assert {row.output for row in found} == {"boxes", "scores", "classes"}
    gone = {key: array.copy() for key, array in draws.items()}
    gone["boxes"][0, 1] += 100
    assert "min_matched" in evaluated(values, manifest(BOXES), gone, draws)[1]


def test_tokens_of_the_evaluator_are_exact(values: Values) -> None:
    ids = np.array([[200_000, 7, 0, 5]], np.int64)
    found, broken = evaluated(values, manifest(TOKENS), {"ids": ids}, {"ids": ids})
    assert broken == []
    assert [(row.rtol, row.atol) for row in found] == [(0.0, 0.0)]
    assert "tokens" in evaluated(values, manifest(TOKENS), {"ids": ids}, {"ids": ids + 1})[1]


@pytest.mark.parametrize(
    ("kind", "figures", "said"),
    [
        ("sequence", {"sequence": Tokens(rows=4, exact=3)}, "another token"),
        ("embedding", {"embedding": Embedding(rows=4, min_cosine=0.5), "max_abs": 0.01}, "cosine"),
    ],
)
def test_a_figure_of_the_whole_holds_where_no_element_is_beyond(
    kind: str, figures: dict[str, Any], said: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        output = document["models"][0]["outputs"][0]
        output["kind"] = kind
        del output["tolerance"], output["labels"]

    declared = world.a_manifest(change)
    told = world.statistics()
    row = beside(**figures)
    submission = world.submission(
        [world.inspect(facts=COSTED), reference()],
        statistics=told.model_copy(update={"outputs": [*told.outputs, row]}),
    )
    judgement = world.verdict(submission, manifest=declared)
    (finding,) = [one for one in judgement.findings if one.code == "reference/disagrees"]
    assert said in finding.message
    held = promised(declared, "main", declared.models[0].outputs[0], None, Policy())
    assert apart(row, held)


def test_neighbours_among_noise_are_no_disagreement() -> None:
    declared = manifest(single("embedding"))
    row = world.stats("x", against="reference", max_abs=0.01, embedding=Embedding(rows=4, neighbours=0.1))
    assert not apart(row, promised(declared, "main", declared.models[0].outputs[0], None, Policy()))
