"""What the judge makes of figures at their edges: costs, times, placements, floors, what was never measured."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import (
    Case,
    Placement,
    Refused,
    Timing,
)
from acceptd.judge import slower
from acceptd.judge.beside import Beside, beside
from acceptd.judge.distribution import lower, upper
from acceptd.judge.finding import Judgement
from acceptd.judge.inventory import take
from acceptd.judge.jobs import ending
from acceptd.judge.operators_beside import profiles
from acceptd.judge.oracle import AGAINST
from acceptd.judge.performance import best_run_ms
from acceptd.judge.provenance import provenance
from acceptd.judge.regressed import beyond_chance
from acceptd.judge.regression import document
from acceptd.judge.structure import structure
from acceptd.kind_facts import Distribution, Sequence
from acceptd.placement_facts import Profiled
from acceptd.policy.contract import Contract
from acceptd.policy.limits import LimitsTable
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world
from tests import regression_judged as regression

pytestmark = pytest.mark.unit
CPU = "CPUExecutionProvider"


def told(judgement: Judgement) -> dict[str, str]:
    return {one.code: one.message for one in judgement.findings}


# -- where a model comes from


def provenanced(policy: dict[str, Any], **changes: Any) -> dict[str, str]:
    def change(document: dict[str, Any]) -> None:
        document["bundle"] |= {key: value for key, value in changes.items() if key == "license"}
        document["export"] = {key: value for key, value in changes.items() if key != "license"}

    found = provenance(world.a_manifest(change), Policy.model_validate(policy))
    return {one.code: one.message for one in found}


ALLOWED = {"licenses": {"allowed": ["Apache-2.0", "MIT"]}}


def test_a_field_that_the_policy_wants_and_the_bundle_leaves_out_is_named() -> None:
    wanted = {"export": {"required": ["framework", "layers"]}}
    assert provenanced(wanted, framework="torch 2.9") == {
        "export/layers-missing": "the bundle does not say how many layers its source has"
    }
    assert provenanced({}) == {}


def test_a_comparison_that_failed_by_the_submitters_own_word_is_told() -> None:
    parity = {"compared": "torch with onnx", "rtol": 0.0, "atol": 1e-5, "samples": 8, "result": "failed"}
    assert provenanced({}, parity=parity) == {
        "export/parity-failed": "the submitter's own comparison with the source failed: torch with onnx"
    }
    assert provenanced({}, parity=parity | {"result": "passed"}) == {}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (None, {"license/missing": "the bundle names no licence"}),
        ("MIT", {}),
        ("MIT OR GPL-3.0-only", {}),
        ("GPL-3.0-only", {"license/not-allowed": "the policy does not allow GPL-3.0-only"}),
        (
            "MIT AND GPL-3.0-only",
            {"license/not-allowed": "MIT AND GPL-3.0-only: the policy does not allow GPL-3.0-only"},
        ),
    ],
)
def test_only_licences_of_the_policy_pass_and_what_is_not_allowed_is_named(
    written: str | None, found: dict[str, str]
) -> None:
    assert provenanced(ALLOWED, **({"license": written} if written else {})) == found


def test_a_licence_that_is_no_expression_is_not_allowed() -> None:
    assert provenanced(ALLOWED, license="free for friends")["license/not-allowed"].startswith(
        "no SPDX expression:"
    )
    assert provenanced({}, license="free for friends") == {}


# -- the release beside


def test_a_release_that_was_refused_or_never_run_is_told_in_its_own_words() -> None:
    refused = Refused(code="run/load-failed", where="model.onnx", message="no kernel")
    found, _, _ = regression.judged(jobs=[regression.older(ending="refused", refused=refused, done=None)])
    assert "the release's model: refused: run/load-failed: no kernel" in told(found).values()
    given = world.submission(prior=regression.release(), statistics=world.statistics())
    unrun = document(world.a_manifest(), Policy(), given)[0]
    assert (unrun["status"], unrun["reason"]) == ("unavailable", "the release's model was not run")


def compared(*rows: Any, manifest: Manifest | None = None, **table: Any) -> Judgement:
    _, given, _ = regression.judged(*rows, table=table)
    return world.verdict(given, manifest=manifest or world.a_manifest(), policy=regressing(**table))


def regressing(**table: Any) -> Policy:
    return Policy.model_validate({"regression": table})


def test_a_run_that_did_not_end_is_compared_with_nothing() -> None:
    job = world.run(ending="crash", cause="SIGFPE", done=None)
    _, given, policy = regression.judged(*regression.same(), jobs=[job])
    assert document(world.a_manifest(), policy, given) == []
    assert "regression/not-comparable" not in told(world.verdict(given, policy=policy))


def test_a_first_inspection_that_was_lost_takes_nothing_from_the_comparison() -> None:
    """The second record of a task counts: the size with external data, the opsets, the operators."""
    facts = world.facts(opsets={"ai.onnx": 12})
    _, given, policy = regression.judged(*regression.same(), prior=regression.release(facts=facts))
    lost = world.record("inspect", model="main", ending="lost", done=None)
    again = given.model_copy(update={"jobs": [lost, *given.jobs]})
    whole = document(world.a_manifest(), policy, given)
    assert ("opset of ai.onnx", "12", "13") in [tuple(one) for one in whole[0]["opsets"]]
    assert document(world.a_manifest(), policy, again) == whole


def test_an_int8_model_whose_first_inspection_was_lost_has_its_operators_counted() -> None:
    _, given, policy = regression.judged(*regression.same(), quantisation=regression.INT8, operators=[])
    lost = world.record("inspect", model="main", ending="lost", done=None)
    again = given.model_copy(update={"jobs": [lost, *given.jobs]})
    whole = document(world.a_manifest(), policy, given)
    assert ("ai.onnx::Softmax", 1, 0) in [tuple(one) for one in whole[0]["operators"]]
    assert document(world.a_manifest(), policy, again) == whole


def test_an_output_of_another_shape_on_one_input_is_not_what_the_release_gives() -> None:
    row = world.stats(regression.DRAWS[0], against="prior", comparable=False, note="shape")
    whole = regression.row(regression.DRAWS[1], {0: (40, 0), 1: (40, 0), 2: (40, 0)})
    found, _, _ = regression.judged(row, whole)
    assert told(found)["regression/differs"] == "not what the release gives: 1 of 2 outputs: shape"


def test_more_wrong_goldens_than_the_release_has_hold() -> None:
    worse = world.stats(world.SETS[0], against="golden", top1_mismatches=1, exceeding=0)
    _, given, policy = regression.judged(*regression.same())
    assert given.statistics is not None
    kept = [one for one in given.statistics.outputs if (one.set, one.against) != (world.SETS[0], "golden")]
    again = given.model_copy(
        update={"statistics": world.statistics().model_copy(update={"outputs": [worse, *kept]})}
    )
    found = told(world.verdict(again, policy=policy))
    assert found["regression/less-accurate"] == "1 rows of goldens have a wrong class; the release has 0"


def test_tokens_are_the_releases_but_for_the_share_that_the_policy_lets_be_others() -> None:
    def change(document: dict[str, Any]) -> None:
        one = document["models"][0]["outputs"][0]
        one.pop("labels")
        one.pop("tolerance")
        one.update(kind="sequence", dtype="int64")

    row = world.stats(regression.DRAWS[0], against="prior", sequence=Sequence(rows=10, exact=9))
    values = {"values": {"rtol": 0.0, "atol": 0.0}}
    found = told(compared(row, manifest=world.a_manifest(change), within=0.95, **values))
    assert found["regression/differs"] == "9 of 10 rows have the release's tokens, least 0.95"
    assert "regression/differs" not in told(compared(row, manifest=world.a_manifest(change), within=0.9, **values))


def test_chance_is_counted_to_the_last_row() -> None:
    assert beyond_chance(40, 40, 0.5)
    assert beyond_chance(1, 40, 0.0)
    assert not beyond_chance(0, 40, 0.0)
    assert not beyond_chance(20, 40, 0.5)


def test_a_model_that_was_not_inspected_is_beside_nothing() -> None:
    model = world.a_manifest().models[0]
    assert beside(regression.release(), model, None).obstacle == "this model was not inspected"


def test_an_output_without_a_shape_is_like_another_one_without() -> None:
    open_ = world.facts(outputs=[world.value("probabilities", 3, shape=None)])
    model = world.a_manifest().models[0]
    assert beside(regression.release(facts=open_), model, open_).obstacle == ""
    closed = beside(regression.release(facts=open_), model, world.facts())
    assert closed.obstacle == "no output has the name, type and shape of one of the release's"


def test_the_kind_of_an_output_is_told_by_the_release_only_where_its_rows_have_classes() -> None:
    model = world.a_manifest().models[0]
    how = beside(regression.release(), model, world.facts())
    assert (how.ranked("probabilities"), how.ranked("other")) == ("probabilities", "")
    assert Beside("main").ranked("probabilities") == ""


# -- time


def timed(variant: str, ms: float) -> Any:
    return world.run(variant=variant, timing=Timing(set=world.SETS[0], wall_ms=[ms] * 40))


def test_a_comparison_without_times_and_facts_tells_neither_latency_nor_opsets() -> None:
    untimed = world.run(cases=[one for one in world.golden_cases() if not one.repeat])
    _, given, policy = regression.judged(*regression.same(), jobs=[untimed])
    one = document(world.a_manifest(), policy, given)[0]
    assert [cost["what"] for cost in one["cost"]] == ["size", "peak memory"]
    bare = [job for job in given.jobs if job.kind != "inspect"]
    one = document(world.a_manifest(), policy, given.model_copy(update={"jobs": bare}))[0]
    assert (one["status"], one["reason"]) == ("not-comparable", "this model was not inspected")


def test_a_profile_that_gave_nothing_says_why_in_the_order_of_who_knows_best() -> None:
    whole = world.run(variant="profiled-prior", profiled=Profiled(runs=1))
    refused = Refused(code="run/load-failed", where="model.onnx", message="no kernel")
    for record, said in (
        (None, "there was none"),
        (world.run(ending="refused", refused=refused, done=None), "no kernel"),
        (world.run(profiled=Profiled(note="the file was cut")), "the file was cut"),
        (world.run(ending="limit", cause="cpu", done=None), "cpu"),
        (world.run(ending="lost", cause="", message="gone", done=None), "gone"),
    ):
        found = profiles(whole, record)
        assert found is not None
        assert found.reason == f"this model's run under the profiler gave nothing: {said}"
    assert profiles(None, whole) is None


def test_only_a_first_round_that_looks_slower_is_worth_timing_in_turn() -> None:
    how = Beside("main", quantised=False)
    records = [timed("", 4.0), timed("prior", 1.0)]
    assert slower.suspected(records, how, regressing(latency_ratio=1.5))
    assert not slower.suspected(records, how, regressing(latency_ratio=8.0))
    assert not slower.suspected(records[:1], how, regressing(latency_ratio=1.5))
    policy = regressing(latency_ratio=1.5)
    unlimited = policy.model_copy(
        update={"regression": policy.regression.model_copy(update={"latency_ratio": None})}
    )
    assert not slower.suspected(records, how, unlimited)
    assert slower.latency(world.a_manifest().models[0], records[:1], how.limits(policy), policy) is None


def test_a_bound_below_needs_samples_and_takes_the_last_one_when_all_are_below_chance() -> None:
    assert lower([], 0.5) is upper([], 0.5) is None
    assert lower([1.0], 0.5) is None
    assert lower([float(one) for one in range(1, 101)], 0.5) is not None
    assert lower([1.0, 2.0], 1.0) == 2.0


def test_the_slowest_golden_set_counts_at_its_fastest_and_neither_probes_nor_errors_do() -> None:
    cases = [
        Case(set=name, repeat=0, outputs=[], wall_ms=ms, error=error)
        for name, ms, error in (("a", 3.0, ""), ("a", 2.0, ""), ("b", 9.0, "died"), ("probe:draws-0", 9.0, ""))
    ]
    assert best_run_ms(world.run(cases=cases)) == 2.0
    assert best_run_ms(world.run(cases=cases[2:])) is None


# -- placement


def test_a_placement_that_the_runtime_does_not_tell_is_unknown_and_says_why() -> None:
    job = world.run(placement=Placement(nodes=[], available=False, note="this build tells nothing"))
    assert told(world.verdict(world.submission([job])))["placement/unknown"] == "this build tells nothing"


def test_more_islands_of_the_same_operators_fail_and_partitions_that_nobody_knows_do_not() -> None:
    from tests.unit import test_judge_placement as placing

    few, many = placing.PLAN, placing.profiled(
        (placing.NPU, "Conv", 4), (CPU, "NonMaxSuppression", 1),
        (placing.NPU, "Conv", 4), (CPU, "NonMaxSuppression", 1),
    )  # fmt: skip
    verdict, found = placing.judged(placing.HYBRID, many, before=placing.prior(placing.HYBRID, few))
    assert (verdict, ("placement/new-cpu-island", "reject") in found) == ("rejected", True)
    assert placing.judged(placing.HYBRID, before=placing.prior(placing.HYBRID)) == ("accepted", [])


# -- floors, relations, proofs


def test_a_floor_on_a_figure_that_the_output_does_not_have_is_not_measured() -> None:
    from tests.unit import test_judge_goldens as golden

    rows = [golden.answers(calibration_error=None)]
    given = world.submission(statistics=world.statistics(quality=rows))
    found = world.verdict(given, contract=golden.floors({"max_calibration_error": 0.1}))
    assert told(found)["quality/not-measured"] == "no calibration error: the output gives no probabilities"


def related(**changes: Any) -> str:
    row = world.stats(world.SETS[0], against="order", exceeding=1, **changes)
    found = world.verdict(world.submission(statistics=world.statistics(row)))
    return next(one.severity for one in found.findings if one.code == "behaviour/order-dependence")


def test_a_string_that_differs_is_no_rounding() -> None:
    assert related(max_abs=5e-6, worst_expected="0.5", worst_got="0.500005") == "warn"
    assert related(max_abs=5e-6, worst_expected="cat", worst_got="dog") == "hold"
    assert related(max_abs="nan", worst_expected="0.5", worst_got="nan") == "hold"


def test_an_output_that_was_never_evaluated_is_told_beside_one_that_was() -> None:
    def change(document: dict[str, Any]) -> None:
        spare = {"name": "spare", "dtype": "float32", "shape": ["batch", 3], "kind": "values"}
        document["models"][0]["outputs"].append(spare)

    rows = [world.stats(name, against=AGAINST) for name in world.SETS]
    given = world.submission([world.record("reference", model="main")], statistics=world.statistics(*rows))
    found = world.verdict(given, manifest=world.a_manifest(change))
    proofs = {one.where: one.message for one in found.findings if one.code == "reference/unavailable"}
    assert proofs["main: spare"] == "not evaluated"
    odd = world.stats(world.SETS[0], output="spare", against=AGAINST, comparable=False, note="shape")
    given = world.submission([world.record("reference", model="main")], statistics=world.statistics(*rows, odd))
    found = world.verdict(given, manifest=world.a_manifest(change))
    proofs = {one.where: one.message for one in found.findings if one.code == "reference/unavailable"}
    assert proofs["main: spare"] == "evaluated with another shape"


def test_goldens_without_a_single_element_test_nothing() -> None:
    rows = [world.stats(name, n=0, top1_total=0) for name in world.SETS]
    found = told(world.verdict(world.submission(statistics=world.statistics(*rows))))
    assert found["vectors/insensitive"] == "no golden of this model has a single element: they test nothing"


def test_the_rounding_of_a_sum_that_the_element_type_cannot_avoid_breaks_no_limit() -> None:
    def judged(violations: int) -> dict[str, str]:
        found = Distribution(rows=1, max_sum_error=1e-3, sum_violations=violations, max_divergence=0.0)
        row = world.stats(world.SETS[0], distribution=found)
        return told(world.verdict(world.submission(statistics=world.statistics(row))))

    assert "parity/mismatch" not in judged(0)
    assert judged(0) != judged(1)


# -- contracts and files


def agreed(**changes: Any) -> Contract:
    return world.a_contract(lambda document: document.update(changes))


def test_a_contract_that_leaves_digests_open_holds_nobody_to_them() -> None:
    def bare(document: dict[str, Any]) -> None:
        del document["preprocessing"], document["labels"]

    strict = told(world.verdict(manifest=world.a_manifest(bare), contract=agreed()))
    assert {"schema/preprocessing-changed", "schema/label-schema-changed"} <= set(strict)
    loose = agreed(preprocessing_sha256=None, label_schema_version=None)
    assert not [one for one in told(world.verdict(contract=loose)) if one.startswith("schema/")]


def test_an_output_that_only_the_contract_has_is_missing_and_has_no_meaning_to_compare() -> None:
    def two(document: dict[str, Any]) -> None:
        spare = {"name": "spare", "dtype": "float32", "shape": ["batch", 3], "kind": "values"}
        document["models"][0]["outputs"].append(spare)

    found = told(world.verdict(contract=world.a_contract(two)))
    assert "schema/output-missing" in found


def test_a_map_of_other_keys_than_the_contracts_is_another_type() -> None:
    def mapped(key: str) -> Any:
        def change(document: dict[str, Any]) -> None:
            one = document["models"][0]["outputs"][0]
            for name in ("labels", "tolerance", "shape"):
                one.pop(name, None)
            one.update(type="map", key_dtype=key, kind="values")

        return change

    found = world.verdict(manifest=world.a_manifest(mapped("string")), contract=world.a_contract(mapped("int64")))
    assert "schema/dtype-changed" in world.codes(found, "reject")


def test_the_size_of_a_model_file_that_is_not_there_is_not_judged() -> None:
    sealed = world.sealed()
    gone = sealed.model_copy(update={"files": [one for one in sealed.files if one.path != "model.onnx"]})
    model = world.a_manifest().models[0]
    tiny = Policy.model_validate({"limits": {"model_bytes": 100}})
    assert [one.code for one in structure(model, None, tiny, sealed, take(sealed, None))] == [
        "structure/model-too-large"
    ]
    assert structure(model, None, tiny, gone, take(gone, None)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stage": ""}, "before it said anything"),
        ({"stage": "step"}, "after step 'receipts' of loading"),
        ({"stage": "case"}, f"after it had answered {world.SETS[1]!r}"),
    ],
)
def test_how_far_a_lost_job_came_is_told_by_its_last_frame(changes: dict[str, Any], said: str) -> None:
    job = world.run(ending="lost", cause="parent", done=None, **changes)
    assert said in ending(job)[0].message
    assert said in ending(job, limits=LimitsTable())[0].message


def test_a_limit_is_named_with_its_key_only_where_the_policy_is_known() -> None:
    job = world.run(ending="limit", cause="cpu", done=None)
    assert "limits.run_cpu_seconds" in ending(job, limits=LimitsTable())[0].message
    assert "limits." not in ending(job)[0].message
