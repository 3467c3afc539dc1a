"""Operators against the policy: allowed one by one, bounded one by one, in the versions that the profile takes."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from acceptd.evidence import Allocation, Cost, FunctionFact, OpUse, Trip
from acceptd.judge.finding import Finding
from acceptd.policy import load
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
STRICT = load.load_policy(ROOT / "policies" / "strict.toml")


def use(name: str, count: int = 1, where: str = "graph/node[0]", version: int | None = None) -> OpUse:
    domain, _, kind = name.partition("::")
    return OpUse(domain=domain, op_type=kind, count=count, where=where, version=version)


def found(policy: Policy | dict[str, Any], **facts: Any) -> list[Finding]:
    rules = policy if isinstance(policy, Policy) else Policy.model_validate(policy)
    given = world.submission([world.inspect(facts=world.facts(**facts))])
    groups = ("operator/", "structure/opset-out", "structure/ir-version-out", "structure/function-expansion")
    judged = world.verdict(given, policy=rules)
    return [one for one in judged.findings if one.code.startswith(groups)]


def codes(policy: Policy | dict[str, Any], **facts: Any) -> list[str]:
    return [one.code for one in found(policy, **facts)]


class TestAllowed:
    RULES = {"operators": {"allowed": ["ai.onnx::Add", "com.microsoft::Gelu"]}}

    def test_what_is_not_listed_by_name_is_denied_although_its_domain_is_listed(self) -> None:
        assert codes(self.RULES, operators=[use("::Add"), use("com.microsoft::Gelu")]) == []
        [one] = found(self.RULES, operators=[use("ai.onnx::Add"), use("::Sub", where="function f/node[2]")])
        assert (one.code, one.severity) == ("operator/not-listed", "reject")
        assert one.where.endswith("function f/node[2]")
        assert one.evidence["operator"] == "ai.onnx::Sub"

    def test_a_name_of_one_domain_does_not_allow_it_in_another(self) -> None:
        assert codes(self.RULES, operators=[use("com.microsoft::Add")]) == ["operator/not-listed"]

    def test_the_models_own_function_needs_no_entry_but_a_built_in_name_does(self) -> None:
        assert codes(self.RULES, operators=[use("mine::F")], functions=["mine::F"]) == []
        assert codes(self.RULES, operators=[use("::Sub")], functions=["ai.onnx::Sub"]) == ["operator/not-listed"]

    def test_any_mode_ignores_the_list(self) -> None:
        assert codes({"operators": {**self.RULES["operators"], "mode": "any"}}, operators=[use("evil::X")]) == []

    def test_strict_denies_by_default_and_takes_what_real_models_use(self) -> None:
        assert len(STRICT.operators.allowed) > 60
        uses = [use(name) for name in STRICT.operators.allowed]
        assert codes(STRICT, operators=uses, ir_version=8) == []
        for name in ("ai.onnx::Loop", "ai.onnx::ImageDecoder", "com.microsoft::Gelu", "ai.onnx::Det"):
            assert codes(STRICT, operators=[use(name)], ir_version=8) == ["operator/not-listed"]
        assert codes(STRICT, operators=[use("ai.onnx::RandomNormal")], ir_version=8) == ["operator/denied"]

    def test_the_list_in_strict_is_the_measured_one(self) -> None:
        done = subprocess.run([sys.executable, "-m", "tools.operators", "check"], cwd=ROOT, check=False)
        assert done.returncode == 0


class TestLimits:
    RULES = {
        "operators": {
            "limits": {
                "ai.onnx::Loop": {"nodes": 2, "trips": 1000},
                "ai.onnx::Pad": {"output_bytes": 1 << 20},
                "com.microsoft::Loop": {"nodes": 0},
            }
        }
    }

    def test_more_nodes_than_allowed_counted_over_versions_and_scopes(self) -> None:
        assert codes(self.RULES, operators=[use("::Loop", 2)]) == []
        [one] = found(self.RULES, operators=[use("::Loop", 2, version=13), use("ai.onnx::Loop", 1, version=11)])
        assert (one.code, one.evidence["count"]) == ("operator/over-limit", 3)

    def test_a_limit_holds_in_any_mode(self) -> None:
        rules = {"operators": {**self.RULES["operators"], "mode": "any"}}
        assert codes(rules, operators=[use("::Loop", 3)]) == ["operator/over-limit"]

    def test_certain_repetitions_are_bounded_and_a_count_that_a_condition_may_end_is_not(self) -> None:
        def cost(trips: int | None, certain: bool) -> Cost:
            trip = Trip(op_type="Loop", where="graph/if/then/loop", trips=trips, certain=certain, steps=trips)
            return Cost(trips=[trip])

        assert codes(self.RULES, operators=[use("::Loop")], cost=cost(1000, True)) == []
        [one] = found(self.RULES, operators=[use("::Loop")], cost=cost(1001, True))
        assert one.code == "operator/over-limit"
        assert one.where.endswith("graph/if/then/loop")
        assert codes(self.RULES, operators=[use("::Loop")], cost=cost(2**63 - 1, False)) == []
        assert codes(self.RULES, operators=[use("::Loop")], cost=cost(None, True)) == []

    def test_an_output_larger_than_allowed_whether_or_not_it_is_the_largest_of_the_model(self) -> None:
        pad = Allocation(bytes=(1 << 20) + 1, op_type="Pad", where="graph/pad")
        other = Allocation(bytes=1 << 30, op_type="Conv", where="graph/conv")
        for cost in (Cost(largest=pad), Cost(largest=other, by_operator=[other, pad])):
            [one] = found(self.RULES, operators=[use("::Pad")], cost=cost)
            assert (one.code, one.where.endswith("graph/pad")) == ("operator/over-limit", True)
        small = Allocation(bytes=1 << 20, op_type="Pad", where="graph/pad")
        assert codes(self.RULES, operators=[use("::Pad")], cost=Cost(largest=other, by_operator=[small])) == []


class TestVersions:
    def test_a_domain_has_its_own_range_and_one_without_has_none(self) -> None:
        rules = {"opsets": {"domains": {"ai.onnx.ml": {"min": 2, "max": 3}}}}
        for version, told in ((1, True), (2, False), (3, False), (4, True)):
            opsets = {"ai.onnx": 13, "ai.onnx.ml": version, "com.microsoft": 77}
            assert (codes(rules, opsets=opsets) == ["structure/opset-out-of-range"]) is told

    def test_what_a_function_imports_counts_too(self) -> None:
        old = use("::Relu", where="function mine::F/node[0]", version=5)
        [one] = found({"opsets": {"min": 11}}, opsets={"ai.onnx": 13}, operators=[old])
        assert (one.code, one.where.endswith("function mine::F/node[0]")) == ("structure/opset-out-of-range", True)

    def test_a_profile_takes_less_than_the_others(self) -> None:
        opsets = {"profiles": {"older": {"ir_max": 7, "max": 12, "domains": {"ai.onnx.ml": {"max": 2}}}}}
        assert codes({"opsets": opsets}, ir_version=8, opsets={"ai.onnx": 13}) == []
        older = {"opsets": opsets, "profile": "older"}
        assert codes(older, ir_version=8, opsets={"ai.onnx": 12}) == ["structure/ir-version-out-of-range"]
        assert codes(older, ir_version=7, opsets={"ai.onnx": 13}) == ["structure/opset-out-of-range"]
        assert codes(older, ir_version=7, opsets={"ai.onnx": 12, "ai.onnx.ml": 3}) == [
            "structure/opset-out-of-range"
        ]

    def test_a_domain_that_no_node_uses_stays_information(self) -> None:
        rules = {"opsets": {"domains": {"ai.onnx.ml": {"max": 2}}}}
        facts = {"opsets": {"ai.onnx": 13, "ai.onnx.ml": 3}, "unused_domains": ["ai.onnx.ml"]}
        assert codes(rules, **facts) == []


def test_a_function_that_expands_beyond_the_policy_is_named() -> None:
    small = FunctionFact(name="mine::F", where="function mine::F", nodes=2, expanded=100, calls=1)
    large = FunctionFact(name="mine::G", where="function mine::G", nodes=3, expanded=101, calls=1)
    rules = {"limits": {"expanded_nodes": 100}}
    [one] = found(rules, functions=["mine::F", "mine::G"], function_facts=[small, large])
    assert (one.code, one.where.endswith("function mine::G")) == ("structure/function-expansion", True)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[operators]\nallowed = ["Add"]', 2, "domain::OpType"),
        ('[operators]\ndenied = ["ai.onnx::"]', 2, "domain::OpType"),
        ('[operators]\nallowed = ["ai.onnx::*"]', 2, "domain::OpType"),
        ('[operators]\ndomains = [""]', 2, "a domain"),
        ('[operators]\ndomains = ["ai.onnx"]\nallowed = ["evil::X"]', 3, "does not list the domain of evil::X"),
        (
            '[operators]\ndenied = ["ai.onnx::Add"]\nallowed = ["ai.onnx::Add"]',
            3,
            "stands in operators.denied too",
        ),
        ('[operators.limits]\n"ai.onnx::Loop" = { node = 3 }', 2, "no key 'node'"),
        ('[operators.limits]\n"ai.onnx::Loop" = { nodes = -3 }', 2, "greater than or equal to 0"),
        ("[opsets]\nir_min = 9\nir_max = 8", 2, "larger than ir_max"),
        ("[opsets]\nmin = 9\nmax = 8", 2, "larger than max"),
        ('[opsets.domains]\n"ai.onnx.ml" = { min = 3, max = 2 }', 2, "min is larger than max"),
        ('[opsets.domains]\n"ai.onnx" = { max = 2 }', 1, "opsets.min and opsets.max"),
        ("[opsets.profiles.cpu]\nmax = 0", 2, "larger than max"),
    ],
)
def test_rules_that_cannot_be_meant_are_told_at_their_line(
    text: str, line: int, said: str, tmp_path: Path
) -> None:
    from acceptd.policy.check import examine

    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    [one] = examine(path)[1]
    assert said in one.message
    assert one.line == line or (one.line, line) == (1, 2)
    assert tomllib.loads(text)
