"""The contract's own standing in a verdict: unsigned, edited, expired; by the policy, and by it alone."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import ContractStanding, Submission
from acceptd.policy.policy import ContractsTable, Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit

ADA, EVE = {"name": "ada", "team": "security"}, {"name": "eve", "team": "mosaic"}
HOLD = Policy(contracts=ContractsTable(unsigned="hold"))


def standing(status: str, **more: Any) -> ContractStanding:
    usual: dict[str, Any] = {"status": status, "place": "contracts/m.toml", "version": 3, "signers": [ADA]}
    return ContractStanding.model_validate({**usual, "reason": f"it is {status}", "entry": 17} | more)


def judged(policy: Policy, found: ContractStanding | None, **contract: Any) -> tuple[str, dict[str, str]]:
    given: Submission = world.submission().model_copy(update={"contract": found})
    agreed = world.a_contract(lambda document: document.update(contract))
    verdict = world.verdict(given, contract=agreed, policy=policy)
    codes = {one.code: one.severity for one in verdict.findings if one.code.startswith("contract/")}
    return verdict.verdict, codes


@pytest.mark.parametrize(
    ("found", "accepted", "held"),
    [
        (standing("signed"), {}, {}),
        (standing("unchecked"), {"contract/unchecked": "info"}, {"contract/unchecked": "info"}),
        (standing("unsigned"), {"contract/unsigned-accepted": "info"}, {"contract/unsigned": "hold"}),
        (standing("edited"), {"contract/edited-accepted": "warn"}, {"contract/edited": "hold"}),
        (standing("unverified"), {"contract/unverified": "hold"}, {"contract/unverified": "hold"}),
        (None, {}, {"contract/unsigned": "hold"}),
        (
            standing("signed", signers=[EVE]),
            {"contract/unsigned-accepted": "info"},
            {"contract/unsigned": "hold"},
        ),
        (standing("signed", signers=[EVE], tightens=True), {}, {}),
        (
            standing("signed", defaults_changed=True),
            {"contract/defaults-changed": "info"},
            {"contract/defaults-changed": "info"},
        ),
    ],
)
def test_a_policy_that_wants_signed_contracts_holds_the_others(
    found: ContractStanding | None, accepted: dict[str, str], held: dict[str, str]
) -> None:
    for policy, codes in ((Policy(), accepted), (HOLD, held)):
        verdict = "held" if "hold" in codes.values() else "accepted"
        assert judged(policy, found) == (verdict, codes)


def test_a_version_on_record_that_does_not_verify_holds_a_model_that_has_no_file_too() -> None:
    given = world.submission().model_copy(update={"contract": standing("unverified")})
    verdict = world.verdict(given, contract=None)
    assert verdict.verdict == "held"
    assert "contract/unverified" in {one.code for one in verdict.findings}


def test_a_policy_that_wants_more_signatures_later_holds_what_fewer_signed() -> None:
    policy = Policy(contracts=ContractsTable(unsigned="hold", signers=2))
    assert judged(policy, standing("signed")) == ("held", {"contract/unsigned": "hold"})
    both = [ADA, {"name": "ben", "team": "safety"}]
    assert judged(policy, standing("signed", signers=both))[0] == "accepted"
    assert judged(policy, standing("signed", signers=[ADA, ADA]))[0] == "held"


@pytest.mark.parametrize(
    ("until", "codes"),
    [
        ("2026-11-29T15:17:00Z", {"contract/expired": "hold"}),  # the very moment of the judgement
        ("2020-01-01T00:00:00Z", {"contract/expired": "hold"}),
        ("2026-11-29T15:17:01Z", {"contract/expiring": "warn"}),
        ("2026-12-29T15:17:00Z", {"contract/expiring": "warn"}),
        ("2026-12-29T15:17:01Z", {}),
        (None, {}),
    ],
)
def test_an_end_is_told_before_and_holds_after_under_any_policy(until: str | None, codes: dict[str, str]) -> None:
    verdict = "held" if "hold" in codes.values() else "accepted"
    assert judged(Policy(), standing("signed"), valid_until=until) == (verdict, codes)


def test_a_model_without_contract_is_held_where_the_policy_wants_one() -> None:
    given = world.submission()
    assert world.verdict(
        given, contract=None, policy=Policy(contracts=ContractsTable(missing="hold"))
    ).verdict == ("held")
    assert world.verdict(given, contract=None).verdict == "accepted"


def test_no_policy_can_call_a_version_that_does_not_verify_harmless() -> None:
    from acceptd.judge.codes import may_override

    assert not may_override("contract/unverified", "info")
    assert may_override("contract/expiring", "hold")


def test_a_range_of_opsets_and_ir_versions_is_held_against_the_file() -> None:
    def ranged(low: int, high: int) -> dict[str, str]:
        def change(document: dict[str, Any]) -> None:
            document["models"][0]["opsets"] = {"ai.onnx": {"min": low, "max": high}}
            document["models"][0]["ir_version"] = {"min": low - 5, "max": high - 5}

        found = world.verdict(world.submission(), contract=world.a_contract(change)).findings
        return {one.code: one.message for one in found if one.code.endswith("-mismatch")}

    assert ranged(13, 17) == {}
    assert ranged(11, 13) == {}
    assert ranged(14, 17) == {
        "schema/opset-mismatch": "opset of ai.onnx is 13, the contract says 14 to 17",
        "schema/ir-version-mismatch": "IR version 8, the contract says 9 to 12",
    }
