"""What the judge makes of onnx's own evaluator: a disagreement holds, an evaluator's fault is told and no more."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.compare import pairing
from acceptd.evidence import Case, JobRecord, Named, OutputStats, Refused, Statistics
from acceptd.judge import infer, oracle
from acceptd.judge.agreement import TIE
from acceptd.judge.finding import Finding, Judgement
from acceptd.judge.jobs import Jobs
from acceptd.model_facts import Cost
from acceptd.policy.policy import Policy
from tests.judge_world import (
    SETS,
    a_contract,
    a_manifest,
    codes,
    facts,
    golden_cases,
    inspect,
    record,
    ref,
    run,
    statistics,
    stats,
    submission,
    vectors,
    verdict,
)

pytestmark = pytest.mark.unit

COSTED = facts(cost=Cost(peak_bytes=100, known=4, steps=3))
DRAW = "probe:draws-0"


def policy(**changes: Any) -> Policy:
    return Policy.model_validate({"reference": changes})


def reference(**changes: Any) -> JobRecord:
    return record("reference", **({"model": "main", "cases": golden_cases(1)} | changes))


def beside(name: str = SETS[0], **changes: Any) -> OutputStats:
    return stats(name, **({"against": "reference", "atol": 1e-4} | changes))


def judged(
    *rows: OutputStats, job: JobRecord | None = None, rules: Policy | None = None, **more: Any
) -> Judgement:
    """Judge a flawless submission whose model was evaluated too, with these rows beside the usual ones."""
    jobs = [more.pop("inspected", inspect(facts=COSTED)), *([job] if job is not None else [])]
    usual = statistics()
    told = Statistics(outputs=[*usual.outputs, *rows])
    return verdict(submission(jobs, statistics=told), policy=rules, **more)


def told(judgement: Judgement, code: str) -> Finding:
    (found,) = [one for one in judgement.findings if one.code == code]
    return found


def test_both_agree_and_nothing_is_said() -> None:
    got = judged(beside(), beside(SETS[1]), job=reference())
    assert got.verdict == "accepted"
    assert not any(code.startswith("reference/") for code in codes(got))


def test_a_value_beyond_the_tolerance_holds_and_is_named() -> None:
    wrong = beside(SETS[1], exceeding=1, max_abs=0.25, worst_index=[0, 2], worst_expected="0.5", worst_got="0.75")
    got = judged(beside(), wrong, job=reference())
    assert got.verdict == "held"
    found = told(got, "reference/disagrees")
    assert found.where == "main: probabilities"
    assert all(word in found.message for word in ("1 of 2 inputs", SETS[1], "[0, 2]", "0.5", "0.75"))


def test_another_top_class_holds_though_every_value_is_within_the_tolerance() -> None:
    got = judged(beside(max_abs=5e-5, top1_mismatches=1), job=reference())
    assert (got.verdict, told(got, "reference/disagrees").evidence["top1_mismatches"]) == ("held", 1)


def test_two_classes_of_one_value_may_change_places_by_rounding() -> None:
    assert judged(beside(max_abs=TIE, top1_mismatches=1), job=reference()).verdict == "accepted"


def test_a_nan_on_one_side_is_a_disagreement() -> None:
    got = judged(beside(exceeding=1, max_abs="inf", worst_got="nan"), job=reference())
    assert "reference/disagrees" in codes(got, "hold")


@pytest.mark.parametrize("note", ["shape", "dtype", "kind", "malformed"])
def test_another_shape_or_type_is_the_evaluators_fault(note: str) -> None:
    row = beside(comparable=False, note=note, n=0)
    got = judged(row, job=reference())
    assert got.verdict == "accepted"
    assert told(got, "reference/unavailable").severity == "info"


@pytest.mark.parametrize(
    "changes",
    [
        {"ending": "crash", "cause": "SIGSEGV"},
        {"ending": "limit", "cause": "cpu"},
        {"ending": "limit", "cause": "memory"},
        {"ending": "limit", "cause": "wall"},
        {"ending": "limit", "cause": "stderr"},
        {"ending": "lost", "cause": "wall"},
        {"ending": "unavailable", "cause": "no cell"},
        {
            "ending": "refused",
            "refused": Refused(code="reference/unavailable", where="load", message="no ZipMap"),
        },
        {"ending": "refused", "refused": Refused(code="resources/memory-limit", where="reference", message="m")},
        {"ending": "refused", "refused": Refused(code="sandbox/job-error", where="reference", message="e")},
        {"ending": "done", "cases": [Case(set=SETS[0], repeat=0, error="AxisError")]},
    ],
    ids=lambda changes: f"{changes['ending']}-{changes.get('cause', '')}",
)
def test_however_it_ends_it_is_never_the_models_fault(changes: dict[str, Any]) -> None:
    got = judged(job=reference(**({"cases": []} | changes)))
    assert got.verdict == "accepted"
    found = told(got, "reference/unavailable")
    assert (found.severity, found.where) == ("info", "main")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ending": "violation", "cause": "protocol"}, "sandbox/protocol-violation"),
        ({"ending": "crash", "cause": "SIGSYS"}, "sandbox/forbidden-call"),
    ],
)
def test_what_only_a_taken_over_job_does_rejects(changes: dict[str, Any], code: str) -> None:
    got = judged(job=reference(**changes))
    assert (got.verdict, code in codes(got, "reject")) == ("rejected", True)


def test_what_was_compared_before_a_limit_counts() -> None:
    got = judged(beside(exceeding=1, max_abs=1.0), job=reference(ending="limit", cause="cpu"))
    assert got.verdict == "held"


def test_a_job_that_was_lost_leaves_it_inconclusive_only_where_it_is_required() -> None:
    lost = reference(ending="lost", cause="wall", cases=[])
    strict = policy(required=True)
    assert judged(job=lost).verdict == judged().verdict == "accepted"
    for job in (lost, reference(ending="unavailable", cases=[]), None):
        got = judged(job=job, rules=strict)
        assert got.verdict == "inconclusive"
        assert "reference main" in got.reason
    # what the evaluator cannot do is an answer, and so is a model beyond the cost that the policy allows
    refused = Refused(code="reference/unavailable", where="load", message="no ZipMap")
    assert judged(job=reference(ending="refused", refused=refused, cases=[]), rules=strict).verdict == "accepted"
    assert judged(rules=policy(required=True, max_steps=2)).verdict == "accepted"
    assert judged(rules=policy(required=True, enabled=False)).verdict == "accepted"


def test_a_policy_may_hold_what_nothing_independent_stands_beside() -> None:
    raised = Policy.model_validate({"severity": {"reference/unavailable": "hold"}})
    assert judged(rules=raised).verdict == "held"


@pytest.mark.parametrize(
    ("rules", "changes", "word"),
    [
        ({"enabled": False}, {}, "reference.enabled"),
        ({"max_steps": 2}, {}, "reference.max_steps"),
        ({"max_bytes": 408}, {}, "reference.max_bytes"),
        ({}, {"cost": None}, "cost"),
    ],
)
def test_a_model_beyond_the_cost_is_not_evaluated(
    rules: dict[str, Any], changes: dict[str, Any], word: str
) -> None:
    given = facts(**({"cost": COSTED.cost} | changes))
    assert word in oracle.left_out(policy(**rules), given, 309)
    assert not oracle.left_out(policy(max_steps=3, max_bytes=409), COSTED, 309)


def test_random_numbers_have_no_second_opinion() -> None:
    uses = [COSTED.operators[0].model_copy(update={"op_type": name}) for name in ("RandomUniformLike", "Add")]
    assert "RandomUniformLike" in oracle.left_out(Policy(), facts(cost=COSTED.cost, operators=uses), 309)
    ours = [COSTED.operators[0].model_copy(update={"op_type": "RandomUniformLike", "domain": "own"})]
    assert not oracle.left_out(Policy(), facts(cost=COSTED.cost, operators=ours), 309)


def test_the_larger_of_the_oracles_and_the_declared_tolerance_holds_within_the_caps() -> None:
    def wide(document: dict[str, Any]) -> None:
        document["models"][0]["outputs"][0]["tolerance"] = {"rtol": 0.5, "atol": 0.005, "top1": 0.95}

    rules, plain, loose = Policy(), a_manifest(), a_manifest(wide)
    held = oracle.tolerance(plain, "main", plain.models[0].outputs[0], None, rules, "float32")
    assert (held.rtol, held.atol, held.top1) == (0.0, 1e-4, 1.0)
    held = oracle.tolerance(loose, "main", loose.models[0].outputs[0], None, rules, "float32")
    assert (held.rtol, held.atol, held.top1) == (rules.parity.max_rtol, 0.005, 0.95)
    held = oracle.tolerance(loose, "main", loose.models[0].outputs[0], a_contract(), rules, "float32")
    assert (held.rtol, held.atol) == (0.001, 1e-4)


def test_the_comparers_task_holds_the_run_against_the_evaluator_where_both_computed() -> None:
    draw = Case(set=DRAW, repeat=0, outputs=[Named(name="probabilities", value=ref(900))], finite=True)
    beyond = Case(set="probe:nan", repeat=0, in_domain=False)
    alone = Case(set="probe:draws-1", repeat=0, outputs=[Named(name="probabilities", value=ref(912))])
    jobs = [
        vectors(),
        run(cases=[*golden_cases(), draw, beyond]),
        reference(cases=[*golden_cases(1)[:1], draw, alone]),
    ]
    given = jobs[0].vectors
    task = pairing.pair(a_manifest(), None, Policy(), given, jobs)
    found = [one for one in task.pairs if one.against == "reference"]
    assert [(one.set, one.output) for one in found] == [(SETS[0], "probabilities"), (DRAW, "probabilities")]
    for one in found:
        assert (one.expected.file, one.got.file if one.got else "") == ("outputs:main:reference", "outputs:main")
        assert (one.kind, one.rtol, one.atol) == ("probabilities", 0.0, 1e-4)


def test_the_proof_counts_sets_and_draws_and_says_why_it_is_not_whole() -> None:
    draw = Case(set=DRAW, repeat=0, outputs=[Named(name="probabilities", value=ref(900))], finite=True)
    near = draw.model_copy(update={"set": "probe:draws-1"})
    jobs = Jobs((vectors(), run(cases=[*golden_cases(), draw, near]), reference()))
    rows = [beside(max_abs=1e-7), beside(DRAW, max_abs=3e-7, n=96, top1_total=32)]
    found = oracle.proof(a_manifest().models[0], jobs, rows, "")
    assert (found.sets, found.of_sets, found.draws, found.of_draws) == (1, 2, 1, 2)
    assert "budget" in found.reason
    (output,) = found.outputs
    assert (output.inputs, output.elements, output.max_abs, output.top1_total) == (2, 99, 3e-7, 33)
    assert found.document()["outputs"][0]["max_abs"] == 3e-7


def test_an_inferred_manifest_is_not_evaluated_and_nothing_is_said() -> None:
    undeclared = a_manifest(lambda document: document["bundle"].update(version=infer.VERSION))
    given = submission([inspect(facts=COSTED)], inferred=["everything"])
    assert "reference/unavailable" in codes(verdict(given))
    assert "reference/unavailable" not in codes(verdict(given, manifest=undeclared))
