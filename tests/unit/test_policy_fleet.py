"""``[fleet]`` of a policy: strict, each node with a key of its own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from acceptd.policy.fleet import FleetPolicyTable
from acceptd.policy.policy import Policy
from tests import fleet_evidence as fleet

pytestmark = pytest.mark.unit


def table(**changes: Any) -> dict[str, Any]:
    return fleet.entry("gpu-1", "cpu") | changes


def test_a_policy_trusts_nobody_unless_it_says_so() -> None:
    assert Policy().fleet.trust == []
    assert fleet.trust().able("cpu") == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"more": 1}, "more", id="an unknown key"),
        pytest.param({"role": "promoter"}, "role", id="a role that nobody may have by trust"),
        pytest.param({"name": "GPU 1"}, "name", id="no name"),
        pytest.param({"profiles": []}, "profiles", id="a worker for no profile"),
        pytest.param({"profiles": ["cpu", "cpu"]}, "twice", id="a profile twice"),
        pytest.param({"role": "intake"}, "belong to a worker", id="an intake with profiles"),
        pytest.param({"key": "x"}, "base64", id="no base64"),
        pytest.param({"key": "AAAA"}, "32 bytes", id="a short key"),
        pytest.param({"key": "A" * 43 + "="}, "small order", id="a weak key"),
        pytest.param({"key": fleet.public("gpu-1")[:-2] + "\n" + "="}, "base64", id="a line break in a key"),
        pytest.param({"walls": ["moat"]}, "walls", id="no wall"),
        pytest.param({"expires": "tomorrow"}, "tomorrow", id="no moment"),
        pytest.param({"revoked": ""}, "revoked", id="revoked without a reason"),
        pytest.param({"revoked": True}, "revoked", id="revoked without words"),
        pytest.param({"heldout": "yes"}, "heldout", id="no boolean"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FleetPolicyTable.model_validate({"trust": [table(**changes)]})


@pytest.mark.parametrize(
    ("second", "words"),
    [
        pytest.param(table(name="gpu-2"), "gpu-1 and gpu-2 have one key", id="one key under two names"),
        pytest.param(table(), "twice as worker", id="one node twice"),
        pytest.param(table(key=fleet.public("gpu-2")), "twice as worker", id="one name with two keys"),
    ],
)
def test_each_node_has_a_key_of_its_own(second: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FleetPolicyTable.model_validate({"trust": [table(), second]})


def test_who_is_able_is_who_is_trusted_now() -> None:
    trusted = fleet.trust(
        fleet.entry("a", "cpu", heldout=True),
        fleet.entry("b", "cpu", "other"),
        fleet.entry("c", "cpu", revoked="lost"),
        fleet.entry("d", "cpu", expires="2026-01-01T00:00:00Z"),
        fleet.entry("e", role="intake"),
    )
    assert trusted.able("cpu") == ["a", "b"]
    assert trusted.able("cpu", heldout=True) == ["a"]
    assert trusted.able("other") == ["b"]
    assert trusted.able("spare") == []
