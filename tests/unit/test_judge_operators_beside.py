"""Float against few bits under the profiler: which operators and layers lost time or moved. Pure."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from acceptd.evidence import JobRecord, Submission
from acceptd.judge.finding import Judgement
from acceptd.judge.operators_beside import by_layer, family, module, profiles
from acceptd.placement_facts import MAX_NODES, NodeTime, OperatorTime, Profiled
from acceptd.policy.policy import Policy
from acceptd.report.document import document
from acceptd.report.html import render
from acceptd.report.terminal import print_verdict
from tests import judge_world as world
from tests.regression_judged import INT8, judged, same

pytestmark = pytest.mark.unit
CPU, NPU = "CPUExecutionProvider", "QNNExecutionProvider"

Row = tuple[str, str, str, float]
FLOAT: tuple[Row, ...] = (("/c1/Conv", "Conv", NPU, 0.2), ("/fc/MatMul/MatMulAddFusion", "Gemm", NPU, 0.5))
FEW: tuple[Row, ...] = (
    ("x_QuantizeLinear", "DynamicQuantizeLinear", CPU, 0.3),
    ("/c1/Conv_quant", "ConvInteger", CPU, 0.9),
    ("/c1/Conv_output_0_output_quantized_cast", "Cast", CPU, 0.1),
    ("/c1/Conv_quant_output_scale_mul", "Mul", CPU, 0.1),
    ("/fc/MatMul_quant", "DynamicQuantizeMatMul", NPU, 0.1),
)


def profiled(variant: str, rows: tuple[Row, ...], **changes: Any) -> JobRecord:
    frame = Profiled(
        runs=20,
        ms={name: sum(row[3] for row in rows if row[2] == name) for name in {row[2] for row in rows}},
        operators=[OperatorTime(provider=row[2], op_type=row[1], nodes=1, ms=row[3]) for row in rows],
        named=[NodeTime(name=row[0], op_type=row[1], provider=row[2], ms=row[3]) for row in rows],
    )
    return world.run(**({"variant": variant, "cases": [], "profiled": frame} | changes))


def beside(older: JobRecord | None, newer: JobRecord | None) -> tuple[Judgement, Submission, Policy]:
    return judged(*same(), jobs=[one for one in (older, newer) if one is not None], quantisation=INT8)


@pytest.mark.parametrize(
    ("op_type", "replaced"),
    [
        ("QLinearConv", "Conv"),
        ("ConvInteger", "Conv"),
        ("FusedConv", "Conv"),
        ("MatMulIntegerToFloat", "MatMul"),
        ("QGemm", "MatMul"),
        ("QAttention", "Attention"),
        ("QLinearAdd", "Add"),
        ("QuantizeLinear", "QuantizeLinear"),
        ("Integer", "Integer"),
    ],
)
def test_an_operator_stands_beside_the_one_that_it_replaced(op_type: str, replaced: str) -> None:
    assert family(op_type) == replaced


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/c1/Conv_quant_token_1", "/c1"),
        ("/r/Relu_output_0_QuantizeLinear", "/r"),
        ("/fc/MatMul/MatMulAddFusion", "/fc"),
        ("/enc/layer.0/fc1/MatMul_quant_scales_mul", "/enc/layer.0/fc1"),
        ("/Add_quant", "/Add"),
        ("Conv_7_quant", "Conv_7"),
        ("_quant" * 5000, "_quant" * 4992),
        ("_quant", "_quant"),
    ],
)
def test_names_of_quantiser_and_optimiser_lead_back_to_the_module(name: str, path: str) -> None:
    assert module(name) == path


def test_a_chain_of_integer_operators_stands_against_the_convolution_that_it_replaced() -> None:
    found = profiles(profiled("profiled-prior", FLOAT), profiled("profiled", FEW))
    assert found is not None
    told = {(one.scope, one.name): one for one in found.lost}
    layer = told["layer", "/c1"]
    assert (layer.why, layer.release.ms, layer.now.ms) == ("slower, moved", 0.2, 1.1)
    assert layer.now.operators == ("Cast", "ConvInteger", "Mul")
    assert told["operator", "Conv"].now.ms == 0.9
    assert told["operator", "DynamicQuantizeLinear"].release.operators == ()
    # What became faster, and a layer that the release has not, are not lost.
    assert not {("operator", "MatMul"), ("layer", "/fc"), ("layer", "x")} & told.keys()


def test_what_lies_within_the_noise_of_few_runs_is_not_told_and_another_provider_is() -> None:
    base: tuple[Row, ...] = (("/a/Conv", "Conv", CPU, 1.0), ("/b/Add", "Add", CPU, 0.001))
    near: tuple[Row, ...] = (("/a/Conv", "QLinearConv", CPU, 1.09), ("/b/Add", "QLinearAdd", CPU, 0.009))
    found = profiles(profiled("profiled-prior", base), profiled("profiled", near))
    assert found is not None
    assert found.lost == ()
    moved: tuple[Row, ...] = (near[0], ("/b/Add", "QLinearAdd", NPU, 0.001))
    found = profiles(profiled("profiled-prior", base), profiled("profiled", moved))
    assert found is not None
    assert [(one.scope, one.name, one.why) for one in found.lost] == [
        ("operator", "Add", "moved"),
        ("layer", "/b", "moved"),
    ]


def test_where_nodes_are_left_out_no_layer_is_said_to_have_moved() -> None:
    rows: tuple[Row, ...] = tuple((f"/l{at}/Conv", "Conv", CPU, 1.0) for at in range(MAX_NODES))
    moved: tuple[Row, ...] = tuple((name, op_type, NPU, ms) for name, op_type, _, ms in rows)
    found = profiles(profiled("profiled-prior", rows), profiled("profiled", moved))
    assert found is not None
    assert {one.scope for one in found.lost} == {"operator"}
    assert len(by_layer(profiled("profiled", rows).profiled or Profiled())) == MAX_NODES


def test_the_finding_informs_and_never_decides() -> None:
    judgement, submission, policy = beside(profiled("profiled-prior", FLOAT), profiled("profiled", FEW))
    (finding,) = [one for one in judgement.findings if one.code == "regression/operators"]
    assert (judgement.verdict, finding.severity) == ("accepted", "info")
    assert "layer /c1: Conv on QNNExecutionProvider, 0.2 ms → Cast + ConvInteger + Mul on" in finding.message
    assert "the jobs' word" in finding.message
    report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
    out = io.StringIO()
    print_verdict(Console(file=out, width=200), report, every_finding=True)
    page = render(report)
    for text in (page, out.getvalue()):
        assert "DynamicQuantizeLinear" in text
        assert "/c1" in text
        assert "release 0.7 ms, now 1.5 ms" in text
    assert report["regression"][0]["profiles"]["lost"][0]["name"] == "Conv"


@pytest.mark.parametrize(
    ("older", "newer", "said"),
    [
        (
            profiled("profiled-prior", FLOAT, ending="crash", cause="SIGFPE", profiled=None),
            None,
            "the release&#x27;s",
        ),
        (profiled("profiled-prior", FLOAT), profiled("profiled", FEW, ending="limit", cause="cpu"), "this model"),
    ],
)
def test_a_profiled_run_that_breaks_is_told_and_decides_nothing(
    older: JobRecord, newer: JobRecord | None, said: str
) -> None:
    judgement, submission, policy = beside(older, newer)
    assert judgement.verdict == "accepted", judgement.findings
    assert "regression/operators" not in world.codes(judgement)
    assert ("placement/not-profiled" in world.codes(judgement)) is (newer is not None)
    report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
    assert f"Operators were not timed beside the release&#x27;s: {said}" in render(report)


def test_hostile_names_of_nodes_stay_text() -> None:
    for name in ("<script>alert(1)</script>", "\x1b[31mred", "a\u202eb"):
        rows: tuple[Row, ...] = ((f"{name}/Conv", name, CPU, 9.0),)
        base: tuple[Row, ...] = ((f"{name}/Conv", name, CPU, 1.0),)
        judgement, submission, policy = beside(profiled("profiled-prior", base), profiled("profiled", rows))
        assert "regression/operators" in world.codes(judgement)
        report = document(submission, judgement, world.a_manifest(), policy_digest="0" * 64, policy=policy)
        out = io.StringIO()
        print_verdict(Console(file=out, width=120), report, every_finding=True)
        assert name not in render(report)
        assert name not in out.getvalue() or name.isprintable()
