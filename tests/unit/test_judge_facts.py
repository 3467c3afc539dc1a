"""The judge's rules over the facts of a graph: cost, quantisation, versions, limits."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import Allocation, Cost, OpUse, Quantisation, Trip
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit

DIGEST = "a" * 64
STATIC = Quantisation(
    method="static", format="qdq", per_channel=True, weight_types=["int8"], activation_types=["uint8"], nodes=9,
    where="graph/node[0] QuantizeLinear",
)  # fmt: skip


def judged(manifest: Manifest | str = "usual", policy: Policy | None = None, **facts: Any) -> list[str]:
    judgement = world.verdict(
        world.submission([world.inspect(facts=world.facts(**facts))]), manifest=manifest, policy=policy
    )
    return world.codes(judgement, "reject", "hold", "warn")


def declared(**table: Any) -> Manifest:
    return Manifest.model_validate(world.manifest_document() | {"quantization": table})


def test_a_flawless_model_with_its_cost_says_nothing() -> None:
    cost = Cost(largest=Allocation(bytes=1 << 30, op_type="Pad", where="graph/node[0] Pad"), peak_bytes=2 << 30)
    assert judged(cost=cost, quantisation=Quantisation()) == []


def test_what_is_larger_than_the_memory_of_a_run_rejects_and_a_peak_warns() -> None:
    largest = Allocation(bytes=(2 << 30) + 1, op_type="Pad", where="graph/node[0] Pad")
    assert judged(cost=Cost(largest=largest)) == ["cost/allocation"]
    assert judged(cost=Cost(peak_bytes=(2 << 30) + 1)) == ["cost/peak-memory"]
    wide = Policy.model_validate({"limits": {"memory_bytes": 4 << 30}})
    assert judged(policy=wide, cost=Cost(largest=largest, peak_bytes=3 << 30)) == []


@pytest.mark.parametrize(
    ("trip", "codes"),
    [
        ({"trips": 1 << 62, "certain": True, "steps": 1 << 62}, ["cost/repetition"]),
        ({"trips": 1 << 62, "certain": False, "steps": 1 << 62}, []),
        ({"trips": None, "certain": False, "steps": None}, []),
        ({"trips": 1000, "certain": True, "steps": 10**9}, []),
        ({"trips": 1000, "certain": True, "steps": 10**9 + 1}, ["cost/repetition"]),
    ],
)
def test_only_a_certain_repetition_beyond_the_limit_rejects(trip: dict[str, Any], codes: list[str]) -> None:
    one = Trip(op_type="Loop", where="graph/node[0] Loop", **trip)
    assert judged(cost=Cost(trips=[one])) == codes


def test_steps_that_only_add_up_over_functions_reject_too() -> None:
    assert judged(cost=Cost(steps=10**9 + 1)) == ["cost/repetition"]


def test_quantisation_without_a_word_of_its_origin() -> None:
    assert judged(quantisation=STATIC) == ["quantization/no-provenance"]
    table = {"method": "static", "format": "qdq", "weight_types": ["int8"], "per_channel": True}
    assert judged(declared(**table), quantisation=STATIC) == ["quantization/no-provenance"]
    whole = table | {"calibration": {"sha256": DIGEST, "samples": 512}, "activation_types": ["uint8"]}
    assert judged(declared(**whole), quantisation=STATIC) == []
    dynamic = Quantisation(method="dynamic", format="qoperator", nodes=3)
    assert judged(declared(method="dynamic"), quantisation=dynamic) == []
    strict = Policy.model_validate({"severity": {"quantization/no-provenance": "hold"}})
    judgement = world.verdict(
        world.submission([world.inspect(facts=world.facts(quantisation=STATIC))]), policy=strict
    )
    assert judgement.verdict == "held"


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "dynamic"},
        {"method": "none"},
        {"method": "static", "format": "qoperator"},
        {"method": "static", "weight_types": ["int4"]},
        {"method": "static", "activation_types": ["int8"]},
        {"method": "static", "per_channel": False},
    ],
    ids=str,
)
def test_a_declared_quantisation_that_the_operators_do_not_show(wrong: dict[str, Any]) -> None:
    manifest = declared(**wrong, calibration={"sha256": DIGEST, "samples": 1})
    assert judged(manifest, quantisation=STATIC) == ["quantization/disagrees"]


def test_declared_for_a_model_that_is_not_quantised_and_for_one_model_of_two() -> None:
    assert judged(declared(method="dynamic"), quantisation=Quantisation()) == ["quantization/disagrees"]
    document = world.manifest_document() | {"quantization": {"method": "dynamic"}}
    document["models"][0]["quantization"] = {"method": "none"}
    assert judged(Manifest.model_validate(document), quantisation=Quantisation()) == []


def test_versions_that_are_not_declared_are_told_and_strict_holds_them() -> None:
    document = world.manifest_document()
    for key in ("ir_version", "opsets"):
        document["models"][0].pop(key, None)
    submission = world.submission()
    judgement = world.verdict(submission, manifest=Manifest.model_validate(document))
    assert "schema/versions-undeclared" in world.codes(judgement, "info")
    strict = Policy.model_validate({"severity": {"schema/versions-undeclared": "hold"}})
    assert world.verdict(submission, manifest=Manifest.model_validate(document), policy=strict).verdict == "held"


def test_a_used_domain_that_the_manifest_leaves_out_is_a_mismatch() -> None:
    assert judged(opsets={"ai.onnx": 13, "ai.onnx.ml": 3}) == ["schema/opset-mismatch"]
    assert judged(opsets={"ai.onnx": 13, "ai.onnx.ml": 3}, unused_domains=["ai.onnx.ml"]) == []


def test_a_function_of_another_opset_warns_with_its_place() -> None:
    old = OpUse(domain="ai.onnx", op_type="Softmax", count=1, where="functions[0] F/node[0] Softmax", version=12)
    judgement = world.verdict(world.submission([world.inspect(facts=world.facts(operators=[old]))]))
    (finding,) = [one for one in judgement.findings if one.code == "structure/function-opset"]
    assert (finding.severity, finding.where) == ("warn", "model.onnx: functions[0] F/node[0] Softmax")


def test_limits_of_the_graph_and_the_ratio_of_nodes_to_layers() -> None:
    assert judged(most_node_inputs=20_000) == ["structure/too-many-node-inputs"]
    assert judged(subgraph_depth=17) == ["structure/subgraph-depth"]
    assert judged(nodes=5000, module_scopes=9) == ["structure/node-blow-up"]
    assert judged(nodes=5000, module_scopes=10) == []
    assert judged(nodes=999, module_scopes=1) == []
    assert judged(nodes=5000) == []
    document = world.manifest_document()
    document["export"] = {"layers": 10}
    assert judged(Manifest.model_validate(document), nodes=5000, module_scopes=9) == []
    document["export"] = {"layers": 9}
    assert judged(Manifest.model_validate(document), nodes=5000, module_scopes=900) == ["structure/node-blow-up"]
