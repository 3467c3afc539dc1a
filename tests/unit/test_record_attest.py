"""DSSE envelopes and in-toto statements: what is signed, and everything that does not count."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import LedgerError, MalformedError, SignatureError
from acceptd.record import attest
from acceptd.record.canonical import canonical, digest
from acceptd.record.keys import Keyring, Signer

pytestmark = pytest.mark.unit

DIGEST = "ab" * 32
LEDGER, RELEASE, STRANGER = (
    Signer.of(role, Ed25519PrivateKey.generate()) for role in ("ledger", "release", "ledger")
)
KEYRING = Keyring.of([LEDGER.public_key(), RELEASE.public_key()])


def a_statement(**predicate: Any) -> dict[str, Any]:
    return attest.verdict_statement(
        submission="s-1",
        verdict="accepted",
        bundle_id="mosaic/m",
        bundle_digest=DIGEST,
        files=[("model.onnx", "cd" * 32)],
        findings=[],
        predicate=predicate,
    )


def test_pae_is_the_specification_s_own_example() -> None:
    # secure-systems-lab/dsse, protocol.md, "Test Vectors".
    assert attest.pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert attest.pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_a_statement_comes_back_from_its_envelope() -> None:
    value = a_statement(policy_digest="ef" * 32)
    envelope = attest.sign_statement(value, LEDGER)
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(envelope["payload"]) == canonical(value)
    assert attest.verify_statement(envelope, KEYRING) == value
    assert value["predicateType"] == attest.FIRST_VERDICT_TYPE == "https://acceptd.dev/verdict/v1"
    assert value["subject"] == [
        {"name": "mosaic/m", "digest": {"sha256": DIGEST}},
        {"name": "model.onnx", "digest": {"sha256": "cd" * 32}},
    ]
    assert value["predicate"] == {
        "policy_digest": "ef" * 32,
        "submission": "s-1",
        "verdict": "accepted",
        "findings_digest": digest([]),
    }


def test_a_drop_without_a_digest_is_its_own_subject() -> None:
    value = attest.verdict_statement(
        submission="s-1",
        verdict="rejected",
        bundle_id=None,
        bundle_digest=None,
        files=[],
        findings=[],
        predicate={},
    )
    assert value["subject"] == [{"name": "submission/s-1", "digest": {"sha256": digest({"submission": "s-1"})}}]
    with pytest.raises(LedgerError, match="without a subject"):
        attest.statement([], {}, attest.VERDICT_TYPE)


def test_url_safe_base64_is_taken_too() -> None:
    envelope = attest.sign("text/plain", b"\xfb\xff\xfe" * 7, LEDGER)
    other = str.maketrans("+/", "-_")
    signatures = [{**item, "sig": item["sig"].translate(other)} for item in envelope["signatures"]]
    respelt = {**envelope, "payload": envelope["payload"].translate(other), "signatures": signatures}
    assert "/" not in respelt["payload"]
    assert respelt["payload"] != envelope["payload"]
    assert attest.verify(respelt, "text/plain", KEYRING, "ledger") == b"\xfb\xff\xfe" * 7


def test_a_second_signature_by_a_stranger_does_no_harm() -> None:
    payload = b"x"
    mine, other = (attest.sign("t", payload, signer) for signer in (LEDGER, STRANGER))
    both = {**mine, "signatures": other["signatures"] + mine["signatures"]}
    assert attest.verify(both, "t", KEYRING, "ledger") == payload


def test_the_record_keeps_of_an_envelope_only_what_keys_of_the_role_have_signed() -> None:
    """Whoever carries the file may add members, strangers' signatures, one of ours twice or over other bytes."""
    mine, strange = (attest.sign("t", b"x", signer) for signer in (LEDGER, STRANGER))
    other = attest.sign("t", b"y", LEDGER)
    everyone = strange["signatures"] + mine["signatures"] + other["signatures"] + mine["signatures"]
    carried = {**mine, "note": "nobody signed this", "signatures": everyone}
    assert attest.kept(carried, KEYRING, "ledger") == mine
    assert attest.kept(strange, KEYRING, "ledger") == {**mine, "signatures": []}
    with pytest.raises(MalformedError):
        attest.kept({"payload": "eA=="}, KEYRING, "ledger")


@pytest.mark.parametrize("role", ["release", "revocation"])
def test_a_key_cannot_speak_for_another_role(role: str) -> None:
    with pytest.raises(SignatureError):
        attest.verify_statement(attest.sign_statement(a_statement(), LEDGER), KEYRING, role)


def test_no_forgery_counts() -> None:
    envelope = attest.sign_statement(a_statement(), LEDGER)
    changed = base64.b64encode(canonical(a_statement(verdict_note="changed"))).decode()
    forgeries: list[dict[str, Any]] = [
        {**envelope, "payload": changed},
        {**envelope, "payloadType": "text/plain"},
        {**envelope, "signatures": []},
        {**envelope, "signatures": [{**envelope["signatures"][0], "keyid": RELEASE.key_id}]},
        {**envelope, "signatures": [{"sig": envelope["signatures"][0]["sig"]}]},
        attest.sign_statement(a_statement(), STRANGER),
        attest.sign("text/plain", canonical(a_statement()), LEDGER),
    ]
    for forged in forgeries:
        with pytest.raises(SignatureError):
            attest.verify_statement(forged, KEYRING)


NO_OBJECT, LACKS, LARGE, NO_SIGNATURE, NO_KEY, NO_BASE64 = (
    "an envelope is a JSON object",
    "an envelope has payload, payloadType and signatures",
    "an envelope that is too large",
    "a signature has keyid and sig",
    "a signature's keyid is text",
    "",
)


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        (None, NO_OBJECT),
        ([], NO_OBJECT),
        ("x", NO_OBJECT),
        ({}, LACKS),
        ({"payload": 1, "payloadType": "t", "signatures": []}, LACKS),
        ({"payload": "", "payloadType": 1, "signatures": []}, LACKS),
        ({"payload": "", "payloadType": "t", "signatures": {}}, LACKS),
        ({"payload": "", "payloadType": "é", "signatures": []}, LARGE),
        ({"payload": "", "payloadType": "t", "signatures": [1]}, NO_SIGNATURE),
        ({"payload": "", "payloadType": "t", "signatures": [{"keyid": ""}]}, NO_SIGNATURE),
        ({"payload": "", "payloadType": "t", "signatures": [{"keyid": 1, "sig": ""}]}, NO_KEY),
        ({"payload": "*", "payloadType": "t", "signatures": []}, NO_BASE64),
        ({"payload": "é", "payloadType": "t", "signatures": []}, NO_BASE64),
        ({"payload": "", "payloadType": "t", "signatures": [{"keyid": "", "sig": ""}] * 17}, LARGE),
    ],
)
def test_malformed_envelopes_are_malformed(envelope: object, words: str) -> None:
    with pytest.raises(MalformedError) as told:
        attest.verify(envelope, "t", KEYRING, "ledger")
    assert words in {"", str(told.value)}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b"{ }",
        canonical({**a_statement(), "_type": "https://in-toto.io/Statement/v0.1"}),
        canonical({**a_statement(), "predicateType": "https://slsa.dev/provenance/v1"}),
        canonical({**a_statement(), "subject": []}),
        canonical({**a_statement(), "predicate": "accepted"}),
        canonical(a_statement()) + b"\n",
    ],
)
def test_a_signed_payload_that_is_no_statement_of_ours_is_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedError):
        attest.verify_statement(attest.sign(attest.PAYLOAD_TYPE, payload, LEDGER), KEYRING)
