"""An order says what is to be examined, and counts where the ledger's key signed it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from acceptd.errors import MalformedError, SignatureError
from acceptd.fleet.order import Order, queue_of
from acceptd.fleet.settings import FleetTable, host_name
from acceptd.policy.profile import Profile
from acceptd.record.keys import create_keys, load_keyring, load_signer

pytestmark = pytest.mark.unit
ORDER = Order(
    submission="s-1", round=1, bundle="ab" * 32, policy="cd" * 32, profiles={"cpu": "ef" * 32}, seed="01" * 32
)


def test_an_order_is_what_the_ledgers_key_signed_and_nothing_else(tmp_path: Path) -> None:
    create_keys(tmp_path)
    keyring = load_keyring(tmp_path)
    envelope = ORDER.signed(load_signer(tmp_path, "ledger"))
    assert Order.opened(envelope, keyring) == Order.told(envelope) == ORDER
    with pytest.raises(SignatureError):
        Order.opened(ORDER.signed(load_signer(tmp_path, "release")), keyring)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["policy"] = "00" * 32
    changed = {**envelope, "payload": base64.b64encode(json.dumps(payload).encode()).decode()}
    with pytest.raises(SignatureError):
        Order.opened(changed, keyring)
    for broken in (None, {}, {**envelope, "payload": "AAAA"}):
        with pytest.raises(MalformedError):
            Order.told(broken)


@pytest.mark.parametrize(
    "change", [{"round": 0}, {"profiles": {}}, {"more": 1}, {"seed": "x"}, {"contract": {"id": 1}}]
)
def test_an_order_of_another_form_is_none(change: dict[str, object]) -> None:
    from acceptd.record.canonical import canonical

    payload = canonical({**ORDER.model_dump(mode="json"), **change})
    envelope = {"payload": base64.b64encode(payload).decode(), "payloadType": "x", "signatures": []}
    with pytest.raises(MalformedError):
        Order.told(envelope)


def test_each_profile_has_a_queue_of_its_own() -> None:
    assert queue_of(Profile()) == "cpu"
    assert queue_of(Profile(name="openvino", providers=["OpenVINOExecutionProvider"])) == "openvino"


def test_a_node_without_a_name_has_its_hosts() -> None:
    assert host_name("GPU-07.cluster.example") == "gpu-07"
    assert host_name("---") == "node"
    assert FleetTable(name="w1").node == "w1"
